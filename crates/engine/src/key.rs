//! Container keys, encoded so that byte order is key order ("memcomparable" keys, as in MyRocks).
//!
//! A key is the concatenation of its columns: `0` for NULL; otherwise `1` and the value. A number
//! is 8 bytes, big-endian, with the sign bit flipped for signed types. Text and binary values end
//! with `0 0`; a zero byte inside becomes `0 255`. Trailing NULLs are left out, so that a key keeps
//! its bytes when a key column is added to the table.

use crate::column_type::ColumnType;
use crate::error::{Error, Result};

/// The value of one column in a key or a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPart<'a> {
    Null,
    Raw(u64),
    Bytes(&'a [u8]),
}

/// The decoded value of one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyValue {
    Null,
    Raw(u64),
    Bytes(Vec<u8>),
}

impl KeyValue {
    /// The value, borrowed.
    pub(crate) fn part(&self) -> KeyPart<'_> {
        match self {
            Self::Null => KeyPart::Null,
            Self::Raw(raw) => KeyPart::Raw(*raw),
            Self::Bytes(bytes) => KeyPart::Bytes(bytes),
        }
    }
}

const SIGN: u64 = 1 << 63;

/// Appends one column. The caller must cut off trailing NULLs, as [`encode`] does.
pub(crate) fn push(out: &mut Vec<u8>, column_type: ColumnType, part: KeyPart<'_>) {
    match part {
        KeyPart::Null => out.push(0),
        KeyPart::Raw(raw) => {
            out.push(1);
            let ordered = if is_signed(column_type) { raw ^ SIGN } else { raw };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        KeyPart::Bytes(bytes) => {
            out.push(1);
            if bytes.contains(&0) {
                for &byte in bytes {
                    out.push(byte);
                    if byte == 0 {
                        out.push(255);
                    }
                }
            } else {
                out.extend_from_slice(bytes);
            }
            out.extend_from_slice(&[0, 0]);
        }
    }
}

/// Bytes of an encoded number.
pub(crate) const NUMBER_BYTES: usize = 9;

/// Encodes a whole key.
pub(crate) fn encode<'a>(types: &[ColumnType], parts: impl IntoIterator<Item = KeyPart<'a>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 * types.len());
    let mut used = 0;
    for (&column_type, part) in types.iter().zip(parts) {
        push(&mut out, column_type, part);
        if part != KeyPart::Null {
            used = out.len();
        }
    }
    out.truncate(used);
    out
}

/// The encoded columns of a key, one per type; a NULL that was left out is `[0]`.
pub(crate) fn parts<'a>(key: &'a [u8], types: &'a [ColumnType]) -> impl Iterator<Item = Result<&'a [u8]>> {
    let mut rest = key;
    types.iter().map(move |&column_type| {
        if rest.is_empty() {
            return Ok(&[0][..]);
        }
        let (part, after) = split(rest, column_type).ok_or_else(|| broken(key))?;
        rest = after;
        Ok(part)
    })
}

/// Splits what is left of a key behind its first column.
fn split(rest: &[u8], column_type: ColumnType) -> Option<(&[u8], &[u8])> {
    let len = match rest.first() {
        None => 0,
        Some(0) => 1,
        Some(_) if column_type.is_bytes() => 1 + text_len(&rest[1..])?,
        Some(_) => NUMBER_BYTES,
    };
    rest.split_at_checked(len)
}

/// The length of the encoded text that bytes begin with.
fn text_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == 0)?;
        match bytes.get(at + 1)? {
            0 => return Some(at + 2),
            255 => at += 2,
            _ => return None,
        }
    }
}

/// Joins encoded columns to a whole key, without trailing NULLs.
pub(crate) fn join(parts: &[&Vec<u8>]) -> Vec<u8> {
    let used = parts.iter().rposition(|part| part.as_slice() != [0]).map_or(0, |last| last + 1);
    let mut key = Vec::with_capacity(parts[..used].iter().map(|part| part.len()).sum());
    parts[..used].iter().for_each(|part| key.extend_from_slice(part));
    key
}

/// The decoded columns of a key, one per type; NULL for those left out.
pub(crate) fn decode(key: &[u8], types: &[ColumnType]) -> Result<Vec<KeyValue>> {
    let mut rest = key;
    let values = types.iter().map(|&column_type| take(&mut rest, column_type)).collect::<Option<Vec<_>>>();
    values.filter(|_| rest.is_empty()).ok_or_else(|| broken(key))
}

/// The decoded column at a place of a key.
pub(crate) fn decode_column(key: &[u8], types: &[ColumnType], place: usize) -> Result<KeyValue> {
    let mut rest = key;
    for &column_type in &types[..place] {
        (_, rest) = split(rest, column_type).ok_or_else(|| broken(key))?;
    }
    take(&mut rest, types[place]).ok_or_else(|| broken(key))
}

fn broken(key: &[u8]) -> Error {
    Error::damaged(format!("a container key of {} bytes cannot be decoded", key.len()))
}

/// Takes a column from the front of what is left of a key.
fn take(rest: &mut &[u8], column_type: ColumnType) -> Option<KeyValue> {
    let (part, after) = split(rest, column_type)?;
    *rest = after;
    Some(match part {
        [] | [0] => KeyValue::Null,
        [1, text @ .., 0, 0] if column_type.is_bytes() => KeyValue::Bytes(unescape(text)),
        [1, raw @ ..] => {
            let ordered = u64::from_be_bytes(raw.try_into().ok()?);
            KeyValue::Raw(if is_signed(column_type) { ordered ^ SIGN } else { ordered })
        }
        _ => return None,
    })
}

/// The bytes of a text in which each zero is followed by 255.
fn unescape(mut text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    while let Some(zero) = text.iter().position(|&byte| byte == 0) {
        bytes.extend_from_slice(&text[..=zero]);
        text = text.get(zero + 2..).unwrap_or_default();
    }
    bytes.extend_from_slice(text);
    bytes
}

fn is_signed(column_type: ColumnType) -> bool {
    !matches!(
        column_type,
        ColumnType::UInt8 | ColumnType::UInt16 | ColumnType::UInt32 | ColumnType::UInt64 | ColumnType::Boolean
    )
}

/// A range of keys. Without bounds, it holds all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// No key of the range is below this.
    pub(crate) first: Vec<u8>,
    /// No key of the range is above this, except those that start with it.
    pub(crate) last: Vec<u8>,
}

impl KeyRange {
    /// Whether the key and all after it are above the range.
    pub(crate) fn ends_before(&self, key: &[u8]) -> bool {
        key > self.last.as_slice() && !key.starts_with(&self.last)
    }
}

/// Keys in order, in one buffer of less than 4 GiB.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Keys {
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        // Index blocks count bytes in 32 bits, and the settings keep a memtable below half of that.
        self.ends.push(self.bytes.len() as u32);
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }

    pub(crate) fn get(&self, place: usize) -> &[u8] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] as usize };
        &self.bytes[start..self.ends[place] as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|place| self.get(place))
    }

    /// The first position at or after `from` whose key is not below `key`.
    pub(crate) fn seek(&self, from: usize, key: &[u8]) -> usize {
        let (mut low, mut high) = (from.min(self.len()), self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
