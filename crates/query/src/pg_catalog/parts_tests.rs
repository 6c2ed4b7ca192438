use super::*;

#[test]
fn parts_are_replaced_however_they_are_spaced() {
    let text = "SELECT a WHERE  s IN (SELECT\n CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim( s[i] ) END FROM generate_series(
        array_lower(string_to_array(current_setting('search_path'),','),1), array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
        string_to_array(current_setting('search_path'),',') s)";
    assert_eq!(replaced(text), "SELECT a WHERE s IN ( 'public' )");
    assert_eq!(replaced("select * From PG_CURSORS  c"), "select * FROM pg_catalog.pg_cursors c");
    for same in [
        "SELECT  current_database()",
        "SELECT current_setting('a  b')",
        "SELECT 'open",
        "SELECT 'taken FROM pg_indexes'",
        "SELECT  'FROM pg_cursors',1",
    ] {
        assert_eq!(replaced(same), same);
    }
    assert_eq!(
        replaced("SELECT 'a  FROM pg_cursors' FROM pg_cursors"),
        "SELECT 'a  FROM pg_cursors' FROM pg_catalog.pg_cursors"
    );
}
