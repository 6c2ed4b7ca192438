//! Arrays as Parquet lists: the elements of all arrays of a row group, and the levels that say where
//! rows and NULLs are (Apache Parquet format, "Nested Encoding").
//!
//! An element's repetition level is 0 if it is the first of its row, else 1. Its definition level is
//! 3; that of a NULL in an array is 2. An array without elements has one entry with the definition
//! level 1, a NULL instead of an array one with 0.

use super::encoding::{put_hybrid, take_codes};
use super::page::Page;
use super::page_header::DataHeader;
use crate::array::{ArrayBuilder, Elements, MAX_ARRAY_ELEMENTS};
use crate::column::BytesBuilder;
use crate::column_type::ArrayElement;
use crate::error::{Error, Result};
use crate::key::KeyPart;
use crate::lane::Lane;
use crate::pool::Pool;
use std::ops::Range;

/// Memory of an element while arrays are written: its value, its code in a dictionary, its levels.
pub(crate) const ELEMENT_BYTES: usize = 17;

const NO_ARRAY: u8 = 0;
const EMPTY: u8 = 1;
const NULL_ELEMENT: u8 = 2;
const ELEMENT: u8 = 3;
/// Bits of a definition level.
const DEFINITION_BITS: u32 = 2;
/// Set in a level if it is the first of its row.
const FIRST: u8 = 4;

/// The arrays of a row group, as their elements.
pub(super) struct Lists {
    /// The elements that are not NULL; as entry numbers of `texts` if they are texts.
    pub(super) values: Vec<u64>,
    pub(super) texts: Option<Pool>,
    pub(super) levels: ListLevels,
}

/// The levels of a row group's rows.
pub(super) struct ListLevels {
    /// Definition levels, with [`FIRST`].
    levels: Vec<u8>,
    /// The end of each row in `levels` and in the elements that are not NULL.
    ends: Vec<(usize, usize)>,
}

impl Lists {
    /// The arrays that a lane's codes stand for.
    ///
    /// # Errors
    /// An array cannot be decoded.
    pub(super) fn new(lane: &Lane, arrays: &Pool, element: ArrayElement) -> Result<Self> {
        let (mut values, mut levels, mut ends) = (Vec::new(), Vec::new(), Vec::with_capacity(lane.len()));
        let mut texts = (element == ArrayElement::Utf8).then(Pool::default);
        for row in 0..lane.len() {
            let start = levels.len();
            match lane.get(row) {
                None => levels.push(NO_ARRAY),
                Some(code) => {
                    let mut elements = Elements::read(element, arrays.get(code as u32))?;
                    if elements.len() == 0 {
                        levels.push(EMPTY);
                    }
                    while let Some(part) = elements.next_element()? {
                        levels.push(if part == KeyPart::Null { NULL_ELEMENT } else { ELEMENT });
                        match (part, &mut texts) {
                            (KeyPart::Raw(raw), _) => values.push(raw),
                            (KeyPart::Bytes(text), Some(texts)) => values.push(u64::from(texts.intern(text))),
                            _ => {}
                        }
                    }
                }
            }
            levels[start] |= FIRST;
            ends.push((levels.len(), values.len()));
        }
        Ok(Self { values, texts, levels: ListLevels { levels, ends } })
    }
}

impl ListLevels {
    /// The number of elements that are not NULL in the first `rows` rows.
    pub(super) fn values_before(&self, rows: usize) -> usize {
        if rows == 0 { 0 } else { self.ends[rows - 1].1 }
    }

    pub(super) fn rows(&self) -> usize {
        self.ends.len()
    }

    fn levels_before(&self, rows: usize) -> usize {
        if rows == 0 { 0 } else { self.ends[rows - 1].0 }
    }

    /// The number of levels of rows.
    pub(super) fn levels_of(&self, rows: Range<usize>) -> usize {
        self.levels_before(rows.end) - self.levels_before(rows.start)
    }

    /// Appends the levels of rows as a page has them. Returns their number, and the bytes of the
    /// repetition levels, which come first.
    pub(super) fn put(&self, rows: Range<usize>, out: &mut Vec<u8>) -> (usize, usize) {
        let levels = &self.levels[self.levels_before(rows.start)..self.levels_before(rows.end)];
        let repetition: Vec<u64> = levels.iter().map(|level| u64::from(level & FIRST == 0)).collect();
        put_hybrid(&repetition, 1, out);
        let repetition_bytes = out.len();
        let definition: Vec<u64> = levels.iter().map(|level| u64::from(level & !FIRST)).collect();
        put_hybrid(&definition, DEFINITION_BITS, out);
        (levels.len(), repetition_bytes)
    }
}

/// The levels of a page.
pub(super) struct PageLevels {
    repetition: Vec<u64>,
    definition: Vec<u64>,
}

impl PageLevels {
    /// Decodes the levels of a page with this many rows.
    ///
    /// # Errors
    /// They do not match the page's header.
    pub(super) fn take(levels: &[u8], header: &DataHeader, values: usize, rows: usize) -> Result<Self> {
        let wrong = || Error::damaged("the page's levels do not match its header");
        // A page of more than one row has far fewer.
        if values > MAX_ARRAY_ELEMENTS.max(rows) {
            return Err(wrong());
        }
        let (repetition, definition) = levels.split_at_checked(header.repetition_bytes).ok_or_else(wrong)?;
        let repetition = take_codes(repetition, values, 1, 2)?;
        let definition = take_codes(definition, values, DEFINITION_BITS, 4)?;
        let begun = repetition.iter().filter(|level| **level == 0).count();
        let nulls = definition.iter().filter(|level| **level != u64::from(ELEMENT)).count();
        let begins = repetition.first().is_none_or(|level| *level == 0);
        match begun == rows && nulls == header.nulls && begins {
            true => Ok(Self { repetition, definition }),
            false => Err(wrong()),
        }
    }

    /// The arrays, given the elements that are not NULL.
    ///
    /// # Errors
    /// An array has too many elements.
    pub(super) fn arrays(&self, element: ArrayElement, elements: &Page) -> Result<BytesBuilder> {
        let (mut arrays, mut builder, mut bytes) = (BytesBuilder::default(), ArrayBuilder::new(element), Vec::new());
        let mut is_array = false;
        let mut next = 0;
        let mut end_row = |builder: &mut ArrayBuilder, is_array: bool| -> Result<()> {
            bytes.clear();
            builder.finish(&mut bytes)?;
            arrays.push(is_array.then_some(&bytes));
            Ok(())
        };
        for (place, (&repetition, &definition)) in self.repetition.iter().zip(&self.definition).enumerate() {
            if repetition == 0 && place > 0 {
                end_row(&mut builder, is_array)?;
            }
            is_array = definition != u64::from(NO_ARRAY);
            if definition == u64::from(ELEMENT) {
                builder.push(elements.value(next));
                next += 1;
            } else if definition == u64::from(NULL_ELEMENT) {
                builder.push(KeyPart::Null);
            }
        }
        if !self.repetition.is_empty() {
            end_row(&mut builder, is_array)?;
        }
        Ok(arrays)
    }
}

/// Memory of an array while it is written.
pub(crate) fn array_bytes(element: ArrayElement, array: &[u8]) -> usize {
    let elements = Elements::read(element, array).map_or(0, |elements| elements.len());
    array.len() + elements * ELEMENT_BYTES
}
