//! Finds the boundaries of runs.

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::partition;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use std::ops::Range;

/// Number of texts compared at once.
const BLOCK_ROWS: usize = 256;

/// Splits one or more rows into runs that are equal in all columns. The result is that of
/// [`partition`], which compares each text with the previous one. This function compares blocks of
/// equally long texts at once, because neighbours are mostly equal.
pub(super) fn runs(columns: &[ArrayRef]) -> Result<Vec<Range<usize>>, ArrowError> {
    let is_text = |column: &&ArrayRef| *column.data_type() == DataType::Utf8 && column.null_count() == 0;
    let (texts, others): (Vec<&ArrayRef>, Vec<&ArrayRef>) = columns.iter().partition(is_text);
    let rows = columns.first().map_or(0, |column| column.len());
    let mut starts = vec![0];
    if !others.is_empty() {
        let others: Vec<ArrayRef> = others.into_iter().cloned().collect();
        starts.extend(partition(&others)?.ranges().into_iter().map(|range| range.start));
    }
    for column in texts {
        let texts = column.as_string::<i32>();
        for from in (1..rows).step_by(BLOCK_ROWS) {
            let to = (from + BLOCK_ROWS).min(rows);
            if !is_one_text(texts, from - 1..to) {
                starts.extend((from..to).filter(|&row| texts.value(row) != texts.value(row - 1)));
            }
        }
    }
    starts.sort_unstable();
    starts.dedup();
    let ends = starts[1..].iter().copied().chain([rows]);
    Ok(starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect())
}

/// Whether all texts (at least one) are equal: they have the same length, and each byte equals the
/// same byte of the previous text.
fn is_one_text(texts: &StringArray, rows: Range<usize>) -> bool {
    let offsets = &texts.value_offsets()[rows.start..=rows.end];
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let length = offsets[1] - first;
    // No early exit, so that the compiler can vectorize the loop.
    let differs = offsets.windows(2).fold(0, |differs, pair| differs | (pair[1] - pair[0]) ^ length);
    let bytes = &texts.value_data()[first as usize..last as usize];
    differs == 0 && bytes[length as usize..] == bytes[..bytes.len() - length as usize]
}

#[cfg(test)]
#[path = "boundaries_tests.rs"]
mod tests;
