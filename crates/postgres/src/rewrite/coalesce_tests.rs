use super::*;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

#[test]
fn calls_within_calls_are_one() {
    for (written, is) in [
        ("coalesce(coalesce(a, b), c)", "coalesce(a, b, c)"),
        ("coalesce(a, COALESCE(b, coalesce(c, 1)), 2)", "coalesce(a, b, c, 1, 2)"),
        ("coalesce(coalesce(a, b) + 1, c)", "coalesce(coalesce(a, b) + 1, c)"),
        ("nullif(coalesce(a, b), c)", "nullif(coalesce(a, b), c)"),
    ] {
        let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, &format!("SELECT {written}")).unwrap().remove(0);
        within_each_other(&mut statement);
        assert_eq!(statement.to_string(), format!("SELECT {is}"));
    }
}
