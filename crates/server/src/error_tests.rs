use super::*;

#[test]
fn a_place_is_counted_in_characters() {
    let text = "SELECT 'ä',\n  nope FROM t";
    assert_eq!(position("No field named nope. at Line: 2, Column: 3", text), Some(15));
    assert_eq!(position("ParserError(\"found: X at Line: 1, Column: 8\")", text), Some(8));
    assert_eq!(position("syntax: Expected: an expression, found: EOF", "SELECT ä +"), Some(11));
    for wrong in
        ["", " at Line: 0, Column: 0", " at Line: 9, Column: 1", " at Line: 1, Column: 99", " at Line: x, Column: 1"]
    {
        assert_eq!(position(wrong, text), None, "{wrong}");
    }
    assert_eq!(position(" at Line: 1, Column: 99999999999999999999", text), None);
    assert_eq!(position(&format!(" at Line: 2, Column: {}", usize::MAX), text), None);
}
