//! The payload of a WAL frame: one atomic batch, as one section per table.
//!
//! A delete section is: table id (4 bytes), `0xffff_ffff` (4), a flag byte (1: a container key
//! follows, prefixed by its length (4); 0: all containers), minimum and maximum time (8 each), both
//! inclusive. It precedes the table's rows of the same batch and does not affect them.
//!
//! A row section is: table id (4 bytes), number of rows (4), then
//! - new containers: count (4), each key prefixed by its length (4);
//! - the rows' container numbers, as a lane;
//! - a flag byte: 1 if the rows have times; then the times, as a lane;
//! - field columns: count (4), each: column id (4), count of new dictionary entries (4), the
//!   entries prefixed by their lengths (4), a flag byte (1: the lane holds differences), the values
//!   (codes for text) as a lane.
//!
//! A difference is relative to the container's previous row: the preceding row of the section if it
//! belongs to the same container, else the newest row that earlier frames of the file gave the
//! container, else 0. NULL counts as 0. Values or differences are written, whichever take fewer
//! bits.
//!
//! Container numbers and codes count from 0 in each WAL file, in order of appearance, so that each
//! file can be read alone. For lanes see [`crate::lane::codec`].

use crate::error::{Error, Result};
use crate::ids::{ColumnId, TableId};
use crate::lane::codec::{self, Frame, put_bytes, take, take_bytes, take_u32, take_u64};
use crate::lane::{Lane, NullMask};
use crate::pool::Pool;
use crate::write::batch::MAX_BATCH_ROWS;
use std::borrow::Cow;

/// A decoded section.
pub(crate) enum Entry {
    Rows(NewEntries, Section<'static>),
    Delete(Removal),
}

/// The rows of a table that a batch deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) table: TableId,
    /// The container's encoded key; `None` for all containers.
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// Stands in place of the row count and marks a delete section.
const DELETES: u32 = u32::MAX;

/// One table's rows in a batch, with the container numbers and codes of its generation.
pub(crate) struct Section<'a> {
    pub(crate) table: TableId,
    pub(crate) rows: usize,
    /// The container number of each row.
    pub(crate) containers: Vec<u64>,
    /// Empty for a collection.
    pub(crate) times: Cow<'a, [u64]>,
    pub(crate) fields: Vec<SectionField<'a>>,
}

/// One field column of a section: raw values, or codes for text.
pub(crate) struct SectionField<'a> {
    pub(crate) column: ColumnId,
    pub(crate) values: Cow<'a, [u64]>,
    pub(crate) nulls: Cow<'a, NullMask>,
}

/// What a section adds to its file's container numbers and codes.
#[derive(Default)]
pub(crate) struct NewEntries {
    pub(crate) keys: Vec<Vec<u8>>,
    /// For each field of the section, the new dictionary entries.
    pub(crate) entries: Vec<Vec<Vec<u8>>>,
    /// For each field of the section, whether its values are differences.
    pub(crate) differences: Vec<bool>,
}

/// Writes one section. `keys` and the text columns' pools in `texts` know which entries the file
/// lacks. `before` appends the previous rows' values of a field.
pub(crate) fn encode(
    section: &Section<'_>,
    keys: &mut Pool,
    texts: &mut [Option<Pool>],
    before: impl Fn(&SectionField<'_>, &mut Vec<u64>),
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&section.table.0.to_le_bytes());
    out.extend_from_slice(&(section.rows as u32).to_le_bytes());
    put_entries(out, keys);
    codec::encode(&section.containers, &NullMask::default(), out);
    out.push(u8::from(!section.times.is_empty()));
    if !section.times.is_empty() {
        codec::encode(&section.times, &NullMask::default(), out);
    }
    out.extend_from_slice(&(section.fields.len() as u32).to_le_bytes());
    let mut differences = Vec::with_capacity(section.rows);
    for field in &section.fields {
        out.extend_from_slice(&field.column.0.to_le_bytes());
        match texts.get_mut(field.column.0 as usize) {
            Some(Some(pool)) => put_entries(out, pool),
            _ => out.extend_from_slice(&0u32.to_le_bytes()),
        }
        differences.clear();
        before(field, &mut differences);
        differences.iter_mut().zip(&*field.values).for_each(|(before, value)| *before = value.wrapping_sub(*before));
        if field.nulls.nulls() > 0 {
            (0..section.rows).filter(|&row| field.nulls.is_null(row)).for_each(|row| differences[row] = 0);
        }
        let smaller = Frame::of(&differences).width_bits() < Frame::of(&field.values).width_bits();
        out.push(u8::from(smaller));
        codec::encode(if smaller { &differences } else { &field.values }, &field.nulls, out);
    }
}

/// Writes a delete section.
pub(crate) fn encode_removal(removal: &Removal, out: &mut Vec<u8>) {
    out.extend_from_slice(&removal.table.0.to_le_bytes());
    out.extend_from_slice(&DELETES.to_le_bytes());
    out.push(u8::from(removal.key.is_some()));
    if let Some(key) = &removal.key {
        put_bytes(out, key);
    }
    out.extend_from_slice(&removal.from.to_le_bytes());
    out.extend_from_slice(&removal.to.to_le_bytes());
}

fn put_entries(out: &mut Vec<u8>, pool: &mut Pool) {
    let entries = pool.take_unlogged();
    out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    entries.for_each(|entry| put_bytes(out, entry));
}

/// Decodes one section from the front of `bytes` and advances `bytes`. Fields marked as differences
/// in [`NewEntries`] are not yet restored.
///
/// # Errors
/// The bytes are not a section. (Their checksum matched, so this is damage or a bug.)
pub(crate) fn decode(bytes: &mut &[u8]) -> Result<Entry> {
    let table = TableId(take_u32(bytes)?);
    let rows = take_u32(bytes)?;
    if rows == DELETES {
        let key = match take::<1>(bytes)?[0] {
            0 => None,
            _ => Some(take_bytes(bytes)?.to_vec()),
        };
        let (from, to) = (take_u64(bytes)? as i64, take_u64(bytes)? as i64);
        return Ok(Entry::Delete(Removal { table, key, from, to }));
    }
    let rows = rows as usize;
    if rows > MAX_BATCH_ROWS {
        return Err(Error::damaged(format!("a section has an invalid number of rows: {rows}")));
    }
    let mut new_entries = NewEntries { keys: take_entries(bytes)?, ..NewEntries::default() };
    let (containers, _) = codec::decode(bytes, rows)?.into_plain();
    let times = match take::<1>(bytes)?[0] {
        0 => Vec::new(),
        _ => codec::decode(bytes, rows)?.into_plain().0,
    };
    let mut fields = Vec::new();
    for _ in 0..take_u32(bytes)? {
        let column = ColumnId(take_u32(bytes)?);
        new_entries.entries.push(take_entries(bytes)?);
        new_entries.differences.push(take::<1>(bytes)?[0] == 1);
        let lane: Lane = codec::decode(bytes, rows)?;
        let (values, nulls) = lane.into_plain();
        fields.push(SectionField { column, values: Cow::Owned(values), nulls: Cow::Owned(nulls) });
    }
    Ok(Entry::Rows(new_entries, Section { table, rows, containers, times: Cow::Owned(times), fields }))
}

fn take_entries(bytes: &mut &[u8]) -> Result<Vec<Vec<u8>>> {
    let count = take_u32(bytes)?;
    (0..count).map(|_| Ok(take_bytes(bytes)?.to_vec())).collect()
}
