//! The flush: frozen memtables of one generation become segments.
//!
//! 1. A memtable's view is sorted ([`Sorted`]) and cut at the table's time partitions, whose width follows the data
//!    rate unless it is set. Partitions with few rows share a file.
//! 2. Each piece becomes a segment under a temporary name, synced, renamed; then the directory is
//!    synced.
//! 3. The caller makes one manifest edit for the whole generation and only then removes the WAL file.
//!
//! A crash before the edit leaves files that the next opening removes and a WAL that is replayed.

use crate::deletes::DeleteSet;
use crate::error::Result;
use crate::ids::{Generation, SegmentId};
use crate::io::Storage;
use crate::key::{self, KeyValue};
use crate::lane::{Lane, NullMask};
use crate::manifest::{SegmentEntry, Slice};
use crate::memtable::MemtableView;
use crate::memtable::sorted::Sorted;
use crate::pool::Pool;
use crate::schema::{Role, TableSchema};
use crate::segment::index::Entry;
use crate::segment::pages::{ColumnValues, Texts};
use crate::segment::writer::{SegmentWriter, SortedRows};
use crate::segment::{Facts, ROW_GROUP_ROWS, directory, file_name};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// So many partitions get a segment of their own, whatever their size.
const OWN_SEGMENTS: usize = 8;
/// A partition with so many rows gets a segment of its own. The others share one file, so that late rows and
/// wild clocks do not make a file for each partition they touch.
const OWN_SEGMENT_ROWS: usize = 1 << 16;
/// Widths of a time partition to choose from, in seconds; each divides the next, so that partitions nest.
const WIDTHS_S: [i64; 4] = [3_600, 86_400, 8 * 86_400, 64 * 86_400];
/// A partition is to have at least so many rows: compaction and retention work on whole partitions.
const PARTITION_ROWS: i128 = 8 << 20;
/// A retention is to span at least so many partitions.
const RETENTION_PARTITIONS: i64 = 8;

/// A part of a container's rows: the container, its first row in the order, and how many.
type Piece = (usize, usize, usize);

/// A segment-to-be: its rows, and the partitions if there is more than one.
struct Planned {
    pieces: Vec<Piece>,
    slices: Vec<Slice>,
}

/// Writes the segments of one memtable. `next_id` gives their numbers. After an error no file is left.
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
    let sorted = Sorted::all(view, deletes);
    let width = width(schema, &sorted.times);
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

/// Removes the files of a flush that failed; what cannot be removed now goes with the next opening.
pub(crate) fn remove(storage: &dyn Storage, segments: &[SegmentEntry]) {
    for entry in segments {
        storage.remove(&file_name(entry.table, entry.id)).ok();
    }
}

/// The width of the table's time partitions: as set, or by the rate of these times, in the time column's unit; 0 for
/// a collection.
fn width(schema: &TableSchema, times: &[i64]) -> i64 {
    const SAMPLE: usize = 1_000;
    let Some(unit) = schema.time_unit() else { return 0 };
    if let Some(width) = schema.partition_width {
        return width;
    }
    // The middle nine tenths: late rows and wild clocks say nothing of the rate.
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

/// Cuts the containers at the time partitions; oldest partition first, what partitions share last.
fn partitions(width: i64, sorted: &Sorted) -> Vec<Planned> {
    let mut partitions: BTreeMap<i64, Vec<Piece>> = BTreeMap::new();
    for number in 0..sorted.keys.len() {
        let Range { mut start, end } = sorted.rows(number);
        while start < end {
            let (partition, len) = if width == 0 {
                (0, end - start)
            } else {
                let partition = sorted.times[start].div_euclid(width);
                let inside = |time: &i64| time.div_euclid(width) == partition;
                (partition, sorted.times[start..end].partition_point(inside))
            };
            partitions.entry(partition).or_default().push((number, start, len));
            start += len;
        }
    }
    let rows = |pieces: &Vec<Piece>| pieces.iter().map(|&(_, _, len)| len).sum::<usize>();
    let mut sizes: Vec<usize> = partitions.values().map(rows).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    // With one partition too many there is no point in a shared file.
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
        // Back to the order of rows: by container, then by time.
        shared.pieces.sort_unstable();
        planned.push(shared);
    }
    planned
}

/// The first and the last time of a partition, as far as a timestamp can say them.
pub(crate) fn partition_span(partition: i64, width: i64) -> (i64, i64) {
    let from = i128::from(partition) * i128::from(width);
    let clamped = |time: i128| i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX });
    (clamped(from), clamped(from + i128::from(width) - 1))
}

/// The rows of one segment-to-be.
struct PartitionRows<'a> {
    schema: &'a Arc<TableSchema>,
    sorted: &'a Sorted,
    /// The containers' keys.
    containers: Vec<&'a [u8]>,
    /// Row numbers of the view, in order.
    rows: Vec<u32>,
    times: Vec<i64>,
    /// For each key column the containers' values; `ends` says how far each reaches.
    keys: Vec<KeyColumn>,
    ends: Vec<usize>,
    inner: parking_lot::RwLockReadGuard<'a, crate::memtable::Inner>,
    no_texts: Pool,
}

/// A key column: one value for each container.
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
            rows.extend_from_slice(&sorted.order[start..start + len]);
            times.extend_from_slice(&sorted.times[start..start + len]);
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
        for start in (0..self.rows.len()).step_by(ROW_GROUP_ROWS) {
            let len = ROW_GROUP_ROWS.min(self.rows.len() - start);
            writer.group(&self.entries(start, len), self, start, len)?;
        }
        writer.finish()
    }

    /// The containers of a stretch of rows, each with its part in it.
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

    /// The containers' values, each as often as the container has rows in the stretch.
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
