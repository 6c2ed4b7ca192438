use super::{Item, item_name, items, name_derived, name_ordered, names_of, tell_apart};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::sql::sqlparser::ast::{SetExpr, Statement};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::sync::Arc;

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

/// The expected names are PostgreSQL 15's.
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
        ("'{1}'::int[]", "int4"),
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
    let apart = |text: &str| text.replace(':', "\u{1f}");
    let mut twice = body("SELECT v, V, 1, 1, w FROM t UNION ALL SELECT v, V, 1, 1, w FROM t");
    tell_apart(&mut twice);
    let select = "SELECT v, V AS \"v:2\", 1, 1 AS \"?column?:4\", w FROM t";
    assert_eq!(twice.to_string(), apart(&format!("{select} UNION ALL {select}")));
    assert_eq!(names(&twice), ["v", "v", "?column?", "?column?", "w"]);
    let mut named = body("SELECT v AS a, w AS A, w AS \"A\" FROM t");
    tell_apart(&mut named);
    assert_eq!(named.to_string(), apart("SELECT v AS a, w AS \"a:2\", w AS \"A\" FROM t"));
    assert_eq!(names(&named), ["a", "a", "A"]);
    let mut cast = body("SELECT ts, ts::date, 'a', ('a')::text FROM t");
    tell_apart(&mut cast);
    let told = cast.to_string().replace("::", "~");
    assert_eq!(told, apart("SELECT ts, ts~DATE AS \"ts:2\", 'a', ('a')~TEXT AS \"text:4\" FROM t"));
    assert_eq!(names(&cast), ["ts", "ts", "?column?", "text"]);
    let mut mixed = body("SELECT ts, t.v, *, w + 1 FROM t");
    tell_apart(&mut mixed);
    assert_eq!(mixed.to_string(), apart("SELECT ts AS \"ts:1\", t.v AS \"v:2\", *, w + 1 FROM t"));
    assert_eq!(names(&mixed), ["ts", "v", "*", "?column?"]);
    // Each parameter may become the same value as another, and as one that is written there.
    let mut equal = body("SELECT v = $1, v = $2, v = -5, $1, 7, w FROM t");
    tell_apart(&mut equal);
    let told = "SELECT v = $1, v = $2 AS \"?column?:2\", v = -5 AS \"?column?:3\", $1, 7 AS \"?column?:5\", w FROM t";
    assert_eq!(equal.to_string(), apart(told));
}

#[test]
fn columns_of_subqueries_have_the_names_of_postgres() {
    let named = |sql: &str| {
        let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
        name_derived(&mut statement);
        statement.to_string()
    };
    assert_eq!(
        named("SELECT max(count) FROM (SELECT count(*), ts::date, v, 1, sum(a), sum(b) FROM t) AS x"),
        "SELECT max(count) FROM (SELECT count(*) AS \"count\", ts::DATE AS \"ts\", v, 1, sum(a), sum(b) FROM t) AS x"
    );
    assert_eq!(
        named("SELECT * FROM (SELECT $1, $2::int, $3::int, DATE '2026-01-01') AS x").replace('\u{1f}', ":"),
        "SELECT * FROM (SELECT $1 AS \"?column?:1\", $2::INT AS \"int4:2\", $3::INT AS \"int4:3\", \
         DATE '2026-01-01' AS \"date\") AS x"
    );
    assert_eq!(
        named("SELECT v FROM t WHERE (a, b) IN (SELECT $1, $2) AND v = (SELECT max(v) FROM t)").replace('\u{1f}', ":"),
        "SELECT v FROM t WHERE (a, b) IN (SELECT $1 AS \"?column?:1\", $2 AS \"?column?:2\") \
         AND v = (SELECT max(v) FROM t)"
    );
    assert_eq!(
        named("WITH a AS (SELECT max(v) FROM t UNION SELECT min(v) FROM t), b (c) AS (SELECT max(v) FROM t) TABLE a"),
        "WITH a AS (SELECT max(v) AS \"max\" FROM t UNION SELECT min(v) FROM t), \
         b (c) AS (SELECT max(v) FROM t) TABLE a"
    );
    assert_eq!(
        named("CREATE TABLE n AS SELECT id, max(v) FROM t GROUP BY id"),
        "CREATE TABLE n AS SELECT id, max(v) AS \"max\" FROM t GROUP BY id"
    );
}

#[test]
fn names_in_front_of_and_behind_wildcards_are_known() {
    let names =
        names_of(&Parser::parse_sql(&PostgreSqlDialect {}, "SELECT max(v), t.*, v, u.*, 1 FROM t, u").unwrap()[0]);
    let schema = |names: &[&str]| {
        Arc::new(Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect::<Vec<_>>()))
    };
    let planned = schema(&["max(t.v)", "id", "v\u{1f}3", "w", "Int64(1)"]);
    assert_eq!(names.of(&planned), schema(&["max", "id", "v", "w", "?column?"]));
    let too_few = schema(&["max(t.v)"]);
    assert_eq!(names.of(&too_few), too_few);
}

#[test]
fn a_window_that_rows_are_ordered_by_has_a_name() {
    let ordered = |sql: &str| {
        let Statement::Query(mut query) = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0) else {
            panic!("{sql}");
        };
        name_ordered(&mut query);
        query.to_string()
    };
    assert_eq!(
        ordered("SELECT id, rank() OVER (ORDER BY max(v)), max(v) FROM t GROUP BY id ORDER BY 2, 3, 1, 9"),
        "SELECT id, rank() OVER (ORDER BY max(v)) AS \"rank\u{1f}2\", max(v) FROM t GROUP BY id ORDER BY 2, 3, 1, 9"
    );
}
