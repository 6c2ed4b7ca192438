//! Compaction: merges the segments of a time partition into fewer, without deleted and expired
//! rows.
//!
//! 1. [`plan`] chooses which segments to merge or to drop. [`joined`] finds those whose merge would not
//!    make reads faster.
//! 2. [`merge`] streams them through the scan's merge, one row group at a time, into new files
//!    under temporary names, which are synced and renamed. Then the directory is synced.
//! 3. The caller makes one manifest edit that replaces the segments. Only then does it remove the
//!    old files.
//!
//! A DELETE of many rows rewrites segments the same way, each by itself, without the deleted rows
//! ([`deleted_keys`]).
//!
//! A crash before the edit leaves new files, a crash after it old files; the next open removes
//! them. A merge never includes rows of another partition, and never applies deletes that are not
//! in the manifest yet (a crash could undo them).

pub(crate) mod deleted_keys;
pub(crate) mod joined;
pub(crate) mod plan;

use self::deleted_keys::SegmentDeletes;
use crate::column::ColumnBuilder;
use crate::deletes::DeleteSet;
use crate::error::Result;
use crate::ids::{Generation, SegmentId};
use crate::io::Storage;
use crate::key::{self, KeyValue};
use crate::lane::{Lane, NullMask};
use crate::manifest::SegmentEntry;
use crate::pool::Pool;
use crate::scan::bounds::ScanBounds;
use crate::scan::merge::{Merge, RowSpan, pick, picks_with};
use crate::scan::picker::take_picks;
use crate::scan::source::{Codes, PageMemo, Source};
use crate::scan::{INDEX_BLOCK_BYTES, PAGE_BYTES};
use crate::schema::{Role, TableSchema};
use crate::segment::index::Entry;
use crate::segment::pages::{ColumnValues, Texts};
use crate::segment::writer::{SegmentWriter, SortedRows};
use crate::segment::{Listed, PAGE_ROWS, ROW_GROUP_ROWS, directory, file_name};
use std::sync::Arc;

/// A file larger than this is finished, and a new one is begun.
const MAX_FILE_BYTES: u64 = 512 << 20;

/// Memory of a column of a row group. Each row takes its value, its code and its space in a page.
/// Texts without a dictionary also take their bytes, in the pool and in pages.
const GROUP_BYTES: usize = ROW_GROUP_ROWS * FIXED_BYTES;
const FIXED_BYTES: usize = 3 * 8;
/// Texts with at most this many bytes per row are in a dictionary, or as short as its codes.
const SHORT_TEXT_BYTES: usize = 4;

/// Memory that a merge of `inputs` segments takes: a column of a row group, and for each segment an
/// index block and a page.
pub(crate) fn work_bytes(inputs: usize) -> usize {
    GROUP_BYTES + inputs * (INDEX_BLOCK_BYTES + 2 * PAGE_BYTES)
}

/// Memory of the picks of a row group in which every other row is left out.
pub(crate) const PICKED_BYTES: usize = ROW_GROUP_ROWS / 2 * size_of::<RowSpan>();

/// Rows per row group, such that a column of the longest texts (averaged over each input) takes at
/// most [`GROUP_BYTES`] of memory.
fn group_rows(inputs: &[Arc<Listed>]) -> usize {
    let segments = inputs.iter().map(|listed| &listed.segment);
    let text_bytes = segments.flat_map(|segment| segment.column_ids().map(|column| segment.text_bytes(column)));
    let text_bytes = text_bytes.max().unwrap_or(0);
    if text_bytes <= SHORT_TEXT_BYTES {
        return ROW_GROUP_ROWS;
    }
    let rows = (GROUP_BYTES / (FIXED_BYTES + 2 * text_bytes)).max(1);
    // Whole pages, if there are that many rows.
    if rows < PAGE_ROWS { rows } else { rows - rows % PAGE_ROWS }
}

/// The input of a merge.
pub(crate) struct Job<'a> {
    pub(crate) schema: &'a Arc<TableSchema>,
    /// Oldest first.
    pub(crate) inputs: &'a [Arc<Listed>],
    /// The partition. Rows outside it stay where they are.
    pub(crate) span: (i64, i64),
    /// The deletes that the manifest lists, and the last batch they include.
    pub(crate) deletes: &'a DeleteSet,
    pub(crate) purged: u64,
    /// The latest time that retention drops.
    pub(crate) expired: Option<i64>,
}

/// Writes the merged segments, without the rows of `deleted`, which requires a single input.
/// `next_id` supplies their ids. `pause` is called after each row group with the bytes written
/// since the last call, and stops the merge by returning an error. After an error no file is left.
pub(crate) fn merge(
    storage: &dyn Storage,
    job: &Job<'_>,
    deleted: Option<&mut SegmentDeletes>,
    mut next_id: impl FnMut() -> SegmentId,
    mut pause: impl FnMut(u64) -> Result<()>,
) -> Result<Vec<SegmentEntry>> {
    let mut written = Vec::new();
    let outcome = merge_into(storage, job, deleted, &mut written, &mut next_id, &mut pause);
    if let Err(error) = outcome {
        for entry in &written {
            // Either name may exist. The first error is the one to report.
            let name = file_name(entry.table, entry.id);
            storage.remove(&format!("{name}.tmp")).ok();
            storage.remove(&name).ok();
        }
        return Err(error);
    }
    Ok(written)
}

fn merge_into(
    storage: &dyn Storage,
    job: &Job<'_>,
    deleted: Option<&mut SegmentDeletes>,
    written: &mut Vec<SegmentEntry>,
    next_id: &mut dyn FnMut() -> SegmentId,
    pause: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let sources = job.inputs.iter().map(|listed| Source::segment(listed, job.schema, job.deletes, false));
    // All slices must be in one file.
    let most_bytes =
        if deleted.as_ref().is_some_and(|deleted| deleted.has_slices()) { u64::MAX } else { MAX_FILE_BYTES };
    let mut rows = MergedRows::new(job, Arc::new(sources.collect()), deleted);
    let generation = job.inputs.iter().map(|listed| listed.entry.generation).max().unwrap_or_default();
    let width = job.inputs.iter().map(|listed| listed.entry.width).max().unwrap_or(0);
    let mut open: Option<SegmentWriter> = None;
    let mut paid = 0;
    while rows.next_group()? {
        let writer = match &mut open {
            Some(writer) => writer,
            None => {
                let id = next_id();
                written.push(unwritten(job.schema, id, generation, width, job.purged));
                let name = format!("{}.tmp", file_name(job.schema.id, id));
                paid = 0;
                open.insert(SegmentWriter::create(storage, &name, job.schema, generation)?)
            }
        };
        writer.group(&rows.entries, &rows, 0, rows.rows)?;
        let bytes = writer.bytes();
        pause(bytes - std::mem::replace(&mut paid, bytes))?;
        if bytes >= most_bytes
            && let (Some(writer), Some(entry)) = (open.take(), written.last_mut())
        {
            finish(storage, writer, entry)?;
        }
    }
    if let (Some(writer), Some(entry)) = (open, written.last_mut()) {
        finish(storage, writer, entry)?;
    }
    storage.sync_directory(&directory(job.schema.id))
}

fn unwritten(schema: &TableSchema, id: SegmentId, generation: Generation, width: i64, purged: u64) -> SegmentEntry {
    let (table, slices) = (schema.id, Vec::new());
    SegmentEntry { id, table, generation, rows: 0, bytes: 0, crc: 0, times: (0, 0), width, purged, slices }
}

fn finish(storage: &dyn Storage, writer: SegmentWriter, entry: &mut SegmentEntry) -> Result<()> {
    let (facts, crc, bytes) = writer.finish()?;
    (entry.rows, entry.times, entry.crc, entry.bytes) = (facts.rows, facts.times, crc, bytes);
    let name = file_name(entry.table, entry.id);
    storage.rename(&format!("{name}.tmp"), &name)
}

/// The merged rows, one row group at a time.
struct MergedRows<'a> {
    job: &'a Job<'a>,
    sources: Arc<Vec<Source>>,
    deleted: Option<&'a mut SegmentDeletes>,
    merge: Merge,
    memos: Vec<PageMemo>,
    /// The container in whose middle the previous group ended.
    rest: Option<(Vec<u8>, Vec<RowSpan>)>,
    /// The current group: its containers, their key values, and the locations of their rows.
    entries: Vec<Entry>,
    keys: Vec<Vec<KeyValue>>,
    picks: Vec<RowSpan>,
    rows: usize,
    /// Rows of each group except the last.
    most_rows: usize,
}

impl<'a> MergedRows<'a> {
    fn new(job: &'a Job<'a>, sources: Arc<Vec<Source>>, deleted: Option<&'a mut SegmentDeletes>) -> Self {
        let kept = job.expired.map_or(i64::MIN, |expired| expired.saturating_add(1));
        let (from, to) = (Some(job.span.0.max(kept)), Some(job.span.1));
        let bounds = ScanBounds { from, to, merges_fields: job.schema.merges_fields(), ..ScanBounds::default() };
        Self {
            job,
            merge: Merge::new(&sources, bounds),
            memos: PageMemo::of_each(&sources),
            sources,
            deleted,
            rest: None,
            entries: Vec::new(),
            keys: Vec::new(),
            picks: Vec::new(),
            rows: 0,
            most_rows: group_rows(job.inputs),
        }
    }

    /// Gathers the next group; `false` if there is none.
    fn next_group(&mut self) -> Result<bool> {
        (self.rows, self.entries, self.keys, self.picks) = (0, Vec::new(), Vec::new(), Vec::new());
        let types = self.job.schema.key_types();
        while self.rows < self.most_rows {
            let (key, mut picks) = match self.rest.take() {
                Some(rest) => rest,
                None => {
                    let Some(runs) = self.merge.next()? else { break };
                    let picks = pick(&self.sources, &runs, &self.merge.bounds, &mut self.memos)?;
                    match runs.into_iter().next() {
                        Some((_, run)) if !picks.is_empty() => (run.key, picks),
                        _ => continue,
                    }
                }
            };
            let mut taken = take_picks(&mut picks, self.most_rows - self.rows);
            if let Some(deleted) = &mut self.deleted {
                taken = deleted.left(&key, taken, &self.sources, &mut self.memos)?;
            }
            let rows: usize = taken.iter().map(|pick| pick.rows).sum();
            let last = taken.iter().rfind(|pick| pick.rows > 0);
            if let (Some(first), Some(last)) = (taken.first(), last) {
                let times = (self.time(first, 0)?, self.time(last, last.rows as u64 - 1)?);
                match self.entries.last_mut() {
                    // Rows in between were left out.
                    Some(entry) if entry.key == key => {
                        entry.rows += rows;
                        entry.times.1 = times.1;
                    }
                    _ => {
                        self.keys.push(key::decode(&key, &types)?);
                        self.entries.push(Entry { key: key.clone(), rows, times });
                    }
                }
            }
            self.rows += rows;
            self.picks.extend(taken);
            if !picks.is_empty() {
                self.rest = Some((key, picks));
            }
        }
        Ok(self.rows > 0)
    }

    fn time(&mut self, pick: &RowSpan, row: u64) -> Result<i64> {
        let times = self.sources[pick.source].times(pick.start + row, 1, &mut self.memos[pick.source])?;
        Ok(times.first().copied().unwrap_or(0))
    }

    /// A key column: each container's value, repeated for each of its rows.
    fn key_column(&self, number: usize, is_bytes: bool) -> ColumnValues<'_> {
        let mut lane = Lane::with_capacity(self.rows);
        let mut pool = Pool::default();
        for (entry, values) in self.entries.iter().zip(&self.keys) {
            let value = match &values[number] {
                KeyValue::Null => None,
                KeyValue::Raw(raw) => Some(*raw),
                KeyValue::Bytes(bytes) => Some(u64::from(pool.intern(bytes))),
            };
            lane.extend(&Lane::constant(value, entry.rows), 0, entry.rows);
        }
        if is_bytes { ColumnValues::Text(lane, Texts::Owned(pool)) } else { ColumnValues::Raw(lane) }
    }
}

impl SortedRows for MergedRows<'_> {
    fn values(&self, place: usize, _start: usize, _len: usize) -> Result<ColumnValues<'_>> {
        let column = &self.job.schema.columns[place];
        if column.role == Role::Key {
            return Ok(self.key_column(self.job.schema.key_place(place), column.column_type.is_bytes()));
        }
        let mut memos = PageMemo::of_each(&self.sources);
        let picks = picks_with(&self.sources, &self.picks, column.id, &mut memos)?;
        if column.column_type.is_bytes() {
            let mut codes = Codes::new(self.sources.len());
            for pick in picks.iter() {
                let source = &self.sources[pick.source];
                source.read_codes(
                    column.id,
                    pick.source,
                    (pick.start, pick.rows),
                    &mut memos[pick.source],
                    &mut codes,
                )?;
            }
            return Ok(ColumnValues::Text(Lane::plain(codes.values, codes.nulls), Texts::Owned(codes.pool)));
        }
        let mut out = ColumnBuilder::Raw(Lane::with_capacity(self.rows));
        for pick in picks.iter() {
            let source = &self.sources[pick.source];
            source.read((column.id, column.column_type), pick.start, pick.rows, &mut memos[pick.source], &mut out)?;
        }
        Ok(ColumnValues::Raw(match out {
            ColumnBuilder::Raw(lane) => lane,
            ColumnBuilder::Bytes(_) => Lane::plain(Vec::new(), NullMask::default()),
        }))
    }
}
