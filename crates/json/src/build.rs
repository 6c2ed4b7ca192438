//! Builds JSON from values: `json_build_object`, `json_build_array`, `to_json`, `row_to_json`, and
//! what `json_agg` and `json_object_agg` do with the values of a group.
//!
//! The aggregates are calls on top of `array_agg`, which collects, sorts, filters and charges the
//! values. `fleetdb-postgres` writes them so.

use crate::call::{Call, Texts, TextsOut};
use crate::canonical::canonical;
use crate::kind::JsonKind;
use crate::texts::put_quoted;
use crate::values::{Values, iso};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use fleetdb_functions::arguments::misuse;

/// What stands between the parts of an object or array.
struct Style {
    comma: &'static str,
    colon: &'static str,
}

const WIDE: Style = Style { comma: ", ", colon: " : " };
const NARROW: Style = Style { comma: ",", colon: ":" };

/// The kind of the function's result, judged by its name.
fn kind(call: &Call<'_>) -> JsonKind {
    match call.name {
        "to_jsonb" => JsonKind::Jsonb,
        name if name.starts_with("jsonb") => JsonKind::Jsonb,
        _ => JsonKind::Json,
    }
}

/// Adds a built text, in the form of its kind.
fn push(out: &mut TextsOut, text: &str, kind: JsonKind) -> Result<()> {
    match kind {
        JsonKind::Json => out.push(Some(text)),
        JsonKind::Jsonb => out.push(Some(&canonical(text)?)),
    }
}

/// One text for each row.
fn written(call: &Call<'_>, mut put: impl FnMut(usize, &mut String) -> Result<()>) -> Result<ArrayRef> {
    let mut out = TextsOut::new(call.rows);
    let mut text = String::new();
    for row in 0..call.rows {
        text.clear();
        put(row, &mut text)?;
        push(&mut out, &text, kind(call))?;
    }
    Ok(out.finish())
}

fn values(call: &Call<'_>) -> Result<Vec<Values>> {
    (0..call.args.len()).map(|place| call.values(place)).collect()
}

fn objects(call: &Call<'_>, style: &Style) -> Result<ArrayRef> {
    let values = values(call)?;
    if values.len() % 2 == 1 {
        return Err(misuse("argument list must have even number of elements".to_owned()));
    }
    if values.iter().step_by(2).any(|key| !key.is_scalar()) {
        return Err(misuse("key value must be scalar, not array, composite, or json".to_owned()));
    }
    written(call, |row, text| {
        text.push('{');
        for (place, pair) in values.chunks_exact(2).enumerate() {
            let [key, value] = pair else { continue };
            if key.is_null(row) {
                return Err(null_key(call, place * 2 + 1));
            }
            text.push_str(if place > 0 { style.comma } else { "" });
            key.put_key(row, text);
            text.push_str(style.colon);
            value.put(row, text);
        }
        text.push('}');
        Ok(())
    })
}

fn null_key(call: &Call<'_>, argument: usize) -> datafusion::error::DataFusionError {
    misuse(match kind(call) {
        JsonKind::Json => format!("argument {argument} cannot be null"),
        JsonKind::Jsonb => format!("argument {argument}: key must not be null"),
    })
}

/// `json_build_object`
pub(super) fn object(call: &Call<'_>) -> Result<ArrayRef> {
    objects(call, &WIDE)
}

/// The row of a table: its columns' names and values.
pub(super) fn row(call: &Call<'_>) -> Result<ArrayRef> {
    objects(call, &NARROW)
}

/// `json_build_array`
pub(super) fn array(call: &Call<'_>) -> Result<ArrayRef> {
    let values = values(call)?;
    written(call, |row, text| {
        text.push('[');
        for (place, value) in values.iter().enumerate() {
            text.push_str(if place > 0 { WIDE.comma } else { "" });
            value.put(row, text);
        }
        text.push(']');
        Ok(())
    })
}

/// `to_json` and `row_to_json`. NULL remains NULL.
pub(super) fn value(call: &Call<'_>) -> Result<ArrayRef> {
    let values = call.values(0)?;
    let mut out = TextsOut::new(call.rows);
    let mut text = String::new();
    for row in 0..call.rows {
        if values.is_null(row) {
            out.push(None)?;
            continue;
        }
        text.clear();
        values.put(row, &mut text);
        push(&mut out, &text, kind(call))?;
    }
    Ok(out.finish())
}

/// A key and a value of `json_object_agg`, as `"key" : value`.
pub(super) fn member(call: &Call<'_>) -> Result<ArrayRef> {
    let (keys, values) = (call.values(0)?, call.values(1)?);
    if !keys.is_scalar() {
        return Err(misuse("key value must be scalar, not array, composite, or json".to_owned()));
    }
    let mut out = TextsOut::new(call.rows);
    let mut text = String::new();
    for row in 0..call.rows {
        if keys.is_null(row) {
            return Err(misuse("field name must not be null".to_owned()));
        }
        text.clear();
        keys.put_key(row, &mut text);
        text.push_str(WIDE.colon);
        values.put(row, &mut text);
        out.push(Some(&text))?;
    }
    Ok(out.finish())
}

/// Joins the texts of each array. NULL remains NULL; NULL in an array is null.
fn joined(call: &Call<'_>, open: &str, comma: &str, close: &str) -> Result<ArrayRef> {
    let arrays = match call.arg(0)? {
        ColumnarValue::Array(arrays) => arrays.clone(),
        ColumnarValue::Scalar(array) => array.to_array()?,
    };
    let mut out = TextsOut::new(call.rows);
    let DataType::List(_) = arrays.data_type() else {
        (0..call.rows).try_for_each(|_| out.push(None))?;
        return Ok(out.finish());
    };
    let arrays = arrays.as_list::<i32>();
    let mut text = String::new();
    for row in 0..arrays.len() {
        if arrays.is_null(row) {
            out.push(None)?;
            continue;
        }
        text.clear();
        text.push_str(open);
        let parts = cast(&arrays.value(row), &DataType::Utf8)?;
        for (place, part) in parts.as_string::<i32>().iter().enumerate() {
            text.push_str(if place > 0 { comma } else { "" });
            text.push_str(part.unwrap_or("null"));
        }
        text.push_str(close);
        push(&mut out, &text, kind(call))?;
    }
    Ok(out.finish())
}

/// The array of the JSON texts that `array_agg` collected.
pub(super) fn array_of(call: &Call<'_>) -> Result<ArrayRef> {
    joined(call, "[", WIDE.comma, "]")
}

/// The same, of rows: PostgreSQL writes each on a line of its own.
pub(super) fn array_of_rows(call: &Call<'_>) -> Result<ArrayRef> {
    joined(call, "[", ", \n ", "]")
}

/// The object of the members that `array_agg` collected.
pub(super) fn object_of(call: &Call<'_>) -> Result<ArrayRef> {
    joined(call, "{ ", WIDE.comma, " }")
}

/// An instant, given as text in the session's zone, as a JSON text.
pub(super) fn instant(call: &Call<'_>) -> Result<ArrayRef> {
    let times: Texts = call.texts(0)?;
    let mut out = TextsOut::new(call.rows);
    for row in 0..call.rows {
        let text = times.get(row).map(|time| {
            let mut text = String::new();
            put_quoted(&iso(time, true), &mut text);
            text
        });
        out.push(text.as_deref())?;
    }
    Ok(out.finish())
}
