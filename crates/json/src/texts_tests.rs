use super::{decoded, put_quoted, shown};
use crate::reader::Malformed;

#[test]
fn escapes_are_read() {
    for (quoted, text) in [
        (r#""a""#, "a"),
        (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
        (r#""\u00e4\u20AC""#, "ä€"),
        (r#""\ud83d\ude00!""#, "😀!"),
        (r#""""#, ""),
    ] {
        assert_eq!(decoded(quoted).unwrap(), text, "{quoted}");
    }
    for quoted in [r#""\u0000""#, r#""\ud83d""#, r#""\ud83dx""#, r#""\ude00""#, r#""\ud83d\u0041""#] {
        assert_eq!(decoded(quoted), Err(Malformed::Escape), "{quoted}");
    }
}

#[test]
fn texts_are_written_with_the_escapes_of_postgres() {
    let mut out = String::new();
    put_quoted("ä\"\\/\u{8}\u{c}\n\r\t\u{1}\u{7f}", &mut out);
    assert_eq!(out, "\"ä\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\u{7f}\"");
}

#[test]
fn null_is_no_text() {
    assert_eq!(shown("null"), Ok(None));
    assert_eq!(shown("\"null\"").unwrap().unwrap(), "null");
    assert_eq!(shown("[null]").unwrap().unwrap(), "[null]");
}
