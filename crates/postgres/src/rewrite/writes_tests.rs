use super::in_planned_form;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

fn planned(sql: &str) -> String {
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
    in_planned_form(&mut statement);
    statement.to_string()
}

#[test]
fn statements_that_write_are_in_planned_form() {
    for (of, form) in [
        ("UPDATE t SET v = m.v FROM m WHERE m.id = t.id", "UPDATE t CROSS JOIN m SET v = m.v WHERE m.id = t.id"),
        (
            "UPDATE t AS a SET v = 1 FROM m JOIN n ON m.id = n.id, o",
            "UPDATE t AS a CROSS JOIN (m JOIN n ON m.id = n.id) CROSS JOIN o SET v = 1",
        ),
        ("UPDATE t SET (a, b) = (1, DEFAULT), c = ROW(1)", "UPDATE t SET a = 1, b = DEFAULT, c = ROW(1)"),
        ("UPDATE t SET (a, b) = ROW(1, 2)", "UPDATE t SET a = 1, b = 2"),
        ("UPDATE t SET (a, b) = (SELECT 1, 2)", "UPDATE t SET (a, b) = (SELECT 1, 2)"),
        (
            "MERGE INTO t USING s ON true WHEN MATCHED THEN UPDATE SET (a, b) = (1, s.b)",
            "MERGE INTO t USING s ON true WHEN MATCHED THEN UPDATE SET a = 1, b = s.b",
        ),
        ("UPDATE t SET (a, b) = (1, 2, 3)", "UPDATE t SET (a, b) = (1, 2, 3)"),
    ] {
        assert_eq!(planned(of), form, "{of}");
    }
}
