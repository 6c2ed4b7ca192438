//! The flush: turns the frozen memtables of one generation into segments.
//!
//! 1. A memtable's view is sorted ([`Sorted`]) and cut at the table's time partitions. Unless it is
//!    set, their width depends on the data rate. Partitions with few rows share a file.
//! 2. Each piece becomes a segment: written under a temporary name, synced, renamed. Then the
//!    directory is synced.
//! 3. The caller makes one manifest edit for the whole generation. Only then does it remove the WAL
//!    file.
//!
//! A crash before the edit leaves files that the next open removes, and a WAL that it replays.

use crate::column_type::ColumnType;
use crate::deletes::DeleteSet;
use crate::error::Result;
use crate::ids::{Generation, SegmentId};
use crate::io::Storage;
use crate::key::{self, KeyValue};
use crate::lane::{Lane, NullMask};
use crate::manifest::{SegmentEntry, Slice};
use crate::memtable::MemtableView;
use crate::memtable::selection::Selection;
use crate::memtable::sorted::Sorted;
use crate::pool::Pool;
use crate::schema::{Role, TableSchema};
use crate::segment::index::Entry;
use crate::segment::lists::array_bytes;
use crate::segment::pages::{ColumnValues, Texts};
use crate::segment::writer::{SegmentWriter, SortedRows};
use crate::segment::{Facts, ROW_GROUP_ROWS, directory, file_name};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// This many partitions get their own segments, whatever their size.
const OWN_SEGMENTS: usize = 8;
/// A partition with at least this many rows gets its own segment. The others share one file, so
/// that late rows and wrong clocks do not create a file for each partition they touch.
const OWN_SEGMENT_ROWS: usize = 1 << 16;
/// Candidate widths of a time partition, in seconds. Each divides the next, so that partitions
/// nest.
const WIDTHS_S: [i64; 4] = [3_600, 86_400, 8 * 86_400, 64 * 86_400];
/// Memory of a column's arrays in a row group while it is written.
const GROUP_ARRAY_BYTES: usize = 64 << 20;
/// Minimum rows that a partition should have: compaction and retention work on whole partitions.
const PARTITION_ROWS: i128 = 8 << 20;
/// Minimum number of partitions that a retention should span.
const RETENTION_PARTITIONS: i64 = 8;

/// Part of a container's rows: the container, its first row in the order, and the number of rows.
type Piece = (usize, usize, usize);

/// A segment to be written: its rows, and its partitions if there is more than one.
struct Planned {
    pieces: Vec<Piece>,
    slices: Vec<Slice>,
}

/// Writes the segments of one memtable. `next_id` supplies their ids. After an error no file is
/// left.
pub(crate) fn flush_table(
    storage: &dyn Storage,
    schema: &Arc<TableSchema>,
    generation: Generation,
    view: MemtableView,
    deletes: &DeleteSet,
    mut next_id: impl FnMut() -> SegmentId,
) -> Result<Vec<SegmentEntry>> {
    if view.rows() == 0 {
        return Ok(Vec::new());
    }
    storage.create_directory(&directory(schema.id))?;
    let all = Selection::all(&view);
    let sorted = Sorted::of(view, &all, deletes, &());
    let width = width(schema, sorted.times());
    let mut segments = Vec::new();
    for Planned { pieces, slices } in partitions(width, &sorted) {
        let id = next_id();
        let name = file_name(schema.id, id);
        let temporary = format!("{name}.tmp");
        let rows = PartitionRows::new(schema, &sorted, &pieces)?;
        let written = rows.write(storage, &temporary, generation).and_then(|written| {
            storage.rename(&temporary, &name)?;
            Ok(written)
        });
        let (facts, crc, bytes) = match written {
            Ok(written) => written,
            Err(error) => {
                storage.remove(&temporary).ok();
                remove(storage, &segments);
                return Err(error);
            }
        };
        let (table, rows, times) = (schema.id, facts.rows, facts.times);
        segments.push(SegmentEntry { id, table, generation, rows, bytes, crc, times, width, purged: 0, slices });
    }
    storage.sync_directory(&directory(schema.id))?;
    Ok(segments)
}

/// Removes the files of a failed flush. The next open removes any that cannot be removed now.
pub(crate) fn remove(storage: &dyn Storage, segments: &[SegmentEntry]) {
    for entry in segments {
        storage.remove(&file_name(entry.table, entry.id)).ok();
    }
}

/// The width of the table's time partitions, in the time column's unit: as set, or chosen by the
/// data rate of `times`. 0 for a collection.
fn width(schema: &TableSchema, times: &[i64]) -> i64 {
    const SAMPLE: usize = 1_000;
    let Some(unit) = schema.time_unit() else { return 0 };
    if let Some(width) = schema.partition_width {
        return width;
    }
    // The middle nine tenths: late rows and wrong clocks say nothing about the rate.
    let mut sample: Vec<i64> = times.iter().step_by(times.len().div_ceil(SAMPLE).max(1)).copied().collect();
    sample.sort_unstable();
    let edge = |share: usize| i128::from(sample.get(sample.len() * share / 20).copied().unwrap_or(0));
    let span = edge(19) - edge(1);
    let longest_s = schema.retention_seconds.map_or(i64::MAX, |seconds| seconds / RETENTION_PARTITIONS);
    let fits = |width_s: i64| {
        let width = i128::from(width_s) * i128::from(unit.per_second());
        times.len() as i128 * width >= PARTITION_ROWS.saturating_mul(span)
    };
    let chosen = WIDTHS_S.iter().find(|&&width_s| span > 0 && fits(width_s)).unwrap_or(&WIDTHS_S[WIDTHS_S.len() - 1]);
    let short = WIDTHS_S.iter().rev().find(|&&width_s| width_s <= longest_s).unwrap_or(&WIDTHS_S[0]);
    (*chosen.min(short)).saturating_mul(unit.per_second())
}

/// Cuts the containers at the time partitions. The oldest partition comes first, the shared file
/// last.
fn partitions(width: i64, sorted: &Sorted) -> Vec<Planned> {
    let mut partitions: BTreeMap<i64, Vec<Piece>> = BTreeMap::new();
    for number in 0..sorted.keys.len() {
        let Range { mut start, end } = sorted.rows(number);
        while start < end {
            let (partition, len) = if width == 0 {
                (0, end - start)
            } else {
                let partition = sorted.times()[start].div_euclid(width);
                let inside = |time: &i64| time.div_euclid(width) == partition;
                (partition, sorted.times()[start..end].partition_point(inside))
            };
            partitions.entry(partition).or_default().push((number, start, len));
            start += len;
        }
    }
    let rows = |pieces: &Vec<Piece>| pieces.iter().map(|&(_, _, len)| len).sum::<usize>();
    let mut sizes: Vec<usize> = partitions.values().map(rows).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    // A shared file for only one partition would gain nothing.
    let least = if sizes.len() <= OWN_SEGMENTS + 1 { 0 } else { sizes[OWN_SEGMENTS - 1].min(OWN_SEGMENT_ROWS) };
    let (mut planned, mut shared) = (Vec::new(), Planned { pieces: Vec::new(), slices: Vec::new() });
    for (partition, pieces) in partitions {
        if rows(&pieces) >= least {
            planned.push(Planned { pieces, slices: Vec::new() });
            continue;
        }
        let (from, to) = partition_span(partition, width);
        shared.slices.push(Slice { from, to, rows: rows(&pieces) as u64 });
        shared.pieces.extend(pieces);
    }
    if !shared.pieces.is_empty() {
        // Back to row order: by container, then by time.
        shared.pieces.sort_unstable();
        planned.push(shared);
    }
    planned
}

/// The first and last time of a partition, clamped to the range of a timestamp.
pub(crate) fn partition_span(partition: i64, width: i64) -> (i64, i64) {
    let from = i128::from(partition) * i128::from(width);
    let clamped = |time: i128| i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX });
    (clamped(from), clamped(from + i128::from(width) - 1))
}

/// The rows of one segment to be written.
struct PartitionRows<'a> {
    schema: &'a Arc<TableSchema>,
    sorted: &'a Sorted,
    /// The containers' keys.
    containers: Vec<&'a [u8]>,
    /// Row numbers in the view, in order.
    rows: Vec<u32>,
    times: Vec<i64>,
    /// For each key column, the containers' values. `ends` gives the end of each container's rows.
    keys: Vec<KeyColumn>,
    ends: Vec<usize>,
    inner: parking_lot::RwLockReadGuard<'a, crate::memtable::Inner>,
    no_texts: Pool,
}

/// A key column: one value per container.
struct KeyColumn {
    values: Lane,
    texts: Option<Pool>,
}

impl<'a> PartitionRows<'a> {
    fn new(schema: &'a Arc<TableSchema>, sorted: &'a Sorted, pieces: &[Piece]) -> Result<Self> {
        let types = schema.key_types();
        let mut keys: Vec<KeyColumn> = types
            .iter()
            .map(|t| KeyColumn { values: Lane::default(), texts: t.is_bytes().then(Pool::default) })
            .collect();
        let total = pieces.iter().map(|&(_, _, len)| len).sum();
        let (mut rows, mut times) = (Vec::with_capacity(total), Vec::with_capacity(total));
        let (mut containers, mut ends) = (Vec::with_capacity(pieces.len()), Vec::with_capacity(pieces.len()));
        for &(container, start, len) in pieces {
            let bytes = sorted.keys.get(container);
            for (column, value) in keys.iter_mut().zip(key::decode(bytes, &types)?) {
                column.values.push(match value {
                    KeyValue::Null => None,
                    KeyValue::Raw(raw) => Some(raw),
                    KeyValue::Bytes(text) => column.texts.as_mut().map(|pool| u64::from(pool.intern(&text))),
                });
            }
            rows.extend_from_slice(&sorted.order()[start..start + len]);
            times.extend_from_slice(&sorted.times()[start..start + len]);
            ends.push(rows.len());
            containers.push(bytes);
        }
        let inner = sorted.view.inner();
        let no_texts = Pool::default();
        Ok(Self { schema, sorted, containers, rows, times, keys, ends, inner, no_texts })
    }

    /// Writes the rows as a segment.
    fn write(&self, storage: &dyn Storage, name: &str, generation: Generation) -> Result<(Facts, u32, u64)> {
        let mut writer = SegmentWriter::create(storage, name, self.schema, generation)?;
        let array_bytes_of_rows = self.array_bytes_of_rows()?;
        let mut start = 0;
        while start < self.rows.len() {
            let len = group_rows(&array_bytes_of_rows, start, ROW_GROUP_ROWS.min(self.rows.len() - start));
            writer.group(&self.entries(start, len), self, start, len)?;
            start += len;
        }
        writer.finish()
    }

    /// For each column of arrays, the bytes of memory that each row's array takes while it is written.
    fn array_bytes_of_rows(&self) -> Result<Vec<Vec<usize>>> {
        let mut columns = Vec::new();
        for (place, column) in self.schema.columns.iter().enumerate() {
            let ColumnType::Array(element) = column.column_type else { continue };
            let ColumnValues::Text(lane, arrays) = self.values(place, 0, self.rows.len())? else { continue };
            let bytes = |code: u64| array_bytes(element, arrays.get(code as u32));
            columns.push((0..lane.len()).map(|row| lane.get(row).map_or(0, bytes)).collect());
        }
        Ok(columns)
    }

    /// The containers in a range of rows, each with its part of the range.
    fn entries(&self, start: usize, len: usize) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut container = self.ends.partition_point(|&end| end <= start);
        let mut row = start;
        while row < start + len {
            let end = self.ends[container].min(start + len);
            let times = (self.times[row], self.times[end - 1]);
            entries.push(Entry { key: self.containers[container].to_vec(), rows: end - row, times });
            (row, container) = (end, container + 1);
        }
        entries
    }

    /// The containers' values, each repeated for the container's rows in the range.
    fn spread(&self, values: &Lane, start: usize, len: usize) -> Lane {
        let mut out = Lane::default();
        let mut container = self.ends.partition_point(|&end| end <= start);
        let mut row = start;
        while row < start + len {
            let end = self.ends[container].min(start + len);
            out.extend(&Lane::constant(values.get(container), end - row), 0, end - row);
            (row, container) = (end, container + 1);
        }
        out
    }
}

/// How many of the next `most` rows form a row group, at least one: the arrays of each column take at
/// most [`GROUP_ARRAY_BYTES`] of memory. Equal arrays are one in the memtable, but not in pages.
fn group_rows(array_bytes_of_rows: &[Vec<usize>], start: usize, most: usize) -> usize {
    array_bytes_of_rows.iter().fold(most, |rows, of_rows| {
        let mut bytes = 0;
        let is_full = |of_row: &usize| {
            bytes += of_row;
            bytes > GROUP_ARRAY_BYTES
        };
        of_rows[start..start + rows].iter().position(is_full).map_or(rows, |row| row.max(1))
    })
}

impl SortedRows for PartitionRows<'_> {
    fn values(&self, place: usize, start: usize, len: usize) -> Result<ColumnValues<'_>> {
        let column = &self.schema.columns[place];
        Ok(match column.role {
            Role::Time => {
                let times = self.times[start..start + len].iter().map(|&time| time as u64).collect();
                ColumnValues::Raw(Lane::plain(times, NullMask::default()))
            }
            Role::Key => {
                let key = &self.keys[self.schema.key_place(place)];
                let lane = self.spread(&key.values, start, len);
                match &key.texts {
                    Some(pool) => ColumnValues::Text(lane, Texts::Borrowed(pool)),
                    None => ColumnValues::Raw(lane),
                }
            }
            Role::Field => {
                let mut lane = Lane::default();
                let rows = self.sorted.rows_with(column.id, &self.rows[start..start + len]);
                self.sorted.view.read_raw(column.id, &rows, &mut lane);
                if column.column_type.is_bytes() {
                    let pool = self.inner.texts.get(column.id.0 as usize).and_then(Option::as_ref);
                    ColumnValues::Text(lane, Texts::Borrowed(pool.unwrap_or(&self.no_texts)))
                } else {
                    ColumnValues::Raw(lane)
                }
            }
        })
    }
}
