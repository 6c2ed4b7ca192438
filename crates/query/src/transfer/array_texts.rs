//! The text form of arrays as PostgreSQL writes it: `{1,NULL,"a b"}`.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::Result;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use fleetdb_engine::array_element_text;
use fleetdb_functions::values::texts::text_form;
use std::sync::Arc;

/// Converts a column of arrays to text; `None` if its type is not an array.
///
/// ```
/// use arrow::array::{Array, ArrayRef, AsArray, ListArray, types::Int64Type};
/// let arrays = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None]);
/// let texts = fleetdb_query::array_text_form(&(std::sync::Arc::new(arrays) as ArrayRef)).unwrap().unwrap();
/// assert_eq!(texts.as_string::<i32>().value(0), "{1,NULL}");
/// assert!(texts.is_null(1));
/// ```
///
/// # Errors
/// The elements have no text form.
pub fn array_text_form(column: &ArrayRef) -> Result<Option<ArrayRef>> {
    let column = match column.data_type() {
        DataType::List(_) => Arc::clone(column),
        DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            let element = Field::new_list_field(element.data_type().clone(), true);
            cast(column, &DataType::List(Arc::new(element)))?
        }
        _ => return Ok(None),
    };
    let arrays = column.as_list::<i32>();
    let elements = element_texts(arrays.values())?;
    let texts = (0..arrays.len()).map(|row| {
        let offsets = arrays.value_offsets();
        let elements = || (offsets[row]..offsets[row + 1]).map(|at| elements[at as usize].as_str());
        arrays.is_valid(row).then(|| format!("{{{}}}", elements().collect::<Vec<_>>().join(",")))
    });
    Ok(Some(Arc::new(texts.collect::<StringArray>())))
}

/// Rows with texts in place of arrays.
///
/// # Errors
/// Those of [`array_text_form`].
pub fn with_array_texts(rows: &RecordBatch) -> Result<RecordBatch> {
    let text = |column: &ArrayRef| Ok(array_text_form(column)?.unwrap_or_else(|| Arc::clone(column)));
    let columns = rows.columns().iter().map(text).collect::<Result<Vec<_>>>()?;
    let fields = rows.schema_ref().fields().iter().zip(&columns);
    let fields = fields.map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns, &options)
}

/// The elements in the form they have within an array.
fn element_texts(elements: &ArrayRef) -> Result<Vec<String>> {
    // A nested array is not quoted.
    let (texts, is_array) = match array_text_form(elements)? {
        Some(texts) => (texts, true),
        None => (text_form(elements)?.unwrap_or_else(|| Arc::clone(elements)), false),
    };
    let formatter = ArrayFormatter::try_new(&texts, &FormatOptions::new())?;
    let (nulls, is_binary) = (elements.logical_nulls(), is_binary(elements.data_type()));
    let text = |row| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok("NULL".to_owned());
        }
        if let Some(booleans) = elements.as_boolean_opt() {
            return Ok(if booleans.value(row) { "t" } else { "f" }.to_owned());
        }
        let text = formatter.value(row).try_to_string()?;
        Ok(match is_array {
            true => text,
            false if is_binary => array_element_text(&format!("\\x{text}")),
            false => array_element_text(&text),
        })
    };
    (0..elements.len()).map(text).collect()
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}
