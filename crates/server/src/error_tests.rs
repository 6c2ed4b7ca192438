use super::*;

#[test]
fn a_place_is_counted_in_characters() {
    let text = "SELECT 'ä',\n  nope FROM t";
    let at = |line, column| position(TextPosition::At { line, column }, text);
    assert_eq!(at(2, 3), Some(15));
    assert_eq!(at(1, 8), Some(8));
    assert_eq!(position(TextPosition::End, "SELECT ä +"), Some(11));
    for (line, column) in [(0, 1), (9, 1), (1, 99), (1, u64::MAX), (2, u64::MAX)] {
        assert_eq!(at(line, column), None, "{line}:{column}");
    }
}

#[test]
fn an_error_has_the_sqlstate_of_its_code_whatever_its_message_says() {
    let error = postgres_error(&Error::new(Code::Conflict, "rows of 'cancelled_orders' were not found"));
    let PgWireError::UserError(info) = error else { panic!("{error:?}") };
    assert_eq!(info.code, "40001");
}
