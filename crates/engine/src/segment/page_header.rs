//! Parquet page headers. The `parquet` crate cannot write them with a checksum, so they are written
//! and read here. (Apache Parquet format, `PageHeader` in `parquet.thrift`; Thrift compact
//! protocol.)

use crate::error::{Error, Result};

const DICTIONARY_PAGE: i32 = 2;
const DATA_PAGE_V2: i32 = 3;

/// How a page's values are encoded, with Parquet's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Plain = 0,
    DeltaBinaryPacked = 5,
    Dictionary = 8,
    ByteStreamSplit = 9,
}

impl Encoding {
    fn from_number(number: i32) -> Option<Self> {
        [Self::Plain, Self::DeltaBinaryPacked, Self::Dictionary, Self::ByteStreamSplit]
            .into_iter()
            .find(|&encoding| encoding as i32 == number)
    }
}

/// The header of a dictionary page or of a version 2 data page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageHeader {
    /// Bytes after the header, uncompressed.
    pub(crate) plain_bytes: usize,
    /// Bytes after the header.
    pub(crate) stored_bytes: usize,
    /// CRC-32 of the bytes after the header.
    pub(crate) crc: u32,
    /// Number of values, with NULLs.
    pub(crate) values: usize,
    /// `None` for a dictionary page.
    pub(crate) data: Option<DataHeader>,
}

/// The part of the header that only data pages have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataHeader {
    pub(crate) rows: usize,
    pub(crate) nulls: usize,
    pub(crate) encoding: Encoding,
    /// Bytes of repetition levels, at the front; never compressed.
    pub(crate) repetition_bytes: usize,
    /// Bytes of definition levels before the values; never compressed.
    pub(crate) definition_bytes: usize,
    pub(crate) compressed: bool,
}

impl DataHeader {
    /// Bytes of levels before the values.
    pub(crate) fn level_bytes(&self) -> usize {
        self.repetition_bytes.saturating_add(self.definition_bytes)
    }
}

impl PageHeader {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut fields = Fields { out, last: 0 };
        fields.i32(1, if self.data.is_some() { DATA_PAGE_V2 } else { DICTIONARY_PAGE });
        fields.i32(2, self.plain_bytes as i32);
        fields.i32(3, self.stored_bytes as i32);
        fields.i32(4, self.crc as i32);
        match &self.data {
            None => fields.structure(7, |inner| {
                inner.i32(1, self.values as i32);
                inner.i32(2, Encoding::Plain as i32);
            }),
            Some(data) => fields.structure(8, |inner| {
                inner.i32(1, self.values as i32);
                inner.i32(2, data.nulls as i32);
                inner.i32(3, data.rows as i32);
                inner.i32(4, data.encoding as i32);
                inner.i32(5, data.definition_bytes as i32);
                inner.i32(6, data.repetition_bytes as i32);
                inner.boolean(7, data.compressed);
            }),
        }
        out.push(0);
    }

    /// Reads a header from the front of `bytes` and advances `bytes`.
    ///
    /// # Errors
    /// The bytes are not a valid header.
    pub(crate) fn read(bytes: &mut &[u8]) -> Result<Self> {
        let mut outer = [0i64; 9];
        let mut inner = [0i64; 9];
        let mut kind = 0;
        read_structure(bytes, &mut |bytes, field, wire| {
            if wire == STRUCT {
                kind = field;
                return read_structure(bytes, &mut |bytes, field, wire| {
                    store(&mut inner, field, read_scalar(bytes, wire)?);
                    Ok(())
                });
            }
            store(&mut outer, field, read_scalar(bytes, wire)?);
            Ok(())
        })?;
        let count = |number: i64| usize::try_from(number).map_err(|_| broken());
        let data = match kind {
            7 => None,
            8 => Some(DataHeader {
                nulls: count(inner[2])?,
                encoding: i32::try_from(inner[4]).ok().and_then(Encoding::from_number).ok_or_else(broken)?,
                rows: count(inner[3])?,
                definition_bytes: count(inner[5])?,
                repetition_bytes: count(inner[6])?,
                compressed: inner[7] == 1,
            }),
            _ => return Err(broken()),
        };
        Ok(Self {
            plain_bytes: count(outer[2])?,
            stored_bytes: count(outer[3])?,
            crc: outer[4] as u32,
            values: count(inner[1])?,
            data,
        })
    }
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I32: u8 = 5;
const STRUCT: u8 = 12;

struct Fields<'a> {
    out: &'a mut Vec<u8>,
    last: u8,
}

impl Fields<'_> {
    fn header(&mut self, field: u8, wire: u8) {
        self.out.push((field - self.last) << 4 | wire);
        self.last = field;
    }

    fn i32(&mut self, field: u8, value: i32) {
        self.header(field, I32);
        put_varint(self.out, u64::from(((value << 1) ^ (value >> 31)) as u32));
    }

    fn boolean(&mut self, field: u8, value: bool) {
        self.header(field, if value { TRUE } else { FALSE });
    }

    fn structure(&mut self, field: u8, write: impl FnOnce(&mut Fields<'_>)) {
        self.header(field, STRUCT);
        write(&mut Fields { out: self.out, last: 0 });
        self.out.push(0);
    }
}

fn store(fields: &mut [i64; 9], field: u8, value: i64) {
    if let Some(place) = fields.get_mut(usize::from(field)) {
        *place = value;
    }
}

/// Called with the remaining bytes, a field's number and its wire type.
type EachField<'a> = dyn FnMut(&mut &[u8], u8, u8) -> Result<()> + 'a;

fn read_structure(bytes: &mut &[u8], each: &mut EachField<'_>) -> Result<()> {
    let mut field = 0u8;
    loop {
        let (&head, rest) = bytes.split_first().ok_or_else(broken)?;
        *bytes = rest;
        if head == 0 {
            return Ok(());
        }
        // Headers written here have no gaps of 15 fields or more, which need the long form.
        field = field.checked_add(head >> 4).filter(|_| head >> 4 != 0).ok_or_else(broken)?;
        each(bytes, field, head & 15)?;
    }
}

fn read_scalar(bytes: &mut &[u8], wire: u8) -> Result<i64> {
    match wire {
        TRUE => Ok(1),
        FALSE => Ok(0),
        I32 => {
            let raw = take_varint(bytes).ok_or_else(broken)?;
            Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
        }
        _ => Err(broken()),
    }
}

fn broken() -> Error {
    Error::damaged("a page header cannot be decoded")
}

/// Appends a number as a varint: groups of 7 bits, lowest first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a varint from the front.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
