//! Parses arrays in PostgreSQL's text form as values of DataFusion.

use crate::arguments::misuse;
use crate::errors::query_error;
use crate::uuids::uuids_of;
use crate::values::array_elements::elements;
use crate::values::literals::value_of_text_in;
use crate::values::zone::Zone;
use arrow::array::{ArrayRef, AsArray, Int64Array, ListArray, StringArray, new_empty_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ScalarUDF, Signature, SimpleScalarUDF, Volatility};
use fleetdb_engine::{ArrayElement, ColumnType, Value};
use std::sync::Arc;

/// Parses an array in PostgreSQL's text form, with elements of this type.
///
/// # Errors
/// The text is not such an array.
pub fn array_of_text(text: &str, element: &DataType, zone: Zone) -> Result<ScalarValue> {
    let elements = elements(text).map_err(query_error)?;
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

/// Parses texts as arrays with elements of a type that columns can have.
pub fn array_of(element: ArrayElement) -> Arc<ScalarUDF> {
    let arrays = move |args: &[ArrayRef]| {
        let texts = args.first().ok_or_else(|| misuse("an argument is missing".to_owned()))?;
        let data_type = element.column_type().to_arrow();
        let array = |text: Option<&str>| match text {
            None => ScalarValue::try_from(ColumnType::Array(element).to_arrow()),
            Some(text) => array_of_text(text, &data_type, Zone::Utc),
        };
        let arrays = texts.as_string::<i32>().iter().map(array).collect::<Result<Vec<_>>>()?;
        match arrays.is_empty() {
            true => Ok(new_empty_array(&ColumnType::Array(element).to_arrow())),
            false => ScalarValue::iter_to_array(arrays),
        }
    };
    let signature = Signature::exact(vec![DataType::Utf8], Volatility::Immutable);
    let of = Arc::new(make_scalar_function(arrays, Vec::new()));
    let name = format!("array_of_{element:?}").to_ascii_lowercase();
    Arc::new(SimpleScalarUDF::new_with_signature(&name, signature, ColumnType::Array(element).to_arrow(), of).into())
}

#[cfg(test)]
#[path = "array_literals_tests.rs"]
mod tests;
