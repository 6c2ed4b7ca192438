use super::resolve;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

fn resolved(sql: &str) -> String {
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
    resolve(&mut statement);
    statement.to_string()
}

#[test]
fn relations_are_found_under_the_names_that_clients_use() {
    for (sql, expected) in [
        ("SELECT name FROM pg_cursors", "SELECT name FROM pg_catalog.pg_cursors"),
        ("SELECT v FROM pg_readings", "SELECT v FROM pg_readings"),
        ("SELECT 1 FROM pg_available_extensions() e", "SELECT 1 FROM pg_catalog.pg_available_extensions e"),
        ("SELECT 1 FROM PG_show_all_settings()", "SELECT 1 FROM pg_catalog.pg_settings AS pg_show_all_settings"),
        (
            "SELECT * FROM current_schema()",
            "SELECT * FROM (SELECT current_schema() AS current_schema) AS current_schema",
        ),
        ("SELECT d FROM current_database() AS d", "SELECT d FROM (SELECT current_database() AS d) AS d"),
        ("SELECT 1 FROM information_schema.tables", "SELECT 1 FROM information_schema.tables"),
        ("SELECT 1 FROM \"information_schema\".\"triggers\" t", "SELECT 1 FROM pg_catalog.fleetdb_triggers t"),
        (
            "SELECT information_schema.columns.data_type, columns.column_name FROM information_schema.columns",
            "SELECT columns.data_type, columns.column_name FROM pg_catalog.fleetdb_columns AS columns",
        ),
    ] {
        assert_eq!(resolved(sql), expected);
    }
}
