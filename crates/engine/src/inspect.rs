//! Inspection of a database directory: whether it is intact, and what it contains.
//!
//! Reads only and takes no lock: for a database that no process has open. Verifies every checksum,
//! decodes every page and index block, and compares every order and count with the manifest and the
//! footers.

use crate::compaction::plan;
use crate::error::{Error, Result};
use crate::ids::{Generation, Sequence, TableId};
use crate::io::{Io, ReadFile};
use crate::manifest;
use crate::schema::TableSchema;
use crate::segment::cache::Cache;
use crate::segment::file_name;
use crate::segment::reader::{Segment, read_footer};
use crate::wal::frame;
use crate::wal::record::{self, Entry};
use std::sync::Arc;

pub use crate::manifest::{Delete, Edit, LogMark, ReplayFrom, SegmentEntry, Slice, State};
pub use crate::segment::{Facts, StoredColumn};

/// What a check read, and what it found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Tables in the manifest.
    pub tables: usize,
    /// Segments read.
    pub segments: usize,
    /// Rows in those segments.
    pub rows: u64,
    /// Pages decoded.
    pub pages: u64,
    /// WAL batches read.
    pub wal_batches: u64,
    /// Bytes after the last good frame of the last WAL file, as a crash leaves them.
    pub torn_bytes: u64,
    /// The problems found, one entry each.
    pub problems: Vec<String>,
}

/// A WAL frame as `inspect` shows it.
#[derive(Clone, Debug)]
pub struct WalFrame {
    /// The file name.
    pub file: String,
    /// Byte offset of the frame in the file.
    pub offset: usize,
    /// The batch's sequence.
    pub sequence: u64,
    /// The last batch known to be durable when the frame was written.
    pub durable: u64,
    /// Payload length.
    pub bytes: usize,
    /// For each section, the table id and the number of rows; 0 for a section that deletes.
    pub sections: Vec<(u32, usize)>,
}

/// The manifest: the edits since its last fold, and the resulting state.
///
/// # Errors
/// There is no database, or its manifest is damaged.
pub fn read_manifest(io: &Io) -> Result<(Vec<Edit>, State)> {
    match manifest::file::read(io.storage.as_ref())? {
        Some((_, contents)) => Ok((contents.edits, contents.state)),
        None => Err(Error::invalid(format!("{} is not a FleetDB database", io.storage.describe()))),
    }
}

/// The name of a generation's WAL file, relative to the database directory.
pub fn wal_file(generation: Generation) -> String {
    frame::file_name(generation)
}

/// The state of a database, and where its manifest file ends: its number and its length. `None` if there is
/// no database.
///
/// # Errors
/// Its manifest is damaged or cannot be read.
pub fn find_manifest(io: &Io) -> Result<Option<(State, (u64, u64))>> {
    let found = manifest::file::read(io.storage.as_ref())?;
    Ok(found.map(|(number, contents)| (contents.state, (number, contents.good_bytes as u64))))
}

/// Reads a segment's footer. `name` is relative to the database directory, as in the manifest.
///
/// # Errors
/// The file is not a segment.
pub fn read_segment_facts(io: &Io, name: &str) -> Result<Facts> {
    let file = io.storage.read(name)?;
    Ok(read_footer(file.as_ref(), name)?.1)
}

/// The columns of a segment, with the names that they had when it was written. `name` is for messages.
///
/// # Errors
/// The file is not a segment.
pub fn stored_columns(file: &dyn ReadFile, name: &str) -> Result<Vec<(String, StoredColumn)>> {
    let (metadata, facts) = read_footer(file, name)?;
    let fields = metadata.file_metadata().schema_descr().root_schema().get_fields();
    Ok(fields.iter().map(|field| field.name().to_owned()).zip(facts.columns).collect())
}

/// Segments of a table that together have each row at most once: the oldest run of each time partition.
/// They lack what was written later and is not merged yet, and have what was deleted or has expired until
/// compaction removes it.
pub fn oldest_runs(state: &State, table: TableId) -> Vec<&SegmentEntry> {
    plan::oldest_runs(&state.segments_of(table).collect::<Vec<_>>())
}

/// The file name of a segment, relative to the database directory.
pub fn segment_file(entry: &SegmentEntry) -> String {
    file_name(entry.table, entry.id)
}

/// The file name of the manifest with this number, relative to the database directory.
pub fn manifest_file(number: u64) -> String {
    manifest::file::file_name(number)
}

/// All frames of the WAL files that are not in segments.
///
/// # Errors
/// A file is damaged.
pub fn read_wal(io: &Io) -> Result<Vec<WalFrame>> {
    let (_, state) = read_manifest(io)?;
    let mut frames = Vec::new();
    each_frame(io, &state, &mut |frame| {
        frames.push(frame);
    })?;
    Ok(frames)
}

/// Visits the frames of all WAL files that are not in segments. Returns the number of torn bytes.
fn each_frame(io: &Io, state: &State, each: &mut dyn FnMut(WalFrame)) -> Result<u64> {
    let mut generations = frame::generations(io.storage.as_ref())?;
    generations.retain(|generation| *generation > state.flushed);
    let (mut torn, mut before) = (0, state.flushed_sequence);
    for (place, &generation) in generations.iter().enumerate() {
        let last = place + 1 == generations.len();
        torn += read_wal_file(io, generation, &mut before, last, each)?;
    }
    Ok(torn)
}

fn read_wal_file(
    io: &Io,
    generation: Generation,
    before: &mut Sequence,
    last: bool,
    each: &mut dyn FnMut(WalFrame),
) -> Result<u64> {
    let name = frame::file_name(generation);
    let bytes = io.storage.read(&name)?.read_all()?;
    let contents = frame::read_file(&name, &bytes, generation, *before, last)?;
    *before = contents.frames.last().map_or(*before, |frame| frame.sequence);
    for found in &contents.frames {
        let mut payload = found.payload;
        let mut sections = Vec::new();
        while !payload.is_empty() {
            let entry = record::decode(&mut payload)
                .map_err(|e| e.context(format_args!("{name}, frame at byte {}", found.offset)))?;
            sections.push(match entry {
                Entry::Rows(_, section) => (section.table.0, section.rows),
                Entry::Delete(removal) => (removal.table.0, 0),
            });
        }
        each(WalFrame {
            file: name.clone(),
            offset: found.offset,
            sequence: found.sequence.0,
            durable: found.durable.0,
            bytes: found.payload.len(),
            sections,
        });
    }
    // Trailing zeros were reserved for later batches.
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    Ok(end.saturating_sub(contents.good_bytes) as u64)
}

/// Checks a whole database directory. `progress` is called with the bytes done and the total bytes.
///
/// # Errors
/// There is no database, or its manifest is damaged. All other problems are in the report.
pub fn check(io: &Io, mut progress: impl FnMut(u64, u64)) -> Result<CheckReport> {
    let (_, state) = read_manifest(io)?;
    let mut report = CheckReport { tables: state.tables.len(), ..CheckReport::default() };
    let all_bytes: u64 = state.segments.values().map(|entry| entry.bytes).sum();
    let mut done_bytes = 0;
    for entry in state.segments.values() {
        // Invariant S6: the table exists.
        if let Err(error) = check_segment(io, entry, &state.tables[&entry.table], &mut report) {
            report.problems.push(error.to_string());
        }
        report.segments += 1;
        done_bytes += entry.bytes;
        progress(done_bytes, all_bytes);
    }
    let generations = frame::generations(io.storage.as_ref())?;
    let unflushed = generations.into_iter().filter(|generation| *generation > state.flushed);
    for (expected, generation) in (state.flushed.0 + 1..).zip(unflushed) {
        if generation.0 != expected {
            let missing = frame::file_name(Generation(expected));
            report.problems.push(format!("{missing} is missing: the batches of generation {expected} are lost"));
            break;
        }
    }
    let mut last = state.flushed_sequence.0;
    let mut gaps = Vec::new();
    let wal = each_frame(io, &state, &mut |found| {
        if last + 1 != found.sequence {
            gaps.push(format!("{}: batch {} does not follow the previous batch", found.file, found.sequence));
        }
        last = found.sequence;
        report.wal_batches += 1;
    });
    match wal {
        Ok(torn) => report.torn_bytes = torn,
        Err(error) => report.problems.push(error.to_string()),
    }
    report.problems.extend(gaps);
    if report.problems.is_empty()
        && let Err(error) = crate::recovery::check_log(io, &state, Sequence(last))
    {
        report.problems.push(error.to_string());
    }
    Ok(report)
}

fn check_segment(io: &Io, entry: &SegmentEntry, schema: &TableSchema, report: &mut CheckReport) -> Result<()> {
    let cache = Arc::new(Cache::new(1 << 20));
    let listed = crate::segment::Listed::open(io, entry, &cache)?;
    let segment = listed.segment.as_ref();
    let wrong = |what: String| Error::damaged(format!("segment {}: {what}", segment.name));
    if segment.len_bytes() != entry.bytes {
        return Err(wrong(format!(
            "the file has {} bytes, but the manifest lists {}",
            segment.len_bytes(),
            entry.bytes
        )));
    }
    if file_crc(io, &segment.name)? != entry.crc {
        return Err(wrong(
            "the file's checksum differs from the one in the manifest; restore it from a backup".to_owned(),
        ));
    }
    if segment.facts.times != entry.times {
        return Err(wrong("its time range differs from the one in the manifest".to_owned()));
    }
    for column in segment.column_ids() {
        for number in 0..segment.pages_of(column) {
            segment.page(column, number, false)?;
            report.pages += 1;
        }
    }
    check_index(segment, schema, &wrong)?;
    report.rows += segment.facts.rows;
    Ok(())
}

/// The CRC32C of a whole file.
fn file_crc(io: &Io, name: &str) -> Result<u32> {
    const PIECE_BYTES: u64 = 1 << 20;
    let file = io.storage.read(name)?;
    let (mut crc, mut at) = (0, 0);
    while at < file.len_bytes() {
        let len = PIECE_BYTES.min(file.len_bytes() - at);
        crc = crc32c::crc32c_append(crc, &file.read_at(at, len as usize)?);
        at += len;
    }
    Ok(crc)
}

/// Checks that keys ascend and that each container's rows ascend in time, from its minimum to its
/// maximum.
fn check_index(segment: &Segment, schema: &TableSchema, wrong: &dyn Fn(String) -> Error) -> Result<()> {
    let time = schema.time.map(|time| schema.columns[time].id);
    let mut before: Option<Vec<u8>> = None;
    let (mut rows, mut containers) = (0u64, 0u64);
    let mut times = Times { segment, time, page: None };
    for number in 0..segment.blocks().len() {
        let block = segment.block(number)?;
        for (place, key) in block.keys.iter().enumerate() {
            if before.as_ref().is_some_and(|before| before.as_slice() >= key) {
                return Err(wrong(format!("container {containers} is out of key order")));
            }
            before = Some(key.to_vec());
            containers += 1;
            let (start, end) = (block.starts[place], block.starts[place + 1]);
            if start != rows || end <= start || end > segment.facts.rows {
                return Err(wrong(format!("the rows of container {containers} do not match the index")));
            }
            rows = end;
            let mut last = None;
            for row in start..end {
                let now = times.at(row)?;
                if last.is_some_and(|last| last >= now) {
                    return Err(wrong(format!("row {row} is out of time order")));
                }
                if (row == start && now != block.times[place].0) || (row + 1 == end && now != block.times[place].1) {
                    return Err(wrong(format!("the times of container {containers} do not match the index")));
                }
                last = Some(now);
            }
        }
    }
    if rows != segment.facts.rows || containers != segment.facts.containers {
        return Err(wrong("the container index does not cover all rows".to_owned()));
    }
    Ok(())
}

struct Times<'a> {
    segment: &'a Segment,
    time: Option<crate::ids::ColumnId>,
    page: Option<(usize, Vec<u64>)>,
}

impl Times<'_> {
    fn at(&mut self, row: u64) -> Result<i64> {
        let Some(time) = self.time else { return Ok(0) };
        let place = self.segment.place(time, row as usize);
        if self.page.as_ref().is_none_or(|(loaded, _)| *loaded != place.page) {
            let mut out = crate::column::ColumnBuilder::new(crate::column_type::ColumnType::Int64);
            if let Some(page) = self.segment.page(time, place.page, false)? {
                page.copy(0, place.at + place.rows, &mut out);
            }
            let crate::column::ColumnBuilder::Raw(lane) = out else { return Ok(0) };
            self.page = Some((place.page, lane.into_plain().0));
        }
        let value = self.page.as_ref().and_then(|(_, values)| values.get(place.at));
        Ok(value.copied().unwrap_or(0) as i64)
    }
}
