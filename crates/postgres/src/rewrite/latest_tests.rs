use super::first_as_aggregate;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

fn rewritten(sql: &str) -> String {
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
    first_as_aggregate(&mut statement);
    statement.to_string()
}

#[test]
fn the_first_row_of_a_subquery_about_the_rows_around_it_is_an_aggregate() {
    assert_eq!(
        rewritten("SELECT (SELECT v FROM reads r WHERE r.id = m.id ORDER BY ts DESC, v LIMIT 1) FROM m"),
        "SELECT (SELECT first_value(v ORDER BY ts DESC, v) AS \"v\" FROM reads r WHERE r.id = m.id) FROM m"
    );
    assert_eq!(
        rewritten("SELECT (SELECT v FROM reads r WHERE r.id = m.id LIMIT 1) FROM m"),
        "SELECT (SELECT first_value(v) AS \"v\" FROM reads r WHERE r.id = m.id) FROM m"
    );
    assert_eq!(
        rewritten(
            r#"SELECT (SELECT U0."v" AS "v" FROM "reads" U0 WHERE U0."id" = ("m"."id") ORDER BY U0."ts" LIMIT 1)"#
        ),
        r#"SELECT (SELECT first_value(U0."v" ORDER BY U0."ts") AS "v" FROM "reads" U0 WHERE U0."id" = ("m"."id"))"#
    );
}

#[test]
fn an_aggregate_needs_no_limit() {
    assert_eq!(
        rewritten("SELECT (SELECT count(1) FROM reads r WHERE r.id = m.id LIMIT 1) FROM m"),
        "SELECT (SELECT count(1) FROM reads r WHERE r.id = m.id) FROM m"
    );
}

#[test]
fn other_subqueries_stay() {
    for sql in [
        // Uncorrelated.
        "SELECT (SELECT v FROM reads ORDER BY ts DESC LIMIT 1)",
        "SELECT (SELECT v FROM reads WHERE reads.id = 1 ORDER BY ts DESC LIMIT 1)",
        "SELECT (SELECT v FROM a JOIN b ON true WHERE a.id = b.id ORDER BY ts LIMIT 1)",
        // Not the first row, or not a column value.
        "SELECT (SELECT v FROM reads r WHERE r.id = m.id ORDER BY ts LIMIT 2) FROM m",
        "SELECT (SELECT v FROM reads r WHERE r.id = m.id ORDER BY ts LIMIT 1 OFFSET 1) FROM m",
        "SELECT (SELECT v FROM reads r WHERE r.id = m.id ORDER BY 1 LIMIT 1) FROM m",
        "SELECT (SELECT count(*) FROM reads r WHERE r.id = m.id LIMIT 0) FROM m",
        "SELECT (SELECT count(*) FROM reads r WHERE r.id = m.id GROUP BY v LIMIT 1) FROM m",
        "SELECT (SELECT v FROM reads r WHERE r.id = m.id GROUP BY v ORDER BY v LIMIT 1) FROM m",
    ] {
        assert_eq!(rewritten(sql), sql);
    }
}
