//! `@>`, `<@`, `?`, `?|` and `?&`: what a `jsonb` value contains.

use crate::call::Call;
use crate::get::Paths;
use crate::reader::{Form, elements, form_of, members, whole};
use crate::texts::decoded;
use arrow::array::{ArrayRef, BooleanArray};
use datafusion::error::Result;
use fleetdb_engine::{Code, Error};
use fleetdb_functions::errors::query_error;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The maximum number of values that the rows of a batch may compare: each element of one array with
/// each of another.
const MAX_COMPARED: usize = 4_000_000;

/// `@>`
pub(super) fn contains(call: &Call<'_>) -> Result<ArrayRef> {
    let (left, right) = (call.texts(0)?, call.texts(1)?);
    let mut most = MAX_COMPARED;
    let of_row = |row: usize| {
        let both = left.get(row).zip(right.get(row));
        both.map(|(left, right)| holds(left, right, true, &mut most)).transpose()
    };
    Ok(Arc::new((0..call.rows).map(of_row).collect::<Result<BooleanArray>>()?))
}

/// A value in the form in which it is compared: `1.0` is `1`.
fn compared(value: &str) -> Cow<'_, str> {
    let is_fraction = matches!(form_of(value), Ok(Form::Number)) && value.contains('.');
    if !is_fraction {
        return Cow::Borrowed(value);
    }
    let short = value.trim_end_matches('0').trim_end_matches('.');
    Cow::Borrowed(short)
}

/// Whether a canonical text contains another. At the top, an array contains a scalar that is one of
/// its elements.
fn holds(text: &str, part: &str, is_top: bool, left: &mut usize) -> Result<bool> {
    let (text, part) = (whole(text)?, whole(part)?);
    *left = left.checked_sub(1).ok_or_else(|| {
        let message = format!("@> compares too many values: more than {MAX_COMPARED} at a time");
        query_error(Error::new(Code::LimitExceeded, message))
    })?;
    match (form_of(text)?, form_of(part)?) {
        (Form::Object, Form::Object) => {
            let known: HashMap<&str, &str> = members(text)?.into_iter().collect();
            for (key, value) in members(part)? {
                let Some(own) = known.get(key) else { return Ok(false) };
                if !holds(own, value, false, left)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Form::Array, Form::Array) => holds_all(&elements(text)?, &elements(part)?, left),
        (Form::Array, of) if is_top && !of.is_container() => holds_all(&elements(text)?, &[part], left),
        (own, of) => Ok(own == of && !own.is_container() && compared(text) == compared(part)),
    }
}

fn holds_all(own: &[&str], parts: &[&str], left: &mut usize) -> Result<bool> {
    let (mut scalars, mut containers) = (HashSet::new(), Vec::new());
    for element in own {
        if form_of(element)?.is_container() {
            containers.push(*element);
        } else {
            scalars.insert(compared(element));
        }
    }
    for part in parts {
        let is_held = match form_of(part)?.is_container() {
            false => scalars.contains(&compared(part)),
            true => {
                let mut is_held = false;
                for container in &containers {
                    is_held = is_held || holds(container, part, false, left)?;
                }
                is_held
            }
        };
        if !is_held {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The keys of an object, the texts of an array, or a text itself.
fn names(text: &str) -> Result<HashSet<Cow<'_, str>>> {
    let text = whole(text)?;
    let quoted: Vec<&str> = match form_of(text)? {
        Form::Object => members(text)?.into_iter().map(|(key, _)| key).collect(),
        Form::Array => elements(text)?,
        _ => vec![text],
    };
    let quoted = quoted.into_iter().filter(|name| name.starts_with('"'));
    Ok(quoted.map(decoded).collect::<crate::reader::Read<_>>()?)
}

/// `?`
pub(super) fn has_key(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, keys) = (call.texts(0)?, call.texts(1)?);
    let of_row = |row: usize| {
        let both = texts.get(row).zip(keys.get(row));
        both.map(|(text, key)| Ok(names(text)?.contains(key))).transpose()
    };
    Ok(Arc::new((0..call.rows).map(of_row).collect::<Result<BooleanArray>>()?))
}

fn has_keys(call: &Call<'_>, of: fn(&[String], &HashSet<Cow<'_, str>>) -> bool) -> Result<ArrayRef> {
    let texts = call.texts(0)?;
    let keys = Paths::of(call)?;
    let of_row = |row: usize| {
        let (Some(text), Some(keys)) = (texts.get(row), keys.get(row)?) else { return Ok(None) };
        let keys: Vec<String> = keys.into_iter().flatten().collect();
        Ok(Some(of(&keys, &names(text)?)))
    };
    Ok(Arc::new((0..call.rows).map(of_row).collect::<Result<BooleanArray>>()?))
}

/// `?|`
pub(super) fn has_any(call: &Call<'_>) -> Result<ArrayRef> {
    has_keys(call, |keys, names| keys.iter().any(|key| names.contains(key.as_str())))
}

/// `?&`
pub(super) fn has_all(call: &Call<'_>) -> Result<ArrayRef> {
    has_keys(call, |keys, names| keys.iter().all(|key| names.contains(key.as_str())))
}

#[cfg(test)]
#[path = "contains_tests.rs"]
mod tests;
