//! The text of an error, as both faces give it.

use fleetdb_engine::{Error, TextPosition};

/// The message of an error, with its place in the statement and its hint.
pub(crate) fn message_of(error: &Error) -> String {
    let mut message = error.to_string();
    if let Some(TextPosition::At { line, column }) = error.position() {
        message.push_str(&format!(" (line {line}, column {column})"));
    }
    if let Some(hint) = error.hint() {
        message.push_str("\nHINT: ");
        message.push_str(hint);
    }
    message
}
