//! `->`, `->>`, `#>` and `#>>`: parts of a JSON text.

use crate::call::{Call, Texts, TextsOut};
use crate::canonical::canonical;
use crate::kind::JsonKind;
use crate::reader::{Form, Read, elements, form_of, members, whole};
use crate::texts::{decoded, shown};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use fleetdb_functions::values::array_literals::array_of_text;
use fleetdb_functions::values::zone::Zone;

/// The value of a key; `None` if the text is no object, or has no such key. The last one wins.
fn at_key<'a>(text: &'a str, key: &str) -> Read<Option<&'a str>> {
    let mut found = None;
    for (name, value) in members(text)? {
        if decoded(name)? == key {
            found = Some(value);
        }
    }
    Ok(found)
}

/// The element at a place, counted from 0, or from -1 at the end; `None` if the text is no array or
/// ends before.
fn at_place(text: &str, place: i64) -> Read<Option<&str>> {
    let elements = elements(text)?;
    let place = if place < 0 { place.saturating_add(elements.len() as i64) } else { place };
    Ok(usize::try_from(place).ok().and_then(|place| elements.get(place)).copied())
}

/// The value at the end of a path of keys and places; `None` if it leads nowhere.
pub(super) fn at_path<'a>(text: &'a str, path: &[Option<String>]) -> Read<Option<&'a str>> {
    let mut value = whole(text)?;
    for step in path {
        let Some(step) = step else { return Ok(None) };
        let next = match form_of(value)? {
            Form::Object => at_key(value, step)?,
            Form::Array => match step.trim().parse() {
                Ok(place) => at_place(value, place)?,
                Err(_) => None,
            },
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// The right operands: keys, or places in arrays.
enum Steps {
    Keys(Texts),
    Places(ArrayRef, bool),
}

impl Steps {
    fn of(call: &Call<'_>) -> Result<Self> {
        let of = call.arg(1)?;
        if !of.data_type().is_integer() {
            return Ok(Self::Keys(call.texts(1)?));
        }
        let (places, is_one) = match of {
            ColumnarValue::Array(places) => (cast(places, &DataType::Int64)?, false),
            ColumnarValue::Scalar(place) => (cast(&place.to_array()?, &DataType::Int64)?, true),
        };
        Ok(Self::Places(places, is_one))
    }

    fn follow<'a>(&self, text: &'a str, row: usize) -> Read<Option<&'a str>> {
        match self {
            Self::Keys(keys) => keys.get(row).map_or(Ok(None), |key| at_key(text, key)),
            Self::Places(places, is_one) => {
                let places = places.as_primitive::<Int64Type>();
                let row = if *is_one { 0 } else { row };
                if places.is_null(row) { Ok(None) } else { at_place(text, places.value(row)) }
            }
        }
    }
}

/// `->`
pub(super) fn field(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, steps) = (call.texts(0)?, Steps::of(call)?);
    let mut out = TextsOut::new(call.rows);
    for row in 0..call.rows {
        let found = texts.get(row).map_or(Ok(None), |text| steps.follow(text, row))?;
        out.push(found)?;
    }
    Ok(out.finish())
}

/// `->>`
pub(super) fn field_text(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, steps) = (call.texts(0)?, Steps::of(call)?);
    let mut out = TextsOut::new(call.rows);
    for row in 0..call.rows {
        let found = texts.get(row).map_or(Ok(None), |text| steps.follow(text, row))?;
        out.push(found.map_or(Ok(None), shown)?.as_deref())?;
    }
    Ok(out.finish())
}

/// The paths of a call.
pub(super) enum Paths {
    /// An array, perhaps as text.
    Array(ColumnarValue),
    /// An argument for each step.
    Steps(Vec<ColumnarValue>),
}

impl Paths {
    /// The path that is an argument of its own.
    pub(super) fn of(call: &Call<'_>) -> Result<Self> {
        Ok(Self::Array(call.arg(1)?.clone()))
    }

    /// The path for a row; `None` if it is NULL.
    pub(super) fn get(&self, row: usize) -> Result<Option<Vec<Option<String>>>> {
        let value = |arg: &ColumnarValue| match arg {
            ColumnarValue::Scalar(value) => Ok(value.clone()),
            ColumnarValue::Array(values) => ScalarValue::try_from_array(values, row),
        };
        match self {
            Self::Array(path) => {
                let path = match value(path)? {
                    ScalarValue::Utf8(Some(text)) => array_of_text(&text, &DataType::Utf8, Zone::Utc)?,
                    path => path,
                };
                let ScalarValue::List(list) = path else { return Ok(None) };
                if list.is_null(0) {
                    return Ok(None);
                }
                let steps = cast(&list.value(0), &DataType::Utf8)?;
                Ok(Some(steps.as_string::<i32>().iter().map(|step| step.map(str::to_owned)).collect()))
            }
            Self::Steps(steps) => {
                let step = |arg: &ColumnarValue| match value(arg)?.cast_to(&DataType::Utf8)? {
                    ScalarValue::Utf8(step) => Ok(step),
                    _ => Ok(None),
                };
                let steps = steps.iter().map(step).collect::<Result<Vec<_>>>()?;
                Ok(steps.iter().all(Option::is_some).then_some(steps))
            }
        }
    }
}

fn each_at_path(call: &Call<'_>, mut push: impl FnMut(&mut TextsOut, Option<&str>) -> Result<()>) -> Result<ArrayRef> {
    let texts = call.texts(0)?;
    let paths = match call.name.contains("extract_path") {
        true => Paths::Steps(call.args.get(1..).unwrap_or_default().to_vec()),
        false => Paths::of(call)?,
    };
    let is_one = call.args.iter().skip(1).all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let one = if is_one { paths.get(0)? } else { None };
    let mut out = TextsOut::new(call.rows);
    for row in 0..call.rows {
        let own = if is_one { None } else { paths.get(row)? };
        let path = if is_one { one.as_deref() } else { own.as_deref() };
        match (texts.get(row), path) {
            (Some(text), Some(path)) => push(&mut out, at_path(text, path)?)?,
            _ => out.push(None)?,
        }
    }
    Ok(out.finish())
}

/// `#>` and `json_extract_path`
pub(super) fn path(call: &Call<'_>) -> Result<ArrayRef> {
    let is_written = call.name == "jsonb_extract_path" && call.kind(0) != Some(JsonKind::Jsonb);
    each_at_path(call, |out, found| match found {
        Some(found) if is_written => out.push(Some(&canonical(found)?)),
        found => out.push(found),
    })
}

/// `#>>` and `json_extract_path_text`
pub(super) fn path_text(call: &Call<'_>) -> Result<ArrayRef> {
    each_at_path(call, |out, found| out.push(found.map_or(Ok(None), shown)?.as_deref()))
}

#[cfg(test)]
#[path = "get_tests.rs"]
mod tests;
