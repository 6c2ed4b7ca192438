//! The functions that return rows: `json_array_elements`, `json_each`, `json_object_keys` and their
//! kin. Here they return arrays; `fleetdb-postgres` writes `unnest` around them.

use crate::call::Call;
use crate::kind::JsonKind;
use crate::reader::{Form, elements, form_of, members};
use crate::texts::{decoded, shown};
use arrow::array::{Array, ArrayRef, AsArray, Int64Builder, ListBuilder, StringBuilder};
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;
use fleetdb_engine::{Code, Error};
use fleetdb_functions::arguments::misuse;
use fleetdb_functions::errors::query_error;
use std::borrow::Cow;
use std::sync::Arc;

/// Builds arrays of texts. Arrow's columns hold at most 2 GiB.
struct Lists {
    lists: ListBuilder<StringBuilder>,
    bytes: usize,
}

impl Lists {
    fn push(&mut self, text: Option<&str>) -> Result<()> {
        // An element also takes a place in the list.
        self.bytes += text.map_or(0, str::len) + 1;
        if self.bytes > i32::MAX as usize {
            let message = "the arrays of a JSON function are too large: they have more than 2 GiB together";
            return Err(query_error(Error::new(Code::LimitExceeded, message)));
        }
        self.lists.values().append_option(text);
        Ok(())
    }
}

/// An array for each text; NULL for NULL.
fn each(call: &Call<'_>, mut fill: impl FnMut(&str, &mut Lists) -> Result<()>) -> Result<ArrayRef> {
    let texts = call.texts(0)?;
    let mut out = Lists { lists: ListBuilder::new(StringBuilder::new()), bytes: 0 };
    for row in 0..call.rows {
        match texts.get(row) {
            Some(text) => {
                fill(text, &mut out)?;
                out.lists.append(true);
            }
            None => out.lists.append(false),
        }
    }
    Ok(Arc::new(out.lists.finish()))
}

fn is_jsonb(call: &Call<'_>) -> bool {
    call.kind(0) == Some(JsonKind::Jsonb)
}

/// Refuses what is no array.
fn need_array(call: &Call<'_>, form: Form, function: &str) -> Result<()> {
    let message = match (form, is_jsonb(call)) {
        (Form::Array, _) => return Ok(()),
        (Form::Object, true) => "cannot extract elements from an object".to_owned(),
        (_, true) => "cannot extract elements from a scalar".to_owned(),
        (Form::Object, false) => format!("cannot call {function} on a non-array"),
        (_, false) => format!("cannot call {function} on a scalar"),
    };
    Err(misuse(message))
}

/// The elements of `json_array_elements`.
pub(super) fn values(call: &Call<'_>) -> Result<ArrayRef> {
    each(call, |text, out| {
        need_array(call, form_of(text)?, "json_array_elements")?;
        elements(text)?.into_iter().try_for_each(|element| out.push(Some(element)))
    })
}

/// The elements of `json_array_elements_text`.
pub(super) fn value_texts(call: &Call<'_>) -> Result<ArrayRef> {
    each(call, |text, out| {
        need_array(call, form_of(text)?, "json_array_elements_text")?;
        elements(text)?.into_iter().try_for_each(|element| out.push(shown(element)?.as_deref()))
    })
}

/// Refuses what is no object.
fn need_object(call: &Call<'_>, form: Form, of_array: &str, of_scalar: &str, of_jsonb: &str) -> Result<()> {
    let message = match (form, is_jsonb(call)) {
        (Form::Object, _) => return Ok(()),
        (_, true) if !of_jsonb.is_empty() => of_jsonb,
        (Form::Array, _) => of_array,
        _ => of_scalar,
    };
    Err(misuse(message.to_owned()))
}

fn need_pairs(call: &Call<'_>, text: &str, jsonb: &str) -> Result<()> {
    let (of_array, of_scalar) = ("cannot deconstruct an array as an object", "cannot deconstruct a scalar");
    need_object(call, form_of(text)?, of_array, of_scalar, jsonb)
}

/// The keys of `json_object_keys`.
pub(super) fn keys(call: &Call<'_>) -> Result<ArrayRef> {
    let name = if is_jsonb(call) { "jsonb_object_keys" } else { "json_object_keys" };
    let (of_array, of_scalar) = (format!("cannot call {name} on an array"), format!("cannot call {name} on a scalar"));
    each(call, |text, out| {
        need_object(call, form_of(text)?, &of_array, &of_scalar, "")?;
        members(text)?.into_iter().try_for_each(|(key, _)| out.push(Some(&decoded(key)?)))
    })
}

/// The keys of `json_each`.
pub(super) fn pair_keys(call: &Call<'_>) -> Result<ArrayRef> {
    each(call, |text, out| {
        need_pairs(call, text, "cannot call jsonb_each on a non-object")?;
        members(text)?.into_iter().try_for_each(|(key, _)| out.push(Some(&decoded(key)?)))
    })
}

fn pair_of(call: &Call<'_>, of: fn(&str) -> Result<Option<Cow<'_, str>>>) -> Result<ArrayRef> {
    each(call, |text, out| {
        need_pairs(call, text, "cannot call jsonb_each on a non-object")?;
        members(text)?.into_iter().try_for_each(|(_, value)| out.push(of(value)?.as_deref()))
    })
}

/// The values of `json_each`.
pub(super) fn pair_values(call: &Call<'_>) -> Result<ArrayRef> {
    pair_of(call, |value| Ok(Some(Cow::Borrowed(value))))
}

/// The values of `json_each_text`.
pub(super) fn pair_texts(call: &Call<'_>) -> Result<ArrayRef> {
    pair_of(call, |value| Ok(shown(value)?))
}

/// The numbers of an array's elements, for WITH ORDINALITY.
pub(super) fn numbers(call: &Call<'_>) -> Result<ArrayRef> {
    let arrays = match call.arg(0)? {
        ColumnarValue::Array(arrays) => arrays.clone(),
        ColumnarValue::Scalar(array) => array.to_array()?,
    };
    let DataType::List(_) = arrays.data_type() else {
        return Err(DataFusionError::NotImplemented("numbers of what is no array".to_owned()));
    };
    let mut lists = ListBuilder::new(Int64Builder::new());
    for array in arrays.as_list::<i32>().iter() {
        lists.append_option(array.map(|array| (1..=array.len() as i64).map(Some)));
    }
    Ok(Arc::new(lists.finish()))
}

/// The type of an array of texts.
pub(super) fn of_texts() -> DataType {
    DataType::new_list(DataType::Utf8, true)
}
