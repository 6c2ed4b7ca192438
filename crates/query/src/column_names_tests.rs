use super::{Item, item_name, items, tell_apart};
use datafusion::sql::sqlparser::ast::{SetExpr, Statement};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

fn body(sql: &str) -> SetExpr {
    match Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0) {
        Statement::Query(query) => *query.body,
        other => panic!("{other}"),
    }
}

fn names(body: &SetExpr) -> Vec<String> {
    let name = |of: &_| match item_name(of) {
        Item::Name(name) => name,
        Item::Wildcard => "*".to_owned(),
    };
    items(body).unwrap().iter().map(name).collect()
}

/// The names were looked up with PostgreSQL 15.
#[test]
fn columns_have_the_names_of_postgres() {
    for (of, name) in [
        ("ts", "ts"),
        ("r.\"Ts\"", "Ts"),
        ("TS", "ts"),
        ("count(*)", "count"),
        ("pg_catalog.version()", "version"),
        ("max(v) FILTER (WHERE v > 1)", "max"),
        ("lag(v) OVER (ORDER BY ts)", "lag"),
        ("max(v) + 1", "?column?"),
        ("-1", "?column?"),
        ("'x'", "?column?"),
        ("NULL", "?column?"),
        ("true", "?column?"),
        ("1::bigint", "int8"),
        ("'x'::text", "text"),
        ("CAST('1' AS DOUBLE PRECISION)", "float8"),
        ("1.5::numeric(10, 2)", "numeric"),
        ("ts::date", "ts"),
        ("(ts)", "ts"),
        ("DATE '2026-01-01'", "date"),
        ("INTERVAL '1 day'", "interval"),
        ("CASE WHEN true THEN 1 END", "case"),
        ("CASE WHEN true THEN 1 ELSE v END", "v"),
        ("CASE WHEN true THEN 1 ELSE v::int END", "v"),
        ("CASE WHEN true THEN 1 ELSE 2::int END", "case"),
        ("coalesce(v, 0)", "coalesce"),
        ("ARRAY[1, 2]", "array"),
        ("EXISTS (SELECT 1)", "exists"),
        ("(SELECT max(v) FROM t)", "max"),
        ("(SELECT 1 AS one)", "one"),
        ("extract(year FROM ts)", "extract"),
        ("ts AT TIME ZONE 'UTC'", "timezone"),
        ("substring('abc' FROM 1 FOR 2)", "substring"),
        ("trim(' a ')", "btrim"),
        ("v AS value", "value"),
        ("v AS \"Value\"", "Value"),
    ] {
        assert_eq!(names(&body(&format!("SELECT {of} FROM r"))), [name], "{of}");
    }
    assert_eq!(names(&body("(SELECT max(a) FROM t) UNION SELECT b FROM t")), ["max"]);
}

#[test]
fn what_is_there_twice_is_told_apart_and_keeps_its_name() {
    let mut twice = body("SELECT v, V, 1, 1, w FROM t UNION ALL SELECT v, V, 1, 1, w FROM t");
    tell_apart(&mut twice);
    let text = twice.to_string();
    let select = "SELECT v, V AS \"V:2\", 1, 1 AS \"1:4\", w FROM t";
    assert_eq!(text, format!("{select} UNION ALL {select}"));
    assert_eq!(names(&twice), ["v", "v", "?column?", "?column?", "w"]);
    let mut cast = body("SELECT ts, ts::date, 'a', ('a')::text FROM t");
    tell_apart(&mut cast);
    assert_eq!(cast.to_string(), "SELECT ts, ts::DATE AS \"ts::DATE:2\", 'a', ('a')::TEXT AS \"('a')::TEXT:4\" FROM t");
    assert_eq!(names(&cast), ["ts", "ts", "?column?", "text"]);
    let mut beside = body("SELECT ts, t.v, *, w + 1 FROM t");
    tell_apart(&mut beside);
    assert_eq!(beside.to_string(), "SELECT ts AS \"ts:1\", t.v AS \"t.v:2\", *, w + 1 FROM t");
    assert_eq!(names(&beside), ["ts", "v", "*", "?column?"]);
}
