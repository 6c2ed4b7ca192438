use super::*;

#[test]
fn a_literal_is_read_back_as_the_text() {
    assert_eq!(literal("it's"), "'it''s'");
    assert_eq!(literal(r"a\b"), r"E'a\\b'");
    assert_eq!(literal(""), "''");
}
