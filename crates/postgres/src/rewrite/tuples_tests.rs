use super::{MAX_COLUMNS, by_columns};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

fn written(expr: &str) -> String {
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, &format!("SELECT {expr}")).unwrap().remove(0);
    by_columns(&mut statement).unwrap();
    statement.to_string().strip_prefix("SELECT ").unwrap().to_owned()
}

#[test]
fn rows_are_compared_column_by_column() {
    for (of, columns) in [
        ("(a, b) = (1, 2)", "((a) = (1) AND (b) = (2))"),
        ("(a, b) <> ROW(1, 2)", "((a) <> (1) OR (b) <> (2))"),
        ("(a, b) > (1, 2)", "((a) >= (1) AND ((a) > (1) OR (b) > (2)))"),
        ("ROW(a, b, c) <= (1, 2, 3)", "((a) <= (1) AND ((a) < (1) OR ((b) <= (2) AND ((b) < (2) OR (c) <= (3)))))"),
        ("(a, b) = (1, 2, 3)", "(a, b) = (1, 2, 3)"),
        ("(a, b) = c", "(a, b) = c"),
        ("(a) > (1)", "(a) > (1)"),
    ] {
        assert_eq!(written(of), columns, "{of}");
    }
}

#[test]
fn rows_of_as_many_columns_as_can_be_are_compared() {
    let row = |columns: usize| vec!["a"; columns].join(", ");
    let compared = |columns: usize| {
        let sql = format!("SELECT ({0}) < ({0})", row(columns));
        let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, &sql).unwrap().remove(0);
        by_columns(&mut statement).map(|()| statement.to_string())
    };
    assert!(compared(MAX_COLUMNS).unwrap().starts_with("SELECT ((a) <= (a) AND "));
    assert!(
        compared(MAX_COLUMNS + 1).unwrap_err().to_string().contains("rows of 9 columns are compared, the most is 8")
    );
}
