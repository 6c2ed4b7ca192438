use super::*;

#[test]
fn texts_say_nothing_of_a_statement() {
    assert_eq!(
        without_texts("SELECT 'pg_1',  a -- pg_2\nFROM t WHERE b::regclass = 1"),
        "SELECT,aFROMtWHEREb::regclass=1"
    );
    assert_eq!(without_texts("SELECT 'open"), "SELECT 'open");
}

#[test]
fn a_statement_is_about_the_catalog_by_the_names_that_it_uses() {
    for text in [
        "SELECT relname FROM pg_class",
        "SELECT 1; SELECT c.relname FROM pg_catalog.pg_class c",
        "SELECT (SELECT count(*) FROM pg_inherits)",
        "SELECT current_user",
        "SELECT current_schema",
        "select Version()",
        "SELECT 't'::regclass",
        "SELECT to_regtype('int4')",
        "SELECT a FROM t WHERE b OPERATOR(pg_catalog.=) ANY (ARRAY[1])",
        "SELECT has_table_privilege('t', 'SELECT')",
        "SELECT column_name FROM information_schema.columns",
        "SELECT column_name FROM \"information_schema\".\"columns\"",
        "SELECT * FROM pg_show_all_settings()",
        "SELECT a FROM t WHERE b OPERATOR(pg_catalog.~) '^x'",
        "SELECT pg_backend_pid() FROM (no sql",
    ] {
        assert!(is_about(text), "{text}");
    }
    for text in [
        "SELECT v FROM pg_readings",
        "SELECT pg_load FROM reads WHERE pg_load > 1 AND meter = 'pg_class'",
        "SELECT pg_v FROM reads -- pg_class",
        "SELECT current_user_id FROM reads",
        "SELECT v AS current_setting FROM reads",
        "SELECT table_name FROM information_schema.tables",
        "INSERT INTO t SELECT relname FROM pg_class",
    ] {
        assert!(!is_about(text), "{text}");
    }
}
