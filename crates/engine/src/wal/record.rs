//! What a WAL frame says: one atomic batch, a section a table.
//!
//! A section is: table id (4 bytes), rows (4), then
//! - new containers: count (4), each key with its length (4) in front;
//! - the rows' container numbers, as a lane;
//! - a flag byte: 1 if the rows have times; then the times, as a lane;
//! - field columns: count (4), each: column id (4), count of new dictionary entries (4), the
//!   entries with their lengths (4) in front, the values (codes for text) as a lane.
//!
//! Container numbers and codes count from 0 in each WAL file, in order of appearance, so that a
//! file is read without any other. Lanes are as in [`crate::lane::codec`].

use crate::error::{Error, Result};
use crate::ids::{ColumnId, TableId};
use crate::lane::codec::{self, put_bytes, take, take_bytes, take_u32};
use crate::lane::{Lane, NullMask};
use crate::pool::Pool;
use crate::write::admit::MAX_BATCH_ROWS;

/// One table's rows in a batch, in the numbers of its generation.
pub(crate) struct Section {
    pub(crate) table: TableId,
    pub(crate) rows: usize,
    /// The container number of each row.
    pub(crate) containers: Vec<u64>,
    /// Empty for a collection.
    pub(crate) times: Vec<u64>,
    pub(crate) fields: Vec<SectionField>,
}

/// One field column of a section: raw values, or codes for text.
pub(crate) struct SectionField {
    pub(crate) column: ColumnId,
    pub(crate) values: Vec<u64>,
    pub(crate) nulls: NullMask,
}

/// What a section adds to its file's numbers.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) keys: Vec<Vec<u8>>,
    /// For each field of the section, the new entries of its dictionary.
    pub(crate) entries: Vec<Vec<Vec<u8>>>,
}

/// Writes one section. `keys` and the pool that `texts` gives for a text column tell what the file
/// does not know yet.
pub(crate) fn encode(section: &Section, keys: &mut Pool, texts: &mut [Option<Pool>], out: &mut Vec<u8>) {
    out.extend_from_slice(&section.table.0.to_le_bytes());
    out.extend_from_slice(&(section.rows as u32).to_le_bytes());
    put_entries(out, keys);
    codec::encode(&section.containers, &NullMask::default(), out);
    out.push(u8::from(!section.times.is_empty()));
    if !section.times.is_empty() {
        codec::encode(&section.times, &NullMask::default(), out);
    }
    out.extend_from_slice(&(section.fields.len() as u32).to_le_bytes());
    for field in &section.fields {
        out.extend_from_slice(&field.column.0.to_le_bytes());
        match texts.get_mut(field.column.0 as usize) {
            Some(Some(pool)) => put_entries(out, pool),
            _ => out.extend_from_slice(&0u32.to_le_bytes()),
        }
        codec::encode(&field.values, &field.nulls, out);
    }
}

fn put_entries(out: &mut Vec<u8>, pool: &mut Pool) {
    let entries = pool.take_unlogged();
    out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    entries.for_each(|entry| put_bytes(out, entry));
}

/// Reads one section from the front of `bytes` and moves `bytes` behind it.
///
/// # Errors
/// The bytes are not a section. (Their checksum was right, so this is damage or a bug.)
pub(crate) fn decode(bytes: &mut &[u8]) -> Result<(News, Section)> {
    let table = TableId(take_u32(bytes)?);
    let rows = take_u32(bytes)? as usize;
    if rows > MAX_BATCH_ROWS {
        return Err(Error::damaged(format!("a section of {rows} rows")));
    }
    let mut news = News { keys: take_entries(bytes)?, entries: Vec::new() };
    let (containers, _) = codec::decode(bytes, rows)?.into_plain();
    let times = match take::<1>(bytes)?[0] {
        0 => Vec::new(),
        _ => codec::decode(bytes, rows)?.into_plain().0,
    };
    let mut fields = Vec::new();
    for _ in 0..take_u32(bytes)? {
        let column = ColumnId(take_u32(bytes)?);
        news.entries.push(take_entries(bytes)?);
        let lane: Lane = codec::decode(bytes, rows)?;
        let (values, nulls) = lane.into_plain();
        fields.push(SectionField { column, values, nulls });
    }
    Ok((news, Section { table, rows, containers, times, fields }))
}

fn take_entries(bytes: &mut &[u8]) -> Result<Vec<Vec<u8>>> {
    let count = take_u32(bytes)?;
    (0..count).map(|_| Ok(take_bytes(bytes)?.to_vec())).collect()
}
