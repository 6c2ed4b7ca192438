use super::*;

fn fails(line: &str) -> LineError {
    parse_line(line, 0).expect_err(line)
}

#[test]
fn a_line_is_taken_apart() {
    let line =
        parse_line(r#"we\,ather,lo\ c=us\=mid,b=c t=82,n=-3i,u=4u,ok=t,s="a \"b\" \\ c,=" 1465839830"#, 0).unwrap();
    assert_eq!(line.measurement, "we,ather");
    assert_eq!(line.parts[0].name, "lo c");
    let values: Vec<_> = line.parts.iter().map(|part| part.value.clone()).collect();
    assert_eq!(
        values,
        [
            FieldValue::Text("us=mid".into()),
            FieldValue::Text("c".into()),
            FieldValue::Float(82.0),
            FieldValue::Int(-3),
            FieldValue::UInt(4),
            FieldValue::Boolean(true),
            FieldValue::Text("a \"b\" \\ c,=".into())
        ]
    );
    assert_eq!(line.time, Some(1_465_839_830));
    assert_eq!(parse_line("m v=1", 0).unwrap().time, None);
    let line = parse_line(" \tm  \tv=\"a\nb\" \t 7", 2).unwrap();
    assert_eq!((&*line.measurement, line.time), ("m", Some(7)));
    assert_eq!(line.parts[0].value, FieldValue::Text("a\nb".into()));
}

#[test]
fn a_quote_is_escaped_in_the_names_of_measurements_and_fields() {
    let line = parse_line(r#"m\",t\"=v\" f\"=1,g\\"=2"#, 0).unwrap();
    assert_eq!(line.measurement, "m\"");
    let names: Vec<_> = line.parts.iter().map(|part| &*part.name).collect();
    assert_eq!(names, ["t\\\"", "f\"", "g\\\""]);
    assert_eq!(line.parts[0].value, FieldValue::Text("v\\\"".into()));
}

#[test]
fn a_wrong_line_is_refused_where_it_is_wrong() {
    for (line, column) in [
        (",a=b v=1", 1),
        ("m", 2),
        ("m ", 3),
        ("m,a v=1", 3),
        ("m,a= v=1", 5),
        ("m,a=b=c v=1", 6),
        ("m v", 3),
        ("m v=", 5),
        ("m v=1x", 5),
        ("m v=nan", 5),
        ("m v=99999999999999999999i", 5),
        ("m v=\"a", 5),
        ("m v=\"a\"b", 8),
        ("m v=1,", 7),
        ("m v=1 2.5", 7),
        ("m v=1 99999999999999999999", 7),
        // Rust parses these as numbers; line protocol does not.
        ("m v=+1", 5),
        ("m v=+1i", 5),
        ("m v=-inf", 5),
        ("m v=1e400", 5),
        ("m v=1 +5", 7),
    ] {
        assert_eq!(fails(line).column, column, "{line}");
    }
}
