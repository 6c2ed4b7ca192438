use super::*;

#[test]
fn a_place_is_counted_in_characters() {
    let text = "SELECT 'ä',\n  nope FROM t";
    assert_eq!(position("2:3", text), Some(15));
    assert_eq!(position("1:8", text), Some(8));
    assert_eq!(position("end", "SELECT ä +"), Some(11));
    for wrong in ["0:1", "9:1", "1:99", "x:1", "1:99999999999999999999"] {
        assert_eq!(position(wrong, text), None, "{wrong}");
    }
    assert_eq!(position(&format!("2:{}", usize::MAX), text), None);
}

#[test]
fn an_error_has_the_sqlstate_of_its_code_whatever_its_message_says() {
    let error = postgres_error(&Error::coded(Code::Conflict, "rows of 'cancelled_orders' were not found"));
    let PgWireError::UserError(info) = error else { panic!("{error:?}") };
    assert_eq!(info.code, "40001");
}
