use super::*;
use fleetdb_engine::TextPosition;

#[test]
fn each_kind_of_error_has_a_code() {
    let cases = [
        (Code::Syntax, FLEETDB_INVALID),
        (Code::Busy, FLEETDB_BUSY),
        (Code::LockNotAvailable, FLEETDB_BUSY),
        (Code::Conflict, FLEETDB_CONFLICT),
        (Code::Cancelled, FLEETDB_CANCELLED),
        (Code::OutOfMemory, FLEETDB_MEMORY),
        (Code::DiskFull, FLEETDB_FULL),
        (Code::Closed, FLEETDB_CLOSED),
        (Code::Damaged, FLEETDB_DAMAGED),
        (Code::Io, FLEETDB_IO),
        (Code::Bug, FLEETDB_BUG),
    ];
    for (code, expected) in cases {
        assert_eq!(Fault::from(Error::new(code, "m")).code, expected, "{code:?}");
    }
}

#[test]
fn a_message_has_the_place_and_the_hint() {
    let error = Error::invalid("no\0pe").at(TextPosition::At { line: 1, column: 8 }).with_hint("Try.");
    let fault = Fault::from(error);
    assert_eq!(fault.message, "no\0pe (line 1, column 8)\nHINT: Try.");
    assert_eq!(keep(&fault), FLEETDB_INVALID);
    assert_eq!(LAST.with(|last| last.borrow().as_ref().map(|kept| kept.state.clone())).unwrap().as_c_str(), c"42000");
    assert_eq!(c_text("a\0b").as_c_str(), c"a b");
    let (message, _) = last();
    assert!(!message.is_null());
}
