//! Functions that read or change a whole JSON text: `json` and `jsonb`, which casts call,
//! `json_typeof`, `json_array_length`, `jsonb_pretty`, `jsonb_set`, `||` and `json_strip_nulls`.

use crate::call::{Call, TextsOut};
use crate::canonical::canonical;
use crate::get::Paths;
use crate::kind::JsonKind;
use crate::reader::{Form, MAX_DEPTH, Malformed, Read, Reader, elements, form_of, members, whole};
use crate::texts::{decoded, put_quoted};
use arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use datafusion::error::Result;
use fleetdb_engine::{Code, Error};
use fleetdb_functions::arguments::misuse;
use fleetdb_functions::errors::query_error;

fn each(call: &Call<'_>, of: impl Fn(&str) -> Result<String>) -> Result<ArrayRef> {
    let texts = call.texts(0)?;
    let mut out = TextsOut::new(call.rows);
    for row in 0..call.rows {
        out.push(texts.get(row).map(&of).transpose()?.as_deref())?;
    }
    Ok(out.finish())
}

/// Checks that texts are JSON, and leaves them as they are.
pub(super) fn json(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, is_checked) = (call.texts(0)?, call.kind(0).is_some());
    let mut out = TextsOut::new(call.rows);
    for row in 0..call.rows {
        let text = texts.get(row);
        if !is_checked {
            text.map_or(Ok(""), whole)?;
        }
        out.push(text)?;
    }
    Ok(out.finish())
}

/// Writes texts in canonical form.
pub(super) fn jsonb(call: &Call<'_>) -> Result<ArrayRef> {
    let is_canonical = call.kind(0) == Some(JsonKind::Jsonb);
    each(call, |text| if is_canonical { Ok(text.to_owned()) } else { Ok(canonical(text)?) })
}

/// `json_typeof`
pub(super) fn type_of(call: &Call<'_>) -> Result<ArrayRef> {
    each(call, |text| Ok(form_of(whole(text)?)?.name().to_owned()))
}

/// `json_array_length`
pub(super) fn length(call: &Call<'_>) -> Result<ArrayRef> {
    let texts = call.texts(0)?;
    let length = |text: &str| {
        match form_of(text)? {
            Form::Array => {}
            Form::Object => return Err(misuse("cannot get array length of a non-array".to_owned())),
            _ => return Err(misuse("cannot get array length of a scalar".to_owned())),
        }
        Ok(elements(text)?.len() as i32)
    };
    let lengths = (0..call.rows).map(|row| texts.get(row).map(length).transpose());
    Ok(std::sync::Arc::new(lengths.collect::<Result<Int32Array>>()?))
}

/// `jsonb_pretty`
pub(super) fn pretty(call: &Call<'_>) -> Result<ArrayRef> {
    each(call, |text| {
        let text = canonical(text)?;
        let mut out = String::with_capacity(text.len() * 2);
        put_pretty(&mut Reader::new(&text), 0, &mut out)?;
        Ok(out)
    })
}

fn put_pretty(reader: &mut Reader<'_>, depth: usize, out: &mut String) -> Read<()> {
    let form = reader.form()?;
    if !form.is_container() {
        out.push_str(reader.value()?);
        return Ok(());
    }
    let (open, close) = if form == Form::Object { ("{\n", "}") } else { ("[\n", "]") };
    out.push_str(open);
    let indent = |depth: usize, out: &mut String| (0..depth).for_each(|_| out.push_str("    "));
    let mut within = reader.enter()?;
    let mut is_first = true;
    while reader.has_next(&mut within)? {
        out.push_str(if is_first { "" } else { ",\n" });
        is_first = false;
        indent(depth + 1, out);
        if form == Form::Object {
            out.push_str(reader.key()?);
            out.push_str(": ");
        }
        put_pretty(reader, depth + 1, out)?;
    }
    out.push_str(if is_first { "" } else { "\n" });
    indent(depth, out);
    out.push_str(close);
    Ok(())
}

/// `json_strip_nulls`: without the members of objects that are null.
pub(super) fn strip_nulls(call: &Call<'_>) -> Result<ArrayRef> {
    let is_jsonb = call.name == "jsonb_strip_nulls";
    each(call, |text| {
        let mut out = String::with_capacity(text.len());
        let mut reader = Reader::new(text);
        put_stripped(&mut reader, &mut out)?;
        reader.end()?;
        Ok(if is_jsonb { canonical(&out)? } else { out })
    })
}

fn put_stripped(reader: &mut Reader<'_>, out: &mut String) -> Read<()> {
    let form = reader.form()?;
    if !form.is_container() {
        out.push_str(reader.value()?);
        return Ok(());
    }
    out.push(if form == Form::Object { '{' } else { '[' });
    let mut within = reader.enter()?;
    let mut comma = "";
    while reader.has_next(&mut within)? {
        if form == Form::Object {
            let key = reader.key()?;
            if reader.form()? == Form::Null {
                reader.value()?;
                continue;
            }
            out.push_str(comma);
            out.push_str(key);
            out.push(':');
        } else {
            out.push_str(comma);
        }
        put_stripped(reader, out)?;
        comma = ",";
    }
    out.push(if form == Form::Object { '}' } else { ']' });
    Ok(())
}

/// `||` of two `jsonb` values.
pub(super) fn concat(call: &Call<'_>) -> Result<ArrayRef> {
    let (left, right) = (call.texts(0)?, call.texts(1)?);
    let mut out = TextsOut::new(call.rows);
    for row in 0..call.rows {
        let both = left.get(row).zip(right.get(row));
        out.push(both.map(|(left, right)| concat_of(left, right)).transpose()?.as_deref())?;
    }
    Ok(out.finish())
}

fn concat_of(left: &str, right: &str) -> Read<String> {
    let (left, right) = (whole(left)?, whole(right)?);
    let forms = (form_of(left)?, form_of(right)?);
    let (open, close) = if forms == (Form::Object, Form::Object) { ('{', '}') } else { ('[', ']') };
    let inner = |text: &'_ str, form: Form| {
        let is_opened = form == Form::Array || open == '{';
        let inner = if is_opened { text.get(1..text.len() - 1).unwrap_or_default() } else { text };
        inner.trim().to_owned()
    };
    let parts = [inner(left, forms.0), inner(right, forms.1)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    canonical(&format!("{open}{}{close}", parts.join(", ")))
}

/// `jsonb_set`
pub(super) fn set(call: &Call<'_>) -> Result<ArrayRef> {
    let (targets, values) = (call.texts(0)?, call.texts(2)?);
    let paths = Paths::of(call)?;
    let creates = call.args.get(3).map(|creates| creates.to_array(call.rows)).transpose()?;
    let mut out = TextsOut::new(call.rows);
    for row in 0..call.rows {
        let creates = match &creates {
            Some(creates) if creates.is_null(row) => None,
            Some(creates) => Some(creates.as_boolean().value(row)),
            None => Some(true),
        };
        let (Some(target), Some(path), Some(value), Some(creates)) =
            (targets.get(row), paths.get(row)?, values.get(row), creates)
        else {
            out.push(None)?;
            continue;
        };
        let target = whole(target)?;
        if !form_of(target)?.is_container() {
            return Err(misuse("cannot set path in scalar".to_owned()));
        }
        if let Some(place) = path.iter().position(Option::is_none) {
            return Err(misuse(format!("path element at position {} is null", place + 1)));
        }
        let path: Vec<String> = path.into_iter().flatten().collect();
        let mut text = String::with_capacity(target.len() + value.len());
        put_set(target, (&path, 1), value, creates, &mut text)?;
        out.push(Some(&canonical(&text)?))?;
    }
    Ok(out.finish())
}

/// Writes a value in which the value at a path is another one. Of the path, the rest from a position
/// on is given.
fn put_set(target: &str, path: (&[String], usize), value: &str, creates: bool, out: &mut String) -> Result<()> {
    let (path, position) = path;
    let Some((step, rest)) = path.split_first() else {
        out.push_str(target);
        return Ok(());
    };
    if path.len() > MAX_DEPTH {
        return Err(Malformed::TooDeep.into());
    }
    // The value at the step itself.
    let put_at = |old: &str, out: &mut String| match rest {
        [] => {
            out.push_str(value);
            Ok(())
        }
        rest => put_set(old, (rest, position + 1), value, creates, out),
    };
    let is_new = creates && rest.is_empty();
    match form_of(target)? {
        Form::Object => {
            out.push('{');
            let (mut comma, mut is_found) = ("", false);
            for (key, old) in members(target)? {
                out.push_str(comma);
                out.push_str(key);
                out.push(':');
                if decoded(key)? == *step {
                    is_found = true;
                    put_at(old, out)?;
                } else {
                    out.push_str(old);
                }
                comma = ",";
            }
            if !is_found && is_new {
                out.push_str(comma);
                put_quoted(step, out);
                out.push(':');
                out.push_str(value);
            }
            out.push('}');
        }
        Form::Array => {
            let Ok(place) = step.trim().parse::<i64>() else {
                let message = format!("path element at position {position} is not an integer: \"{step}\"");
                return Err(query_error(Error::new(Code::InvalidText, message)));
            };
            let elements = elements(target)?;
            let count = elements.len() as i64;
            let place = if place < 0 { place.saturating_add(count) } else { place };
            let mut parts = Vec::with_capacity(elements.len() + 1);
            for (at, old) in elements.iter().enumerate() {
                let mut part = String::new();
                if at as i64 == place {
                    put_at(old, &mut part)?
                } else {
                    part.push_str(old)
                }
                parts.push(part);
            }
            if is_new && place >= count {
                parts.push(value.to_owned());
            } else if is_new && place < 0 {
                parts.insert(0, value.to_owned());
            }
            out.push('[');
            out.push_str(&parts.join(","));
            out.push(']');
        }
        _ => out.push_str(target),
    }
    Ok(())
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
