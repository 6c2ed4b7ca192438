use super::as_calls;
use datafusion::sql::sqlparser::parser::Parser;
use fleetdb_statement::grammar::Grammar;

fn rewritten(sql: &str) -> String {
    let mut statement = Parser::parse_sql(&Grammar::of(sql), sql).unwrap().remove(0);
    as_calls(&mut statement);
    statement.to_string()
}

#[test]
fn json_forms_become_calls() {
    for (of, form) in [
        ("SELECT '{}'::jsonb, CAST(x AS JSON), JSON '1'", "SELECT jsonb('{}'), json(x), json('1')"),
        ("SELECT $1::jsonb", "SELECT jsonb(CAST($1 AS TEXT))"),
        ("SELECT json_agg(v ORDER BY ts)", "SELECT json_array_of(array_agg(to_json(v) ORDER BY ts))"),
        (
            "SELECT jsonb_agg(v) FILTER (WHERE v > 1) FROM t",
            "SELECT jsonb_array_of(array_agg(to_jsonb(v)) FILTER (WHERE v > 1)) FROM t",
        ),
        ("SELECT jsonb_agg(DISTINCT v)", "SELECT to_jsonb(array_agg(DISTINCT v ORDER BY v))"),
        ("SELECT json_object_agg(k, v)", "SELECT json_object_of(array_agg(json_member(k, v)))"),
        ("SELECT to_json(t), to_json(u) FROM t", "SELECT to_json(json_row(t.*)), to_json(u) FROM t"),
        ("SELECT json_agg(x) FROM t AS x", "SELECT json_array_of_rows(array_agg(to_json(json_row(x.*)))) FROM t AS x"),
        (
            "SELECT jsonb_array_elements(j) ->> 'a' FROM t",
            "SELECT as_jsonb(unnest(json_values(jsonb(j)))) ->> 'a' FROM t",
        ),
        (
            "SELECT e ->> 'a', e FROM t, jsonb_array_elements(t.j) AS e WHERE e ? 'b' ORDER BY e -> 'c'",
            "SELECT \"e\".value ->> 'a', \"e\".value AS \"e\" FROM t, LATERAL (SELECT \
             as_jsonb(unnest(json_values(jsonb(t.j)))) AS value) AS e WHERE \"e\".value ? 'b' ORDER BY \"e\".value -> 'c'",
        ),
        (
            "SELECT k FROM json_object_keys('{}') AS k",
            "SELECT k FROM LATERAL (SELECT (unnest(json_keys('{}'))) AS k) AS k",
        ),
        (
            "SELECT 1 FROM t CROSS JOIN LATERAL json_each_text(t.j) AS e(k)",
            "SELECT 1 FROM t CROSS JOIN LATERAL (SELECT (unnest(json_pair_keys(t.j))) AS key, \
             (unnest(json_pair_texts(t.j))) AS value) AS e (k, value)",
        ),
        (
            "SELECT * FROM json_array_elements('[1]') WITH ORDINALITY AS e(v, n)",
            "SELECT * FROM LATERAL (SELECT as_json(unnest(json_values('[1]'))) AS value, \
             unnest(json_numbers(json_values('[1]'))) AS ordinality) AS e (v, n)",
        ),
        ("VALUES (1, '{}'::jsonb), (2, NULL), (3, '1')", "VALUES (1, jsonb('{}')), (2, jsonb(NULL)), (3, jsonb('1'))"),
        (
            "INSERT INTO t VALUES ('{}'::jsonb), ('x'), (to_json(1))",
            "INSERT INTO t VALUES (CAST(jsonb('{}') AS TEXT)), ('x'), (CAST(to_json(1) AS TEXT))",
        ),
        ("SELECT (SELECT max(v) FROM t) FROM u", "SELECT (SELECT max(v) FROM t) FROM u"),
    ] {
        assert_eq!(rewritten(of), form, "{of}");
    }
}
