use super::instead_of;
use fleetdb_statement::generated::expr_of;

#[test]
fn what_is_done_with_columns_of_numbers_is_done_with_arrays() {
    let of_vector = |column: &str| format!("CAST(string_to_array({column}, ' ') AS SMALLINT[])");
    let of_array = |column: &str| format!("CAST(string_to_array(TRIM({column}, '{{}}'), ',') AS SMALLINT[])");
    for (expr, instead) in [
        ("con.conkey[1]", format!("array_element({}, 1 + 0)", of_array("con.conkey"))),
        (r#""pg_index"."indkey"[0]"#, format!("array_element({}, 0 + 1)", of_vector(r#""pg_index"."indkey""#))),
        ("indkey[i.place]", format!("array_element({}, i.place + 1)", of_vector("indkey"))),
        ("a.attnum = ANY(i.indkey)", format!("a.attnum = ANY({})", of_vector("i.indkey"))),
        ("unnest(conkey)", format!("unnest({})", of_array("conkey"))),
        ("array_position(i.indkey, a.attnum)", format!("array_position({}, a.attnum)", of_vector("i.indkey"))),
        (r#"array_has("pg_index"."indkey", 1)"#, format!("array_has({}, 1)", of_vector(r#""pg_index"."indkey""#))),
        (
            "generate_subscripts(indkey, 1)",
            format!("unnest(range(0, CAST(array_length({}) AS BIGINT) + 0))", of_vector("indkey")),
        ),
        ("(con.conkey)::oid[]", of_array("con.conkey")),
    ] {
        let replaced = instead_of(&expr_of(expr).unwrap()).map(|expr| expr.to_string());
        assert_eq!(replaced, Some(instead), "{expr}");
    }
    for expr in ["a[1]", "1 = ANY(places)", "unnest(x)", "indkey", "monkey[1]"] {
        assert!(instead_of(&expr_of(expr).unwrap()).is_none(), "{expr}");
    }
}
