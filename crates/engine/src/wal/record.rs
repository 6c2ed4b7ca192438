//! What a WAL frame says: one atomic batch, a section a table.
//!
//! A section that deletes is: table id (4 bytes), `0xffff_ffff` (4), a flag byte (1: a container's key with its length
//! (4) follows, 0: all containers), least and largest time (8 each), both included. It stands before the same
//! batch's rows of the table, which it does not concern.
//!
//! A section of rows is: table id (4 bytes), rows (4), then
//! - new containers: count (4), each key with its length (4) in front;
//! - the rows' container numbers, as a lane;
//! - a flag byte: 1 if the rows have times; then the times, as a lane;
//! - field columns: count (4), each: column id (4), count of new dictionary entries (4), the
//!   entries with their lengths (4) in front, a flag byte (1: what follows are differences), the
//!   values (codes for text) as a lane.
//!
//! A difference is to the value of the container's row before: the row in front of it in the section, if that
//! is of the same container, else the newest row that earlier frames of the file gave the container, else 0. NULL
//! counts as 0. Whichever takes fewer bits is written.
//!
//! Container numbers and codes count from 0 in each WAL file, in order of appearance, so that a
//! file is read without any other. Lanes are as in [`crate::lane::codec`].

use crate::error::{Error, Result};
use crate::ids::{ColumnId, TableId};
use crate::lane::codec::{self, Frame, put_bytes, take, take_bytes, take_u32, take_u64};
use crate::lane::{Lane, NullMask};
use crate::pool::Pool;
use crate::write::batch::MAX_BATCH_ROWS;
use std::borrow::Cow;

/// A section as it is read.
pub(crate) enum Entry {
    Rows(News, Section<'static>),
    Delete(Removal),
}

/// Which rows of a table a batch deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) table: TableId,
    /// The container's encoded key; `None` for all containers.
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// In the place of the rows of a section: it deletes.
const DELETES: u32 = u32::MAX;

/// One table's rows in a batch, in the numbers of its generation.
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

/// What a section adds to its file's numbers.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) keys: Vec<Vec<u8>>,
    /// For each field of the section, the new entries of its dictionary.
    pub(crate) entries: Vec<Vec<Vec<u8>>>,
    /// For each field of the section, whether its values are differences.
    pub(crate) differences: Vec<bool>,
}

/// Writes one section. `keys` and the pool that `texts` gives for a text column tell what the file
/// does not know yet; `before` appends a field's values of the rows before.
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

/// Writes a section that deletes.
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

/// Reads one section from the front of `bytes` and moves `bytes` behind it. Where the news say so, its values
/// still are differences.
///
/// # Errors
/// The bytes are not a section. (Their checksum was right, so this is damage or a bug.)
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
        return Err(Error::damaged(format!("a section of {rows} rows")));
    }
    let mut news = News { keys: take_entries(bytes)?, ..News::default() };
    let (containers, _) = codec::decode(bytes, rows)?.into_plain();
    let times = match take::<1>(bytes)?[0] {
        0 => Vec::new(),
        _ => codec::decode(bytes, rows)?.into_plain().0,
    };
    let mut fields = Vec::new();
    for _ in 0..take_u32(bytes)? {
        let column = ColumnId(take_u32(bytes)?);
        news.entries.push(take_entries(bytes)?);
        news.differences.push(take::<1>(bytes)?[0] == 1);
        let lane: Lane = codec::decode(bytes, rows)?;
        let (values, nulls) = lane.into_plain();
        fields.push(SectionField { column, values: Cow::Owned(values), nulls: Cow::Owned(nulls) });
    }
    Ok(Entry::Rows(news, Section { table, rows, containers, times: Cow::Owned(times), fields }))
}

fn take_entries(bytes: &mut &[u8]) -> Result<Vec<Vec<u8>>> {
    let count = take_u32(bytes)?;
    (0..count).map(|_| Ok(take_bytes(bytes)?.to_vec())).collect()
}
