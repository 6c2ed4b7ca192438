//! Cuts rows into batches that are not too large.

use arrow::array::{Array, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch};
use arrow::datatypes::DataType;

/// Cuts rows, which come in any number, into batches.
pub(crate) struct Batches {
    max_rows: usize,
    max_bytes: usize,
    /// Rows that had no room in the last batch.
    rest: Option<RecordBatch>,
}

impl Batches {
    /// Batches of at most this many rows and bytes. A row that is larger is a batch of its own.
    pub(crate) fn new(max_rows: usize, max_bytes: usize) -> Self {
        Self { max_rows: max_rows.max(1), max_bytes, rest: None }
    }

    /// The parts of the next batch; none if no rows are left. `more` gives the next rows, and `None`
    /// at their end.
    ///
    /// # Errors
    /// Those of `more`.
    pub(crate) fn next<E>(
        &mut self,
        mut more: impl FnMut() -> Result<Option<RecordBatch>, E>,
    ) -> Result<Vec<RecordBatch>, E> {
        let (mut parts, mut count, mut bytes) = (Vec::new(), 0, 0);
        // A batch that is half full is not filled up with small parts.
        while count < self.max_rows && bytes <= self.max_bytes / 2 {
            let next = match self.rest.take() {
                Some(rest) => Some(rest),
                None => more()?,
            };
            let Some(rows) = next else { break };
            if rows.num_rows() == 0 {
                continue;
            }
            let fitting = fitting(&rows.slice(0, rows.num_rows().min(self.max_rows - count)), self.max_bytes - bytes);
            if fitting == 0 && !parts.is_empty() {
                self.rest = Some(rows);
                break;
            }
            let part = rows.slice(0, fitting.max(1));
            if part.num_rows() < rows.num_rows() {
                self.rest = Some(rows.slice(part.num_rows(), rows.num_rows() - part.num_rows()));
            }
            count += part.num_rows();
            bytes += bytes_of(&part);
            parts.push(part);
        }
        Ok(parts)
    }
}

/// A number of first rows that have at most this many bytes.
fn fitting(rows: &RecordBatch, max_bytes: usize) -> usize {
    let mut count = rows.num_rows();
    while count > 0 && bytes_of(&rows.slice(0, count)) > max_bytes {
        count /= 2;
    }
    count
}

/// The bytes of rows.
fn bytes_of(rows: &RecordBatch) -> usize {
    rows.columns().iter().map(|array| bytes_of_array(array)).sum()
}

/// The bytes of an array's own values, in memory that it may share. A dictionary does not count: fewer
/// rows have the same.
fn bytes_of_array(array: &dyn Array) -> usize {
    let views = array.len() * size_of::<u128>();
    match array.data_type() {
        DataType::Utf8View => views + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => views + array.as_binary_view().total_buffer_bytes_used(),
        DataType::Dictionary(..) => bytes_of_array(array.as_any_dictionary().keys()),
        DataType::List(_) => bytes_of_list(array.as_list::<i32>()),
        DataType::LargeList(_) => bytes_of_list(array.as_list::<i64>()),
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()),
    }
}

fn bytes_of_list<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> usize {
    let offsets = list.value_offsets();
    let (first, end) = match offsets {
        [first, .., end] => (first.as_usize(), end.as_usize()),
        _ => (0, 0),
    };
    size_of_val(offsets) + bytes_of_array(list.values().slice(first, end - first).as_ref())
}
