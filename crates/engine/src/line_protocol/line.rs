//! Parses one line of line protocol into measurement, tags, fields and time.

use crate::column_type::ColumnType;
use crate::schema::Role;
use std::borrow::Cow;

/// Why a line is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The position in the line, in bytes from 1.
    pub column: usize,
    /// The reason.
    pub reason: String,
}

impl std::fmt::Display for LineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "column {}: {}", self.column, self.reason)
    }
}

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FieldValue<'a> {
    Float(f64),
    Int(i64),
    UInt(u64),
    Boolean(bool),
    Text(Cow<'a, str>),
}

impl FieldValue<'_> {
    pub(super) fn column_type(&self) -> ColumnType {
        match self {
            Self::Float(_) => ColumnType::Float64,
            Self::Int(_) => ColumnType::Int64,
            Self::UInt(_) => ColumnType::UInt64,
            Self::Boolean(_) => ColumnType::Boolean,
            Self::Text(_) => ColumnType::Utf8,
        }
    }
}

/// A tag or a field.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) value: FieldValue<'a>,
    /// Where the name begins in the line, counted from 1.
    pub(super) at: usize,
    pub(super) role: Role,
}

/// A parsed line.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) measurement: Cow<'a, str>,
    /// Tags, then fields.
    pub(super) parts: Vec<Part<'a>>,
    pub(super) time: Option<i64>,
}

/// Enough tags and fields for most lines.
const USUAL_PARTS: usize = 24;

/// Reads a line byte by byte.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error(&self, reason: &str) -> LineError {
        LineError { column: self.at + 1, reason: reason.to_owned() }
    }

    /// A tag's name or value: up to an unescaped comma, space or equals sign.
    fn tag_part(&mut self) -> Cow<'a, str> {
        self.unescaped(true, b", =")
    }

    /// The name of a measurement, or of a field if `ends_at_equals`. In both, quotes may also be
    /// escaped.
    fn name(&mut self, ends_at_equals: bool) -> Cow<'a, str> {
        self.unescaped(ends_at_equals, b", =\"")
    }

    fn unescaped(&mut self, ends_at_equals: bool, special: &[u8]) -> Cow<'a, str> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b',' | b' ' => break,
                b'=' if ends_at_equals => break,
                b'\\' if bytes.get(self.at + 1).is_some_and(|next| special.contains(next)) => {
                    escaped = true;
                    self.at += 2;
                }
                _ => self.at += 1,
            }
        }
        let raw = &self.text[start..self.at];
        if !escaped {
            return Cow::Borrowed(raw);
        }
        let mut name = String::with_capacity(raw.len());
        let mut chars = raw.chars().peekable();
        while let Some(c) = chars.next() {
            match chars.peek() {
                Some(&next) if c == '\\' && special.iter().any(|byte| char::from(*byte) == next) => {
                    name.push(next);
                    chars.next();
                }
                _ => name.push(c),
            }
        }
        Cow::Owned(name)
    }

    /// A text value. The current byte is the opening quote.
    fn text(&mut self) -> std::result::Result<Cow<'a, str>, LineError> {
        let open = self.at;
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            match self.peek() {
                None => return Err(LineError { column: open + 1, reason: "unterminated string".to_owned() }),
                Some(b'"') => break,
                Some(b'\\') if matches!(self.text.as_bytes().get(self.at + 1), Some(b'"' | b'\\')) => {
                    escaped = true;
                    self.at += 2;
                }
                Some(_) => self.at += 1,
            }
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Ok(if escaped { Cow::Owned(raw.replace("\\\"", "\"").replace("\\\\", "\\")) } else { Cow::Borrowed(raw) })
    }
}

/// Parses a line that begins at `start` and has no line break.
pub(super) fn parse_line(text: &str, start: usize) -> std::result::Result<Line<'_>, LineError> {
    let mut reader = Reader { text, at: start };
    let measurement = reader.name(false);
    if measurement.is_empty() {
        return Err(reader.error("missing measurement"));
    }
    let mut parts = Vec::with_capacity(USUAL_PARTS);
    while reader.peek() == Some(b',') {
        reader.at += 1;
        let column = reader.at + 1;
        let name = reader.tag_part();
        if name.is_empty() || reader.peek() != Some(b'=') {
            return Err(LineError { column, reason: "a tag must be name=value".to_owned() });
        }
        reader.at += 1;
        let value = reader.tag_part();
        if value.is_empty() {
            return Err(reader.error(&format!("tag '{name}' has no value; omit the tag instead")));
        }
        if reader.peek() == Some(b'=') {
            return Err(reader.error("an equals sign in a tag value must be escaped with a backslash"));
        }
        parts.push(Part { name, value: FieldValue::Text(value), at: column, role: Role::Key });
    }
    skip_blanks(&mut reader);
    loop {
        let column = reader.at + 1;
        let name = reader.name(true);
        if name.is_empty() || reader.peek() != Some(b'=') {
            let reason = if name.is_empty() { "missing fields" } else { "a field must be name=value" };
            return Err(LineError { column, reason: reason.to_owned() });
        }
        reader.at += 1;
        let value = field_value(&mut reader)?;
        parts.push(Part { name, value, at: column, role: Role::Field });
        match reader.peek() {
            Some(b',') => reader.at += 1,
            Some(b' ') | None => break,
            Some(_) => return Err(reader.error("a value must be followed by a comma, a space or the end of the line")),
        }
    }
    skip_blanks(&mut reader);
    let time = if reader.at < text.len() {
        let rest = &text[reader.at..];
        let time = if begins_number(rest) { rest.parse().ok() } else { None };
        let wrong = || reader.error(&format!("invalid timestamp '{rest}': it must be an integer"));
        Some(time.ok_or_else(wrong)?)
    } else {
        None
    };
    Ok(Line { measurement, parts, time })
}

/// Whether a text may be a number. Rust also parses `+1`, `inf` and `nan`, which line protocol
/// lacks.
fn begins_number(text: &str) -> bool {
    text.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
}

/// Whether a byte may precede a line, its fields or its time. The part before these ends at a
/// space.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0)
}

fn skip_blanks(reader: &mut Reader<'_>) {
    while reader.peek().is_some_and(is_blank) {
        reader.at += 1;
    }
}

fn field_value<'a>(reader: &mut Reader<'a>) -> std::result::Result<FieldValue<'a>, LineError> {
    if reader.peek() == Some(b'"') {
        return reader.text().map(FieldValue::Text);
    }
    let start = reader.at;
    let rest = &reader.text[start..];
    let len = rest.bytes().position(|byte| matches!(byte, b',' | b' ')).unwrap_or(rest.len());
    let raw = &rest[..len];
    reader.at += len;
    let value = match raw {
        "t" | "T" | "true" | "True" | "TRUE" => Some(FieldValue::Boolean(true)),
        "f" | "F" | "false" | "False" | "FALSE" => Some(FieldValue::Boolean(false)),
        _ if !begins_number(raw) => None,
        _ => match (raw.strip_suffix('i'), raw.strip_suffix('u')) {
            (Some(digits), _) => digits.parse().ok().map(FieldValue::Int),
            (_, Some(digits)) => digits.parse().ok().map(FieldValue::UInt),
            // Rust also parses "-inf", and turns values that are too large into infinity.
            _ => raw.parse::<f64>().ok().filter(|value| value.is_finite()).map(FieldValue::Float),
        },
    };
    value.ok_or_else(|| LineError {
        column: start + 1,
        reason: format!("invalid value '{raw}': write 1.5, 1i, 1u, true or \"text\""),
    })
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
