use super::*;

#[test]
fn compared_literals_become_parameters() {
    for (text, without, values) in [
        ("select * from t where id=7", "select * from t where id=$1", vec![Value::Int(7)]),
        (
            " SELECT a = 5 FROM t AS x WHERE (x.\"Id\" < 3 OR x.b BETWEEN 1 AND 9) GROUP BY 1;",
            "SELECT a = 5 FROM t AS x WHERE (x.\"Id\" < $1 OR x.b BETWEEN $2 AND $3) GROUP BY 1",
            vec![Value::Int(3), Value::Int(1), Value::Int(9)],
        ),
        (
            "SELECT 1 FROM t WHERE ts > timestamp '2026-01-01' AND site = 'a' ORDER BY 1 LIMIT 3",
            "SELECT 1 FROM t WHERE ts > timestamp '2026-01-01' AND site = $1 ORDER BY 1 LIMIT 3",
            vec![Value::Text("a".into())],
        ),
        (
            "SELECT 'it''s' FROM t WHERE a = 'it''s' AND b = 1",
            "SELECT 'it''s' FROM t WHERE a = 'it''s' AND b = $1",
            vec![Value::Int(1)],
        ),
        // Parts of an expression, other forms of literals, and bounds of other things stay.
        (
            "SELECT a FROM t WHERE a = 1 + 2 AND b = -3 AND c = 1.5 AND d = 5::text AND 4 = e AND f = 6",
            "SELECT a FROM t WHERE a = 1 + 2 AND b = -3 AND c = 1.5 AND d = 5::text AND 4 = e AND f = $1",
            vec![Value::Int(6)],
        ),
        (
            "SELECT a FROM t WHERE a BETWEEN 1 AND 2 + 3 AND b IN (1, 2 + 1) AND abs(c) = 4 AND NULL = 5 AND g = 8",
            "SELECT a FROM t WHERE a BETWEEN $1 AND 2 + 3 AND b IN (1, 2 + 1) AND abs(c) = 4 AND NULL = 5 AND g = $2",
            vec![Value::Int(1), Value::Int(8)],
        ),
        (
            "SELECT a FROM t WHERE t.b IN (7,'x') OR \"c\" NOT IN (3) ORDER BY a",
            "SELECT a FROM t WHERE t.b IN ($1,$2) OR \"c\" NOT IN ($3) ORDER BY a",
            vec![Value::Int(7), Value::Text("x".into()), Value::Int(3)],
        ),
        (
            "SELECT a FROM t WHERE (a) IN (1, 2) AND NOT IN (3) AND f(4, 5) AND b IN (SELECT 6) AND c = ANY(7) AND d = 8",
            "SELECT a FROM t WHERE (a) IN (1, 2) AND NOT IN (3) AND f(4, 5) AND b IN (SELECT 6) AND c = ANY(7) AND d = $1",
            vec![Value::Int(8)],
        ),
        // Programs say in comments where a statement comes from.
        (
            "/* report */ SELECT a/*b*/FROM t WHERE id = 1 -- = 2\n AND b = /* 3; /* 4 */ */ 5 /*traceparent='00-4b-01'*/",
            "SELECT a FROM t WHERE id = $1   AND b =   $2  ",
            vec![Value::Int(1), Value::Int(5)],
        ),
        ("SELECT 1;", "SELECT 1", Vec::new()),
        ("SELECT 1 + 2, 'a'", "SELECT 1 + 2, 'a'", Vec::new()),
        ("SELECT 1 AS one, CAST(2 AS bigint)", "SELECT 1 AS one, CAST(2 AS bigint)", Vec::new()),
        ("SELECT 1::int + 2, NULL", "SELECT 1::int + 2, NULL", Vec::new()),
        ("SELECT count(*) FROM t LIMIT 5;", "SELECT count(*) FROM t LIMIT 5", Vec::new()),
        (
            "SELECT 1 AS n FROM t WHERE a = 2 UNION ALL SELECT 3 FROM u JOIN v ON v.b = 4 LEFT JOIN w ON w.c > 'x' WHERE d = 5",
            "SELECT 1 AS n FROM t WHERE a = $1 UNION ALL SELECT 3 FROM u JOIN v ON v.b = $2 LEFT JOIN w ON w.c > $3 WHERE d = $4",
            vec![Value::Int(2), Value::Int(4), Value::Text("x".into()), Value::Int(5)],
        ),
    ] {
        let values = Some(ComparedLiterals { text: without.to_owned(), values });
        assert_eq!(ComparedLiterals::of(text), values, "{text}");
    }
}

#[test]
fn other_texts_stay() {
    for text in [
        "SELECT now()",
        "SELECT current_user",
        "SELECT CAST(now() AS date)",
        "SELECT 'now'::timestamp",
        "SELECT current_date AS today",
        "SELECT 1 AS one, random()",
        "INSERT INTO t SELECT 1 WHERE a = 2",
        "SELECT a FROM t WHERE id = $1 AND b = 2",
        "SELECT a FROM t WHERE id = 1; SELECT a FROM t WHERE id = 2",
        "-- SELECT a FROM t WHERE id = 1",
        "/* a */ UPDATE t SET a = 1 WHERE id = 1",
        "-- a\rDELETE FROM t;\nSELECT 1",
        "SELECT a FROM t WHERE id = 1 /* open",
        "SELECT a FROM t WHERE id = 1 AND b = E'\\n'",
        "SELECT a FROM t WHERE id = 1 AND b = $$x$$",
        "SELECT 'open FROM t WHERE id = 1",
        "",
    ] {
        assert_eq!(ComparedLiterals::of(text), None, "{text}");
    }
}
