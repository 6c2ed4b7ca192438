use super::{MAX_COMPARED, holds, names};

fn contains(text: &str, part: &str) -> bool {
    holds(text, part, true, &mut MAX_COMPARED.clone()).unwrap()
}

#[test]
fn a_value_contains_its_parts() {
    for (text, part) in [
        (r#"{"a": 1, "b": {"c": 2, "d": 3}}"#, r#"{"b": {"c": 2}}"#),
        ("[1, 2, [3, 4]]", "[[4], 1, 1]"),
        (r#"["a", "b"]"#, r#""b""#),
        ("[1.0]", "[1]"),
        (r#"{"a": []}"#, r#"{"a": []}"#),
        ("{}", "{}"),
        ("null", "null"),
        ("10", "10.00"),
    ] {
        assert!(contains(text, part), "{text} {part}");
    }
    for (text, part) in [
        (r#"{"a": 1}"#, r#"{"a": 2}"#),
        (r#"{"a": [1]}"#, r#"{"a": 1}"#),
        (r#""b""#, r#"["b"]"#),
        ("[[1]]", "[1]"),
        ("{}", "[]"),
        ("10", "1"),
        ("[\"1\"]", "[1]"),
    ] {
        assert!(!contains(text, part), "{text} {part}");
    }
}

#[test]
fn a_comparison_of_too_many_arrays_ends() {
    let many = |value: &str| format!("[{}[]]", format!("[{value}],").repeat(2_000));
    assert!(holds(&many("1"), &many("2"), true, &mut 100_000).is_ok_and(|holds| !holds));
    assert!(holds(&many("[1]"), &many("[[]]"), true, &mut 1_000).is_err());
}

#[test]
fn names_are_keys_and_texts() {
    assert!(names(r#"{"a": "b"}"#).unwrap().contains("a"));
    assert!(!names(r#"{"a": "b"}"#).unwrap().contains("b"));
    assert!(names(r#"["b", 1]"#).unwrap().contains("b"));
    assert!(names("\"b\"").unwrap().contains("b"));
    assert!(names("1").unwrap().is_empty());
}
