//! The flush: frozen memtables of one generation become segments.
//!
//! 1. A memtable's view is sorted ([`Sorted`]) and cut at the table's time partitions.
//! 2. Each piece becomes a segment under a temporary name, synced, renamed; then the directory is
//!    synced.
//! 3. The caller makes one manifest edit for the whole generation and only then removes the WAL file.
//!
//! A crash before the edit leaves files that the next opening removes and a WAL that is replayed.

use crate::error::Result;
use crate::ids::{Generation, SegmentId};
use crate::io::Storage;
use crate::key::{self, KeyValue};
use crate::lane::{Lane, NullMask};
use crate::manifest::SegmentEntry;
use crate::memtable::MemtableView;
use crate::memtable::sorted::Sorted;
use crate::pool::Pool;
use crate::schema::{Role, TableSchema};
use crate::segment::index::Entry;
use crate::segment::writer::{self, ColumnValues, SortedRows};
use crate::segment::{directory, file_name};
use std::collections::BTreeMap;

/// The most segments that one table's flush makes. Rows with wild clocks may touch any number of
/// partitions; beyond this, neighbouring ones share a segment.
const MAX_SEGMENTS: usize = 64;

/// A part of a container's rows: the container, its first row in the order, and how many.
type Piece = (usize, usize, usize);

/// Writes the segments of one memtable. `next_id` gives their numbers.
pub(crate) fn flush_table(
    storage: &dyn Storage,
    schema: &TableSchema,
    generation: Generation,
    view: MemtableView,
    mut next_id: impl FnMut() -> SegmentId,
) -> Result<Vec<SegmentEntry>> {
    if view.rows() == 0 {
        return Ok(Vec::new());
    }
    storage.create_directory(&directory(schema.id))?;
    let sorted = Sorted::all(view);
    let mut segments = Vec::new();
    for pieces in partitions(schema, &sorted) {
        let id = next_id();
        let name = file_name(schema.id, id);
        let temporary = format!("{name}.tmp");
        let rows = PartitionRows::new(schema, &sorted, &pieces)?;
        let (facts, crc) = writer::write(storage, &temporary, schema, generation, &rows.entries, &rows)?;
        storage.rename(&temporary, &name)?;
        let bytes = storage.read(&name)?.len_bytes();
        segments.push(SegmentEntry {
            id,
            table: schema.id,
            generation,
            rows: facts.rows,
            bytes,
            crc,
            times: facts.times,
        });
    }
    storage.sync_directory(&directory(schema.id))?;
    Ok(segments)
}

/// Cuts the containers at the table's time partitions, oldest partition first.
fn partitions(schema: &TableSchema, sorted: &Sorted) -> Vec<Vec<Piece>> {
    let mut partitions: BTreeMap<i64, Vec<Piece>> = BTreeMap::new();
    for (number, container) in sorted.containers.iter().enumerate() {
        let mut start = container.start;
        let end = container.start + container.rows;
        while start < end {
            let (partition, len) = if schema.partition_width == 0 {
                (0, end - start)
            } else {
                let partition = sorted.times[start].div_euclid(schema.partition_width);
                let inside = |time: &i64| time.div_euclid(schema.partition_width) == partition;
                (partition, sorted.times[start..end].partition_point(inside))
            };
            partitions.entry(partition).or_default().push((number, start, len));
            start += len;
        }
    }
    let mut partitions: Vec<Vec<Piece>> = partitions.into_values().collect();
    if partitions.len() > MAX_SEGMENTS {
        let share = partitions.len().div_ceil(MAX_SEGMENTS);
        partitions = partitions.chunks(share).map(|group| join(group.concat())).collect();
    }
    partitions
}

/// Puts the pieces of several neighbouring partitions into key order; what belongs together follows
/// on each other in the order of rows and becomes one piece.
fn join(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_unstable();
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if last.0 == piece.0 => last.2 += piece.2,
            _ => joined.push(piece),
        }
    }
    joined
}

/// The rows of one segment-to-be.
struct PartitionRows<'a> {
    schema: &'a TableSchema,
    sorted: &'a Sorted,
    entries: Vec<Entry>,
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
    fn new(schema: &'a TableSchema, sorted: &'a Sorted, pieces: &[Piece]) -> Result<Self> {
        let types = schema.key_types();
        let mut keys: Vec<KeyColumn> = types
            .iter()
            .map(|t| KeyColumn { values: Lane::default(), texts: t.is_bytes().then(Pool::default) })
            .collect();
        let total = pieces.iter().map(|&(_, _, len)| len).sum();
        let (mut rows, mut times) = (Vec::with_capacity(total), Vec::with_capacity(total));
        let (mut entries, mut ends) = (Vec::with_capacity(pieces.len()), Vec::new());
        for &(container, start, len) in pieces {
            let bytes = &sorted.containers[container].key;
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
            let (first, last) = (sorted.times[start], sorted.times[start + len - 1]);
            entries.push(Entry { key: bytes.clone(), rows: len, times: (first, last) });
        }
        let inner = sorted.view.inner();
        let no_texts = Pool::default();
        Ok(Self { schema, sorted, entries, rows, times, keys, ends, inner, no_texts })
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
    fn values(&self, place: usize, start: usize, len: usize) -> ColumnValues<'_> {
        let column = &self.schema.columns[place];
        match column.role {
            Role::Time => {
                let times = self.times[start..start + len].iter().map(|&time| time as u64).collect();
                ColumnValues::Raw(Lane::plain(times, NullMask::default()))
            }
            Role::Key => {
                // A column of role Key is in `schema.key`: manifest invariant S4.
                let number = self.schema.key.iter().position(|&k| k == place).unwrap_or(0);
                let key = &self.keys[number];
                let lane = self.spread(&key.values, start, len);
                match &key.texts {
                    Some(pool) => ColumnValues::Text(lane, pool),
                    None => ColumnValues::Raw(lane),
                }
            }
            Role::Field => {
                let mut lane = Lane::default();
                self.sorted.view.read_raw(column.id, &self.rows[start..start + len], &mut lane);
                if column.column_type.is_bytes() {
                    let pool = self.inner.texts.get(column.id.0 as usize).and_then(Option::as_ref);
                    ColumnValues::Text(lane, pool.unwrap_or(&self.no_texts))
                } else {
                    ColumnValues::Raw(lane)
                }
            }
        }
    }
}
