use super::*;
use fleetdb_engine::TextPosition;

#[test]
fn a_place_is_counted_in_characters() {
    let text = "SELECT 'ä',\n  nope FROM t";
    let at = |line, column| TextPosition::At { line, column }.in_text(text);
    assert_eq!(at(2, 3), Some(15));
    assert_eq!(at(1, 8), Some(8));
    assert_eq!(TextPosition::End.in_text("SELECT ä +"), Some(11));
    for (line, column) in [(0, 1), (9, 1), (1, 99), (1, u64::MAX), (2, u64::MAX)] {
        assert_eq!(at(line, column), None, "{line}:{column}");
    }
}

#[test]
fn an_error_has_the_sqlstate_of_its_code_whatever_its_message_says() {
    let error = postgres_error(&Error::new(Code::Conflict, "rows of 'cancelled_orders' were not found"));
    let PgWireError::UserError(info) = told(error, None) else { panic!("no error of the engine") };
    assert_eq!(info.code, "40001");
}

#[test]
fn an_error_is_told_with_its_hint_and_its_position_in_the_text() {
    let error = Error::new(Code::UndefinedColumn, "column \"nope\" does not exist").with_hint("Look again.");
    let error = error.at(TextPosition::At { line: 2, column: 3 });
    let PgWireError::UserError(info) = told(postgres_error(&error), Some("SELECT 'ä',\n  nope")) else {
        panic!("no error of the engine")
    };
    assert_eq!((info.code.as_str(), info.position.as_deref()), ("42703", Some("15")));
    assert_eq!(info.hint.as_deref(), Some("Look again."));
    // Where nobody knows the text there is no position.
    let PgWireError::UserError(info) = told(postgres_error(&error), None) else { panic!("no error of the engine") };
    assert_eq!(info.position, None);
    let PgWireError::StatementNotFound(name) = told(PgWireError::StatementNotFound("s".to_owned()), None) else {
        panic!("an error of pgwire's became another")
    };
    assert_eq!(name, "s");
}
