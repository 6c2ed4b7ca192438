//! Texts in JSON: reads their escapes and writes them as PostgreSQL does.

use crate::reader::{Form, Malformed, Read, form_of};
use std::borrow::Cow;
use std::fmt::Write;

/// The characters of a text in quotes.
pub(super) fn decoded(quoted: &str) -> Read<Cow<'_, str>> {
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or(Malformed::At(0))?;
    if !inner.contains('\\') {
        return Ok(Cow::Borrowed(inner));
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((before, behind)) = rest.split_once('\\') {
        text.push_str(before);
        let mut chars = behind.chars();
        match chars.next() {
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('u') => {
                let (unit, behind) = unit_of(chars.as_str()).ok_or(Malformed::Escape)?;
                let (code, behind) = match unit {
                    0xd800..=0xdbff => {
                        let low = behind.strip_prefix("\\u").and_then(unit_of);
                        let (low, behind) =
                            low.filter(|(low, _)| (0xdc00..=0xdfff).contains(low)).ok_or(Malformed::Escape)?;
                        (0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00), behind)
                    }
                    unit => (unit, behind),
                };
                text.push(char::from_u32(code).filter(|c| *c != '\0').ok_or(Malformed::Escape)?);
                rest = behind;
                continue;
            }
            Some(other) => text.push(other),
            None => return Err(Malformed::Escape),
        }
        rest = chars.as_str();
    }
    text.push_str(rest);
    Ok(Cow::Owned(text))
}

/// The four hexadecimal digits at the beginning, and what follows.
fn unit_of(text: &str) -> Option<(u32, &str)> {
    let (digits, behind) = text.split_at_checked(4)?;
    u32::from_str_radix(digits, 16).ok().map(|unit| (unit, behind))
}

/// Writes a text in quotes.
pub(super) fn put_quoted(text: &str, out: &mut String) {
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x08 => "\\b",
            0x0c => "\\f",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(text.get(from..at).unwrap_or_default());
        from = at + 1;
        if escape.is_empty() {
            // Writing to a text does not fail.
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out.push('"');
}

/// What `->>` returns for a value: the characters of a text, anything else as it is written, and
/// `None` for null.
pub(super) fn shown(value: &str) -> Read<Option<Cow<'_, str>>> {
    match form_of(value)? {
        Form::Null => Ok(None),
        Form::Text => decoded(value).map(Some),
        _ => Ok(Some(Cow::Borrowed(value))),
    }
}

#[cfg(test)]
#[path = "texts_tests.rs"]
mod tests;
