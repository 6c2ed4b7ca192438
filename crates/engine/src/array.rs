//! Arrays as values of columns.
//!
//! Memtables, the log and decoded pages hold an array as bytes, like a text: the number of elements
//! (4 bytes, little-endian; the highest bit says that a bitmap of NULLs follows), the bitmap, and
//! the elements that are not NULL, in Parquet's PLAIN encoding but with a byte for each boolean.
//! Equal arrays have equal bytes. Segments hold Parquet lists (`segment/lists.rs`).

use crate::column_type::ArrayElement;
use crate::error::{Code, Error, Result};
use crate::key::KeyPart;
use crate::lane::codec::{put_bytes, take_bytes};

/// Maximum number of elements of one array.
pub const MAX_ARRAY_ELEMENTS: usize = 1 << 24;

/// Set in the number of elements if a bitmap of NULLs follows.
const HAS_NULLS: u32 = 1 << 31;

/// Bytes of an element that is a number or a boolean.
fn width(element: ArrayElement) -> usize {
    match element {
        ArrayElement::Boolean => 1,
        ArrayElement::Int16 | ArrayElement::Int32 | ArrayElement::Float32 => 4,
        ArrayElement::Int64 | ArrayElement::Float64 => 8,
        ArrayElement::Utf8 => 0,
    }
}

/// The raw value of a stored number or boolean.
fn raw(element: ArrayElement, bytes: &[u8]) -> u64 {
    let mut raw = [0; 8];
    raw[..bytes.len()].copy_from_slice(bytes);
    let raw = u64::from_le_bytes(raw);
    match element {
        ArrayElement::Int16 | ArrayElement::Int32 => raw as u32 as i32 as u64,
        _ => raw,
    }
}

/// Gathers the elements of one array.
pub(crate) struct ArrayBuilder {
    element: ArrayElement,
    /// The elements that are not NULL.
    values: Vec<u8>,
    nulls: Vec<u8>,
    len: usize,
    has_nulls: bool,
}

impl ArrayBuilder {
    pub(crate) fn new(element: ArrayElement) -> Self {
        Self { element, values: Vec::new(), nulls: Vec::new(), len: 0, has_nulls: false }
    }

    pub(crate) fn push(&mut self, part: KeyPart<'_>) {
        if self.len.is_multiple_of(8) {
            self.nulls.push(0);
        }
        match part {
            KeyPart::Null => {
                self.nulls[self.len / 8] |= 1 << (self.len % 8);
                self.has_nulls = true;
            }
            KeyPart::Raw(raw) => self.values.extend_from_slice(&raw.to_le_bytes()[..width(self.element)]),
            KeyPart::Bytes(bytes) => put_bytes(&mut self.values, bytes),
        }
        self.len += 1;
    }

    /// Appends the array's bytes, and makes the builder empty.
    ///
    /// # Errors
    /// It has too many elements.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if self.len > MAX_ARRAY_ELEMENTS {
            let message = format!("an array has {} elements, but the limit is {MAX_ARRAY_ELEMENTS}", self.len);
            return Err(Error::new(Code::LimitExceeded, message));
        }
        let flag = if self.has_nulls { HAS_NULLS } else { 0 };
        out.extend_from_slice(&(self.len as u32 | flag).to_le_bytes());
        if self.has_nulls {
            out.extend_from_slice(&self.nulls);
        }
        out.extend_from_slice(&self.values);
        self.values.clear();
        self.nulls.clear();
        (self.len, self.has_nulls) = (0, false);
        Ok(())
    }
}

/// The elements of an array, read from its bytes.
pub(crate) struct Elements<'a> {
    element: ArrayElement,
    /// Empty if none is NULL.
    nulls: &'a [u8],
    rest: &'a [u8],
    len: usize,
    at: usize,
}

impl<'a> Elements<'a> {
    /// # Errors
    /// The bytes are too short to be an array.
    pub(crate) fn read(element: ArrayElement, bytes: &'a [u8]) -> Result<Self> {
        let (head, rest) = bytes.split_first_chunk::<4>().ok_or_else(broken)?;
        let head = u32::from_le_bytes(*head);
        let len = (head & !HAS_NULLS) as usize;
        let bitmap_bytes = if head & HAS_NULLS == 0 { 0 } else { len.div_ceil(8) };
        let (nulls, rest) = rest.split_at_checked(bitmap_bytes).ok_or_else(broken)?;
        Ok(Self { element, nulls, rest, len, at: 0 })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The next element; `None` after the last one.
    ///
    /// # Errors
    /// The bytes end within it.
    pub(crate) fn next_element(&mut self) -> Result<Option<KeyPart<'a>>> {
        if self.at == self.len {
            return Ok(None);
        }
        let at = self.at;
        self.at += 1;
        if self.nulls.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1) {
            return Ok(Some(KeyPart::Null));
        }
        if self.element == ArrayElement::Utf8 {
            return take_bytes(&mut self.rest).map(|bytes| Some(KeyPart::Bytes(bytes)));
        }
        let (value, rest) = self.rest.split_at_checked(width(self.element)).ok_or_else(broken)?;
        self.rest = rest;
        Ok(Some(KeyPart::Raw(raw(self.element, value))))
    }
}

fn broken() -> Error {
    Error::damaged("a stored array ends within its elements")
}

#[cfg(test)]
#[path = "array_tests.rs"]
mod tests;
