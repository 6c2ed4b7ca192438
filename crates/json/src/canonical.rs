//! The text of `jsonb` values: each key once, where the last one wins; keys sorted by length and
//! then by bytes; a space behind each colon and comma; numbers as PostgreSQL's `numeric` writes them.

use crate::reader::{Form, Malformed, Read, Reader};
use crate::texts::{decoded, put_quoted};
use std::borrow::Cow;
use std::ops::Range;

/// The largest exponent. A number is written out, so a short text could become very long.
const MAX_EXPONENT: i64 = 1_000;

/// The canonical text of a JSON text.
pub(super) fn canonical(text: &str) -> Read<String> {
    let mut reader = Reader::new(text);
    let mut out = String::with_capacity(text.len());
    put(&mut reader, &mut out)?;
    reader.end()?;
    Ok(out)
}

/// An upper bound of the bytes by which the numbers of a text grow.
pub(super) fn exponent_bytes(text: &str) -> f64 {
    // An exponent follows a digit.
    let pairs = text.as_bytes().windows(2);
    let exponents = pairs.filter(|pair| matches!(pair, [b'0'..=b'9', b'e' | b'E'])).count();
    exponents as f64 * MAX_EXPONENT as f64
}

fn put<'a>(reader: &mut Reader<'a>, out: &mut String) -> Read<()> {
    match reader.form()? {
        Form::Object => put_object(reader, out),
        Form::Array => {
            let mut within = reader.enter()?;
            out.push('[');
            let mut comma = "";
            while reader.has_next(&mut within)? {
                out.push_str(comma);
                put(reader, out)?;
                comma = ", ";
            }
            out.push(']');
            Ok(())
        }
        Form::Text => {
            put_quoted(&decoded(reader.value()?)?, out);
            Ok(())
        }
        Form::Number => put_number(reader.value()?, out),
        Form::Boolean | Form::Null => {
            out.push_str(reader.value()?);
            Ok(())
        }
    }
}

fn put_object<'a>(reader: &mut Reader<'a>, out: &mut String) -> Read<()> {
    let mut within = reader.enter()?;
    let begin = out.len();
    let mut members: Vec<(Cow<'a, str>, Range<usize>)> = Vec::new();
    while reader.has_next(&mut within)? {
        let key = decoded(reader.key()?)?;
        let from = out.len() - begin;
        put(reader, out)?;
        members.push((key, from..out.len() - begin));
    }
    let values = out.split_off(begin);
    members.sort_by(|(one, _), (other, _)| (one.len(), one).cmp(&(other.len(), other)));
    out.push('{');
    let mut comma = "";
    let mut members = members.into_iter().peekable();
    while let Some((key, value)) = members.next() {
        if members.peek().is_some_and(|(next, _)| *next == key) {
            continue;
        }
        out.push_str(comma);
        put_quoted(&key, out);
        out.push_str(": ");
        out.push_str(values.get(value).unwrap_or_default());
        comma = ", ";
    }
    out.push('}');
    Ok(())
}

/// Writes a number without an exponent, with the digits behind the point that it was given.
pub(super) fn put_number(number: &str, out: &mut String) -> Read<()> {
    let (number, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i64 = exponent.parse().map_err(|_| Malformed::Number)?;
    if exponent.abs() > MAX_EXPONENT {
        return Err(Malformed::Number);
    }
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |number| ("-", number));
    if number.bytes().any(|byte| matches!(byte, b'1'..=b'9')) {
        out.push_str(sign);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    // The place of the point among the digits.
    let point = whole.len() as i64 + exponent;
    let (before, behind) = digits.split_at(usize::try_from(point).unwrap_or(0).min(digits.len()));
    let before = format!("{before}{}", zeros(point - digits.len() as i64));
    let before = before.trim_start_matches('0');
    out.push_str(if before.is_empty() { "0" } else { before });
    if fraction.len() as i64 > exponent {
        out.push('.');
        out.push_str(&zeros(-point));
        out.push_str(behind);
    }
    Ok(())
}

#[cfg(test)]
#[path = "canonical_tests.rs"]
mod tests;
