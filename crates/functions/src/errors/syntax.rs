//! Converts sqlparser's errors to PostgreSQL's wording.

use fleetdb_engine::{Code, Error, TextPosition};

/// Messages of sqlparser's tokenizer, and PostgreSQL's wording.
const TOKENS: [(&str, &str); 6] = [
    ("Unterminated string literal", "unterminated quoted string"),
    ("Unterminated encoded string literal", "unterminated quoted string"),
    ("Unterminated dollar-quoted", "unterminated dollar-quoted string"),
    ("Unterminated multi-line comment", "unterminated /* comment"),
    ("Unexpected EOF while in a multi-line comment", "unterminated /* comment"),
    ("Expected close delimiter '\"' before EOF", "unterminated quoted identifier"),
];

/// PostgreSQL's statements that sqlparser does not parse.
const STATEMENTS: [&str; 9] =
    ["CHECKPOINT", "CLUSTER", "DO", "IMPORT", "LOAD", "REASSIGN", "REFRESH", "REINDEX", "SECURITY"];

/// Maximum length in bytes of what a hint says was expected.
const MAX_EXPECTED: usize = 60;

/// Converts an error message of sqlparser.
pub(super) fn text_error(message: &str) -> Error {
    let place = place_of(message);
    let said = match place {
        Some(TextPosition::At { .. }) => message.rsplit_once(" at Line: ").map_or(message, |(said, _)| said),
        _ => message,
    };
    let error = in_words(said);
    match place {
        Some(place) => error.at(place),
        None => error,
    }
}

/// The error without its position.
fn in_words(said: &str) -> Error {
    if let Some((_, words)) = TOKENS.iter().find(|(begin, _)| said.starts_with(begin)) {
        return Error::new(Code::Syntax, *words);
    }
    let expected = said.strip_prefix("Expected: ").or_else(|| said.strip_prefix("Expected "));
    let Some((expected, found)) = expected.and_then(|rest| rest.split_once(", found: ")) else {
        return Error::new(Code::Syntax, format!("syntax error: {said}"));
    };
    if expected == "an SQL statement" && STATEMENTS.iter().any(|word| found.eq_ignore_ascii_case(word)) {
        return Error::new(Code::NotSupported, format!("{} is not supported", found.to_ascii_uppercase()));
    }
    let message = match found {
        "EOF" => "syntax error at end of input".to_owned(),
        found => format!("syntax error at or near \"{found}\""),
    };
    let error = Error::new(Code::Syntax, message);
    match expected {
        // The message already says that this token is unexpected.
        "end of statement" => error,
        "identifier" => error.with_hint("Expected here: a name."),
        // Most of what sqlparser lists there does not exist in FleetDB.
        list if list.len() > MAX_EXPECTED => error,
        expected => error.with_hint(format!("Expected here: {expected}.")),
    }
}

/// The position at the end of sqlparser's message (" at Line: 1, Column: 8"). At the end of the
/// text, the message has only the token's name, EOF.
pub(super) fn place_of(message: &str) -> Option<TextPosition> {
    if message.ends_with("found: EOF") {
        return Some(TextPosition::End);
    }
    let (line, column) = message.rsplit_once(" at Line: ")?.1.split_once(", Column: ")?;
    let digits = column.find(|c: char| !c.is_ascii_digit()).unwrap_or(column.len());
    Some(TextPosition::At { line: line.parse().ok()?, column: column[..digits].parse().ok()? })
}
