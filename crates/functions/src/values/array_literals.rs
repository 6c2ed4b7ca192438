//! Parses arrays in PostgreSQL's text form, `{1,2,NULL,"a, b"}`, as drivers send them
//! (<https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO>).

use crate::errors::query_error;
use crate::uuids::uuids_of;
use crate::values::literals::value_of_text_in;
use crate::values::zone::Zone;
use arrow::array::{ArrayRef, Int64Array, ListArray, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::error::Result;
use fleetdb_engine::{Code, ColumnType, Error, Value};
use std::sync::Arc;

/// Parses an array in PostgreSQL's text form, with elements of this type.
///
/// # Errors
/// The text is not such an array.
pub fn array_of_text(text: &str, element: &DataType, zone: Zone) -> Result<ScalarValue> {
    let wrong =
        |why: &str| query_error(Error::new(Code::InvalidText, format!("malformed array literal: \"{text}\": {why}")));
    let elements = elements(text).map_err(wrong)?;
    let values = match ColumnType::from_arrow(element) {
        Ok(column_type) if column_type.time_unit().is_some() => {
            let time =
                |text: &Option<String>| match text.as_deref().map(|text| value_of_text_in(text, column_type, zone)) {
                    Some(Ok(Value::Int(count))) => Ok(Some(count)),
                    Some(Err(error)) => Err(query_error(error)),
                    _ => Ok(None),
                };
            let counts: ArrayRef = Arc::new(elements.iter().map(time).collect::<Result<Int64Array>>()?);
            arrow::compute::cast(&counts, element)?
        }
        Ok(ColumnType::Uuid) => uuids_of(&[Arc::new(StringArray::from(elements))])?,
        _ => {
            let elements: ArrayRef = Arc::new(StringArray::from(elements));
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(&elements, element, &options)?
        }
    };
    let array: ListArray = SingleRowListArrayBuilder::new(values).build_list_array();
    Ok(ScalarValue::List(Arc::new(array)))
}

/// The texts of an array's elements, `None` for NULL; or an error message.
fn elements(text: &str) -> std::result::Result<Vec<Option<String>>, &'static str> {
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or("it does not stand in braces")?;
    let mut elements = Vec::new();
    if inner.trim().is_empty() {
        return Ok(elements);
    }
    let mut chars = inner.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let mut element = String::new();
        let is_quoted = chars.next_if_eq(&'"').is_some();
        loop {
            match chars.peek() {
                None if is_quoted => return Err("a quote is not closed"),
                Some('"') if is_quoted => break,
                None | Some(',') if !is_quoted => break,
                Some('{' | '}' | '"') if !is_quoted => return Err("arrays of arrays are not supported"),
                _ => {}
            }
            let escaped = chars.next_if_eq(&'\\').is_some();
            match chars.next() {
                Some(c) => element.push(c),
                None if escaped => return Err("it ends in a backslash"),
                None => {}
            }
        }
        if is_quoted {
            chars.next();
            while chars.next_if(|c| c.is_whitespace()).is_some() {}
            elements.push(Some(element));
        } else {
            let element = element.trim_end();
            if element.is_empty() {
                return Err("an element is missing");
            }
            elements.push((!element.eq_ignore_ascii_case("null")).then(|| element.to_owned()));
        }
        match chars.next() {
            None => return Ok(elements),
            Some(',') => {}
            Some(_) => return Err("elements are separated by commas"),
        }
    }
}

#[cfg(test)]
#[path = "array_literals_tests.rs"]
mod tests;
