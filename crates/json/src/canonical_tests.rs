use super::{canonical, exponent_bytes, put_number};
use crate::reader::Malformed;

#[test]
fn jsonb_has_each_key_once_in_order() {
    for (text, form) in [
        (r#"{"b":1,"a":2,"aa":3,"b":4}"#, r#"{"a": 2, "b": 4, "aa": 3}"#),
        (r#" { "x" : [ 1 , {"z":1,"y":null} ] } "#, r#"{"x": [1, {"y": null, "z": 1}]}"#),
        (r#"{"\u0061":1,"a":2}"#, r#"{"a": 2}"#),
        (r#"{"ä":1,"zz":2}"#, r#"{"zz": 2, "ä": 1}"#),
        ("[]", "[]"),
        ("{}", "{}"),
        (r#"["\u00e4\/"]"#, r#"["ä/"]"#),
    ] {
        assert_eq!(canonical(text).unwrap(), form);
    }
    assert_eq!(canonical(r#""\u0000""#), Err(Malformed::Escape));
}

#[test]
fn numbers_keep_their_digits_and_lose_their_exponent() {
    for (number, form) in [
        ("1", "1"),
        ("1.50", "1.50"),
        ("-0", "0"),
        ("-0.00", "0.00"),
        ("1e5", "100000"),
        ("1E+2", "100"),
        ("1.5e-3", "0.0015"),
        ("150e-1", "15.0"),
        ("1.50e1", "15.0"),
        ("12.345e2", "1234.5"),
        ("0e5", "0"),
        ("0e-5", "0.00000"),
        ("-12e-5", "-0.00012"),
        ("123456789012345678901234567890.10", "123456789012345678901234567890.10"),
    ] {
        let mut out = String::new();
        put_number(number, &mut out).unwrap();
        assert_eq!(out, form, "{number}");
    }
    for number in ["1e1001", "1e-1001", "1e99999999999999999999"] {
        assert_eq!(put_number(number, &mut String::new()), Err(Malformed::Number));
    }
}

#[test]
fn the_size_of_exponents_is_known_before() {
    assert!(exponent_bytes("[1e1000,1e1000]") >= canonical("[1e1000,1e1000]").unwrap().len() as f64 - 15.0);
    assert!(exponent_bytes("[\"see\"]").abs() < 0.5);
}
