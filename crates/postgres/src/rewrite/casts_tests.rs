use super::tell_apart;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

fn rewritten(sql: &str) -> String {
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
    tell_apart(&mut statement);
    statement.to_string()
}

#[test]
fn casts_of_one_operand_get_distinct_names() {
    assert_eq!(
        rewritten("SELECT max(ts::DATE), max(e.ts::TIME) FROM e ORDER BY max(ts::DATE)"),
        "SELECT max(coalesce(ts::DATE)), max(coalesce(coalesce(e.ts::TIME))) FROM e ORDER BY max(coalesce(ts::DATE))"
    );
    assert_eq!(rewritten("SELECT max(v), max(v::INT) FROM e"), "SELECT max(v), max(coalesce(v::INT)) FROM e");
    assert_eq!(
        rewritten("SELECT ts::DATE, count(*) FROM e GROUP BY 1, ts"),
        "SELECT coalesce(ts::DATE), count(*) FROM e GROUP BY 1, ts"
    );
    assert_eq!(
        rewritten("SELECT DISTINCT ON (ts::DATE, ts) id FROM e"),
        "SELECT DISTINCT ON (coalesce(ts::DATE), ts) id FROM e"
    );
}

#[test]
fn other_casts_stay() {
    for sql in [
        "SELECT ts::DATE, ts::TIME FROM e",
        "SELECT ts::DATE, max(v::INT) FROM e GROUP BY ts::DATE ORDER BY ts::DATE",
        "SELECT max(v::INT), max(v::INT) FROM e",
        "SELECT sum(a::INT), sum(b::BIGINT) FROM e",
        "SELECT *, v::TEXT FROM e GROUP BY ts, v",
        "SELECT ts::DATE, v::INT, sum(v::INT4) FROM e GROUP BY CAST(e.ts AS DATE), (v)::INTEGER",
    ] {
        assert_eq!(rewritten(sql), sql);
    }
}
