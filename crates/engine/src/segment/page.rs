//! Decoded pages and dictionaries. The cache keeps them, and scans copy from them.

use crate::column::{BytesBuilder, ColumnBuilder};
use crate::key::KeyPart;
use crate::lane::Lane;
use std::sync::Arc;

/// A decoded page.
pub(crate) enum Page {
    Raw(Lane),
    Codes(Lane, Arc<Dictionary>),
    Bytes(BytesBuilder),
}

/// A decoded dictionary of text or bytes.
pub(crate) struct Dictionary {
    pub(super) data: Vec<u8>,
    pub(super) ends: Vec<usize>,
    /// The raw values, if the column is numeric.
    pub(super) raw: Vec<u64>,
}

impl Dictionary {
    /// Number of texts.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, code: u64) -> &[u8] {
        let code = code as usize;
        let start = if code == 0 { 0 } else { self.ends[code - 1] };
        &self.data[start..self.ends[code]]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.data.capacity() + self.ends.capacity() * 8 + self.raw.capacity() * 8
    }
}

impl Page {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Raw(lane) | Self::Codes(lane, _) => lane.bytes(),
            Self::Bytes(bytes) => bytes.bytes(),
        }
    }

    /// The page in the least memory that allows reading each value individually.
    pub(super) fn packed(self) -> Self {
        match self {
            Self::Raw(lane) => Self::Raw(lane.into_packed()),
            Self::Codes(lane, dictionary) => Self::Codes(lane.into_packed(), dictionary),
            Self::Bytes(bytes) => Self::Bytes(bytes),
        }
    }

    /// Appends `len` values from `start`.
    pub(crate) fn copy(&self, start: usize, len: usize, out: &mut ColumnBuilder) {
        match (self, out) {
            (Self::Raw(lane), ColumnBuilder::Raw(out)) => out.extend(lane, start, len),
            // Adjacent rows usually have the same text: their container's.
            (Self::Codes(lane, dictionary), ColumnBuilder::Bytes(out)) if lane.is_constant(start, len) => {
                out.push_repeated(lane.get(start).map(|code| dictionary.get(code)), len);
            }
            (Self::Codes(lane, dictionary), ColumnBuilder::Bytes(out)) => {
                copy_codes(lane, dictionary, start..start + len, out);
            }
            (Self::Bytes(bytes), ColumnBuilder::Bytes(out)) => out.extend(bytes, start, len),
            (_, out) => out.push_raw(None, len),
        }
    }

    /// The value at an index.
    pub(crate) fn value(&self, at: usize) -> KeyPart<'_> {
        let value = match self {
            Self::Raw(lane) => lane.get(at).map(KeyPart::Raw),
            Self::Codes(lane, dictionary) => lane.get(at).map(|code| KeyPart::Bytes(dictionary.get(code))),
            Self::Bytes(bytes) => bytes.get(at).map(KeyPart::Bytes),
        };
        value.unwrap_or(KeyPart::Null)
    }

    /// Whether the `len` values from `start` are known to be equal.
    pub(crate) fn is_constant(&self, start: usize, len: usize) -> bool {
        match self {
            Self::Raw(lane) | Self::Codes(lane, _) => lane.is_constant(start, len),
            Self::Bytes(_) => len <= 1,
        }
    }

    /// Appends the values at these indexes.
    pub(crate) fn gather(&self, places: &[u32], out: &mut ColumnBuilder) {
        let mut wide = places.iter().map(|&place| place as usize);
        match (self, out) {
            (Self::Raw(lane), ColumnBuilder::Raw(out)) => out.gather(lane, places),
            (Self::Codes(lane, dictionary), ColumnBuilder::Bytes(out)) => copy_codes(lane, dictionary, wide, out),
            (Self::Bytes(bytes), ColumnBuilder::Bytes(out)) => wide.for_each(|place| out.push(bytes.get(place))),
            (_, out) => out.push_raw(None, wide.by_ref().count()),
        }
    }
}

/// Appends the texts of codes; a run of equal texts is appended at once.
fn copy_codes(lane: &Lane, dictionary: &Dictionary, places: impl Iterator<Item = usize>, out: &mut BytesBuilder) {
    let mut codes = places.map(|place| lane.get(place)).peekable();
    while let Some(code) = codes.next() {
        let mut run = 1;
        while codes.next_if_eq(&code).is_some() {
            run += 1;
        }
        out.push_repeated(code.map(|code| dictionary.get(code)), run);
    }
}
