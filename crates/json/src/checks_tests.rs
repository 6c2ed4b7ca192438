use super::{concat_of, put_pretty, put_set, put_stripped};
use crate::canonical::canonical;
use crate::reader::Reader;

#[test]
fn two_values_are_joined() {
    for (left, right, joined) in [
        ("{\"a\": 1}", "{\"a\": 2, \"b\": 3}", "{\"a\": 2, \"b\": 3}"),
        ("[1]", "[2]", "[1, 2]"),
        ("[1]", "2", "[1, 2]"),
        ("1", "2", "[1, 2]"),
        ("{}", "[1]", "[{}, 1]"),
        ("[]", "[]", "[]"),
        ("{}", "{}", "{}"),
    ] {
        assert_eq!(concat_of(left, right).unwrap(), joined, "{left} {right}");
    }
}

#[test]
fn a_value_is_set_at_its_path() {
    let set = |target: &str, path: &[&str], creates: bool| {
        let path: Vec<String> = path.iter().map(|step| (*step).to_owned()).collect();
        let mut out = String::new();
        put_set(target, (&path, 1), "9", creates, &mut out).map(|()| canonical(&out).unwrap())
    };
    for (target, path, creates, result) in [
        ("{\"a\": {\"b\": 1}}", &["a", "b"][..], false, "{\"a\": {\"b\": 9}}"),
        ("{\"a\": 1}", &["b"], true, "{\"a\": 1, \"b\": 9}"),
        ("{\"a\": 1}", &["b"], false, "{\"a\": 1}"),
        ("{\"a\": 1}", &["b", "c"], true, "{\"a\": 1}"),
        ("[1, 2]", &["0"], true, "[9, 2]"),
        ("[1, 2]", &["-1"], true, "[1, 9]"),
        ("[1, 2]", &["5"], true, "[1, 2, 9]"),
        ("[1, 2]", &["-5"], true, "[9, 1, 2]"),
        ("[1, 2]", &["5"], false, "[1, 2]"),
        ("[1]", &[], true, "[1]"),
    ] {
        assert_eq!(set(target, path, creates).unwrap(), result, "{target} {path:?}");
    }
    assert!(set("[1]", &["a"], true).is_err());
}

#[test]
fn values_are_written_on_lines_and_without_nulls() {
    let mut pretty = String::new();
    put_pretty(&mut Reader::new("{\"a\": [1, {}], \"b\": \"x\"}"), 0, &mut pretty).unwrap();
    assert_eq!(pretty, "{\n    \"a\": [\n        1,\n        {\n        }\n    ],\n    \"b\": \"x\"\n}");
    let mut stripped = String::new();
    put_stripped(&mut Reader::new("{\"a\":null, \"b\" : [null, {\"c\":null}]}"), &mut stripped).unwrap();
    assert_eq!(stripped, "{\"b\":[null,{}]}");
}
