//! How the values of a column in a row group are divided into pages: of [`PAGE_ROWS`] rows, or of
//! fewer if texts or arrays are long.

use super::PAGE_ROWS;
use super::encoding::put_hybrid;
use super::lists::ListLevels;
use super::page_header::put_varint;
use crate::lane::{Lane, NullMask};
use crate::pool::Pool;
use std::ops::Range;

/// Approximate bytes of plain texts per page: reading one row means reading its whole page.
const TEXT_PAGE_BYTES: usize = 16 << 10;
/// Maximum elements in a page of more than one array.
const MAX_PAGE_ELEMENTS: usize = 16 << 10;

/// The values of a column without NULLs, divided into pages.
pub(super) struct Pages {
    /// Values that are not NULL (codes for text); in a column of arrays, their elements.
    pub(super) values: Vec<u64>,
    pub(super) shape: Shape,
    pub(super) page_rows: usize,
    /// For each page, its rows and the end of its values in `values`.
    pub(super) ends: Vec<(usize, usize)>,
    rows: usize,
}

/// Where the values are in the rows.
pub(super) enum Shape {
    /// One value in a row that is not NULL.
    Rows(NullMask),
    /// Any number of values in a row.
    Lists(ListLevels),
}

/// The levels of a page, encoded.
pub(super) struct Levels {
    /// The repetition levels, then the definition levels.
    pub(super) bytes: Vec<u8>,
    pub(super) repetition_bytes: usize,
    /// Number of levels, which is the number of values with NULLs.
    pub(super) count: usize,
}

impl Pages {
    pub(super) fn new(lane: Lane) -> Self {
        let rows = lane.len();
        let (mut values, nulls) = lane.into_plain();
        if nulls.nulls() > 0 {
            let mut kept = 0;
            for row in (0..rows).filter(|&row| !nulls.is_null(row)) {
                values[kept] = values[row];
                kept += 1;
            }
            values.truncate(kept);
        }
        let mut pages = Self { values, shape: Shape::Rows(nulls), page_rows: PAGE_ROWS, ends: Vec::new(), rows };
        pages.divide(PAGE_ROWS);
        pages
    }

    /// The elements of arrays.
    pub(super) fn of_lists(values: Vec<u64>, levels: ListLevels) -> Self {
        let rows = levels.rows();
        let most = |page_rows: usize| {
            let pages = (0..rows).step_by(page_rows);
            pages.map(|start| levels.levels_of(start..rows.min(start + page_rows))).max().unwrap_or(0)
        };
        let mut page_rows = PAGE_ROWS;
        while page_rows > 1 && most(page_rows) > MAX_PAGE_ELEMENTS {
            page_rows /= 2;
        }
        let mut pages = Self { values, shape: Shape::Lists(levels), page_rows, ends: Vec::new(), rows };
        pages.divide(page_rows);
        pages
    }

    /// Divides the values into pages of `page_rows` rows.
    fn divide(&mut self, page_rows: usize) {
        let mut end = 0;
        let pages = (0..self.rows).step_by(page_rows).map(|start| {
            let rows = page_rows.min(self.rows - start);
            match &self.shape {
                Shape::Rows(nulls) if nulls.nulls() == 0 => end += rows,
                Shape::Rows(nulls) => end += (start..start + rows).filter(|&row| !nulls.is_null(row)).count(),
                Shape::Lists(levels) => end = levels.values_before(start + rows),
            }
            (rows, end)
        });
        self.ends = pages.collect();
        self.page_rows = page_rows;
    }

    /// Divides texts into pages of about [`TEXT_PAGE_BYTES`]. Their number of rows is a power of two.
    pub(super) fn divide_texts(&mut self, pool: &Pool) {
        let bytes: usize = self.values.iter().map(|&code| pool.get(code as u32).len()).sum();
        let rows = TEXT_PAGE_BYTES * self.rows / bytes.max(1);
        self.divide(1 << rows.clamp(1, self.page_rows).ilog2());
    }

    /// The values of a page.
    pub(super) fn page(&self, number: usize) -> &[u64] {
        let start = if number == 0 { 0 } else { self.ends[number - 1].1 };
        &self.values[start..self.ends[number].1]
    }

    /// The levels of a page's rows.
    pub(super) fn levels(&self, rows: Range<usize>, nullable: bool) -> Levels {
        let mut levels = Levels { bytes: Vec::new(), repetition_bytes: 0, count: rows.len() };
        match &self.shape {
            Shape::Rows(_) if !nullable => {}
            Shape::Rows(nulls) if nulls.nulls() == 0 => {
                put_varint(&mut levels.bytes, (rows.len() as u64) << 1);
                levels.bytes.push(1);
            }
            Shape::Rows(nulls) => {
                let defined: Vec<u64> = rows.map(|row| u64::from(!nulls.is_null(row))).collect();
                put_hybrid(&defined, 1, &mut levels.bytes);
            }
            Shape::Lists(lists) => {
                (levels.count, levels.repetition_bytes) = lists.put(rows, &mut levels.bytes);
            }
        }
        levels
    }
}
