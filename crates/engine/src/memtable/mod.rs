//! The memtable: the rows of one table in one generation, in memory.
//!
//! Rows are in blocks of [`BLOCK_ROWS`], in order of arrival, with one lane per column and no
//! allocation per row. In a time-series table a full block is packed and never changes again. Each
//! row knows the previous row of its container, and each container its newest row. A collection has
//! one row per container, at the position of the container's number, and replaces it in place.
//!
//! 1. A committer resolves keys and texts to numbers ([`Inner::resolve`]), logs them, and applies
//!    them ([`Inner::apply`]), all under the write locks of every memtable that the batch touches.
//! 2. A reader takes a [`MemtableView`] under the read locks: the current blocks. Blocks are
//!    shared, and are copied when they change while a view holds them.
//! 3. [`sorted`] puts a view, or the rows of a [`selection`], into (key, time) order, for scans and
//!    for the flush. Scans keep the [`container_rows`] that they find.
//!
//! A memtable never waits, does no I/O, and refuses nothing: admission has checked its input.

pub(crate) mod container_rows;
pub(crate) mod selection;
pub(crate) mod sorted;
mod view;

pub(crate) use view::MemtableView;

use crate::deletes::{Deletes, Marked};
use crate::ids::{ColumnId, Generation};
use crate::lane::{Lane, NullMask};
use crate::manifest::Delete;
use crate::memory::{Budget, Charge};
use crate::pool::Pool;
use crate::schema::TableSchema;
use crate::wal::record::{self, NewEntries, Section, SectionField};
use crate::write::admit::{Admitted, FieldValues};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Rows per block.
pub(crate) const BLOCK_ROWS: usize = 1024;
/// No row.
const NONE: u32 = u32::MAX;
/// Bytes of a key's place in the order of the keys.
const KEY_ORDER_BYTES: usize = 4;
/// Maximum rows of a memtable; it is frozen before it reaches this.
pub(crate) const MAX_ROWS: usize = 1 << 31;

/// Lanes of a block: the container's number, the previous row (in a collection: [`PRESENT`] or
/// [`GONE`]), then the columns by id.
const CONTAINER_LANE: usize = 0;
const PREVIOUS_LANE: usize = 1;
const PRESENT: u64 = 0;
const GONE: u64 = 1;
const COLUMN_LANES: usize = 2;

/// Up to [`BLOCK_ROWS`] rows. A lane shorter than the block is NULL at its end.
#[derive(Clone, Default)]
pub(crate) struct Block {
    lanes: Vec<Lane>,
}

impl Block {
    fn rows(&self) -> usize {
        self.lanes.first().map_or(0, Lane::len)
    }

    fn lane_mut(&mut self, lane: usize) -> &mut Lane {
        if lane >= self.lanes.len() {
            self.lanes.resize_with(lane + 1, Lane::default);
        }
        &mut self.lanes[lane]
    }

    fn get(&self, lane: usize, row: usize) -> Option<u64> {
        self.lanes.get(lane).filter(|lane| row < lane.len()).and_then(|lane| lane.get(row))
    }

    fn pack(&self) -> Self {
        Self { lanes: self.lanes.iter().map(Lane::pack).collect() }
    }

    fn bytes(&self) -> usize {
        self.lanes.iter().map(Lane::bytes).sum()
    }
}

/// What the memtable knows about a container.
#[derive(Clone, Copy)]
struct Container {
    newest_row: u32,
    rows: u32,
    /// The latest time.
    last_time: i64,
    /// Whether its rows arrived in the order of their times.
    is_in_order: bool,
}

impl Container {
    /// A container without rows.
    const EMPTY: Self = Self { newest_row: NONE, rows: 0, last_time: i64::MIN, is_in_order: true };
}

/// The number of the next memtable of this process.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// The memtable of one table.
pub(crate) struct Memtable {
    /// A number that no other memtable of this process has.
    number: u64,
    generation: Generation,
    time_lane: Option<usize>,
    merges_fields: bool,
    inner: RwLock<Inner>,
    /// Numbers of keys in the order of the keys; see [`MemtableView::key_order`].
    key_order: Mutex<Arc<Vec<u32>>>,
    /// The charge for its memory, once only views hold it.
    left: OnceLock<Charge>,
}

/// Data guarded by a memtable's lock.
pub(crate) struct Inner {
    collection: bool,
    time_column: Option<ColumnId>,
    /// Container keys. A key's number is its container's number.
    pub(crate) keys: Pool,
    containers: Vec<Container>,
    /// Dictionaries of the text columns, by column id.
    pub(crate) texts: Vec<Option<Pool>>,
    blocks: Arc<Vec<Arc<Block>>>,
    tail: Arc<Block>,
    rows: usize,
    block_bytes: usize,
    /// The generation's deletes.
    deletes: Arc<Deletes>,
}

impl Memtable {
    pub(crate) fn new(schema: &TableSchema, generation: Generation) -> Self {
        let time_column = schema.time.map(|time| schema.columns[time].id);
        let inner = Inner {
            collection: schema.time.is_none(),
            time_column,
            keys: Pool::default(),
            containers: Vec::new(),
            texts: Vec::new(),
            blocks: Arc::default(),
            tail: Arc::default(),
            rows: 0,
            block_bytes: 0,
            deletes: Arc::default(),
        };
        Self {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            generation,
            time_lane: time_column.map(|id| id.0 as usize + COLUMN_LANES),
            merges_fields: schema.merges_fields(),
            inner: RwLock::new(inner),
            key_order: Mutex::default(),
            left: OnceLock::new(),
        }
    }

    /// Called after the flush, when only views hold the memtable: its memory then counts against
    /// the budget instead of the memtables' share.
    pub(crate) fn leave_to_views(&self, budget: &Arc<Budget>) {
        self.left.set(budget.hold(self.read().bytes())).ok();
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write()
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read()
    }

    /// The generation of its rows.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// A view of the current rows; `inner` is this memtable's locked data.
    pub(crate) fn view(self: &Arc<Self>, inner: &Inner) -> MemtableView {
        MemtableView {
            memtable: Arc::clone(self),
            blocks: Arc::clone(&inner.blocks),
            tail: Arc::clone(&inner.tail),
            rows: inner.rows,
        }
    }
}

impl Inner {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of memory that the memtable holds.
    pub(crate) fn bytes(&self) -> usize {
        let texts: usize = self.texts.iter().flatten().map(Pool::bytes).sum();
        self.block_bytes
            + self.tail.bytes()
            + self.keys.bytes()
            + self.containers.capacity() * (size_of::<Container>() + KEY_ORDER_BYTES)
            + self.deletes.bytes()
            + texts
    }

    fn pool(&mut self, column: ColumnId) -> &mut Pool {
        let place = column.0 as usize;
        if place >= self.texts.len() {
            self.texts.resize_with(place + 1, || None);
        }
        self.texts[place].get_or_insert_with(Pool::default)
    }

    /// Resolves the keys and texts of admitted rows to numbers.
    pub(crate) fn resolve<'a>(&mut self, admitted: Admitted<'a>) -> Section<'a> {
        let containers = (0..admitted.rows).map(|row| u64::from(self.keys.intern(admitted.keys.get(row)))).collect();
        let fields = admitted.fields.into_iter().map(|field| {
            let column = admitted.schema.columns[field.column].id;
            let (values, nulls) = match field.values {
                FieldValues::Raw(values, nulls) => (values, nulls),
                FieldValues::Bytes(bytes) => {
                    let pool = self.pool(column);
                    (Cow::Owned(bytes.codes(|value| pool.intern(value))), bytes.into_nulls())
                }
            };
            SectionField { column, values, nulls }
        });
        Section {
            table: admitted.schema.id,
            rows: admitted.rows,
            containers,
            times: admitted.times,
            fields: fields.collect(),
        }
    }

    /// Encodes a resolved section for the log; [`learn`](Self::learn) is the inverse.
    pub(crate) fn log(&mut self, section: &Section<'_>, out: &mut Vec<u8>) {
        let runs = self.runs_before(section);
        let stored = Stored { blocks: &self.blocks, tail: &self.tail };
        let before = |field: &SectionField<'_>, out: &mut Vec<u64>| stored.before(&runs, field, out);
        record::encode(section, &mut self.keys, &mut self.texts, before, out);
    }

    /// Locates the previous rows of a section's rows, before the section is applied.
    fn runs_before(&self, section: &Section<'_>) -> Vec<RunBefore> {
        let mut runs: Vec<RunBefore> = Vec::new();
        for (row, &container) in section.containers.iter().enumerate() {
            let newest = match self.containers.get(container as usize) {
                _ if row > 0 && container == section.containers[row - 1] => NEIGHBOUR,
                Some(container) => container.newest_row,
                None => NONE,
            };
            match runs.last_mut() {
                Some(run) if run.goes_on_with(newest) => run.rows += 1,
                _ => runs.push(RunBefore { first: newest, rows: 1 }),
            }
        }
        runs
    }

    /// Turns differences back into values.
    fn undo_differences(&self, new_entries: &NewEntries, section: &mut Section<'_>) {
        let runs = self.runs_before(section);
        let rows = Stored { blocks: &self.blocks, tail: &self.tail };
        let differing = section.fields.iter_mut().zip(&new_entries.differences).filter(|(_, differs)| **differs);
        let mut stored = Vec::new();
        for (field, _) in differing {
            let mut row = 0;
            let values = field.values.to_mut();
            for run in &runs {
                stored.clear();
                if run.first != NONE && run.first != NEIGHBOUR {
                    rows.copy(run.first, run.rows, lane_of(field.column), &mut stored);
                }
                for at in row..row + run.rows {
                    let before = match run.first {
                        NONE => 0,
                        NEIGHBOUR => values[at - 1],
                        _ => stored[at - row],
                    };
                    let value = &mut values[at];
                    *value = if field.nulls.is_null(at) { 0 } else { value.wrapping_add(before) };
                }
                row += run.rows;
            }
        }
    }

    /// Adds a logged section's new keys and texts, and restores its values from differences. The
    /// caller then checks with [`accepts`](Self::accepts) that all numbers in the section are
    /// known.
    pub(crate) fn learn(&mut self, new_entries: &NewEntries, section: &mut Section<'_>) {
        self.undo_differences(new_entries, section);
        for key in &new_entries.keys {
            self.keys.intern(key);
        }
        self.keys.mark_logged();
        for (field, entries) in section.fields.iter().zip(&new_entries.entries) {
            if !entries.is_empty() {
                let pool = self.pool(field.column);
                entries.iter().for_each(|entry| {
                    pool.intern(entry);
                });
                pool.mark_logged();
            }
        }
    }

    /// Whether a logged section is valid here: the checksum may match although the content is
    /// wrong.
    pub(crate) fn accepts(&self, section: &Section<'_>, schema: &TableSchema) -> bool {
        let known = |codes: &[u64], len: usize| codes.iter().all(|&code| code < len as u64);
        known(&section.containers, self.keys.len())
            && section.times.len() == if self.collection { 0 } else { section.rows }
            && section.fields.iter().all(|field| {
                let column = schema.columns.iter().find(|column| column.id == field.column);
                match column.map(|column| column.column_type.is_bytes()) {
                    None => false,
                    Some(false) => true,
                    Some(true) => {
                        let pool = self.texts.get(field.column.0 as usize).and_then(Option::as_ref);
                        let len = pool.map_or(0, Pool::len);
                        field
                            .values
                            .iter()
                            .enumerate()
                            .all(|(row, &code)| code < len as u64 || field.nulls.is_null(row))
                    }
                }
            })
    }

    /// Adds the rows of a section whose numbers are known.
    pub(crate) fn apply(&mut self, section: &Section<'_>) {
        self.containers.resize(self.keys.len(), Container::EMPTY);
        if self.collection {
            self.replace_rows(section);
        } else {
            self.append_rows(section);
        }
    }

    fn append_rows(&mut self, section: &Section<'_>) {
        let mut previous = Vec::with_capacity(section.rows);
        for ((row, &container), &time) in (self.rows as u32..).zip(&section.containers).zip(&*section.times) {
            let container = &mut self.containers[container as usize];
            container.rows += 1;
            container.is_in_order &= time as i64 >= container.last_time;
            container.last_time = container.last_time.max(time as i64);
            previous.push(u64::from(std::mem::replace(&mut container.newest_row, row)));
        }
        let none = NullMask::default();
        let time = self.time_column.map(|time| (lane_of(time), &*section.times, &none));
        let own = [(CONTAINER_LANE, section.containers.as_slice(), &none), (PREVIOUS_LANE, &previous, &none)];
        let fields = section.fields.iter().map(|field| (lane_of(field.column), &*field.values, &*field.nulls));
        let lanes: Vec<(usize, &[u64], &NullMask)> = own.into_iter().chain(time).chain(fields).collect();
        let mut done = 0;
        while done < section.rows {
            let tail = Arc::make_mut(&mut self.tail);
            let start = tail.rows();
            let take = (BLOCK_ROWS - start).min(section.rows - done);
            for (lane, values, nulls) in &lanes {
                let lane = tail.lane_mut(*lane);
                lane.pad(start);
                lane.append(&values[done..done + take], nulls, done);
            }
            done += take;
            if start + take == BLOCK_ROWS {
                self.seal(true);
            }
        }
        self.rows += section.rows;
    }

    /// Adds a delete. It applies to older generations and to the rows that are here now. A
    /// time-series table keeps its rows and readers skip them; a collection marks them.
    pub(crate) fn delete(&mut self, delete: Delete) {
        if self.collection {
            self.delete_in_place(delete.key.as_deref());
        }
        // Row numbers fit: they are below `MAX_ROWS`.
        Arc::make_mut(&mut self.deletes).push(Marked { delete, rows_before: self.rows as u32 });
    }

    pub(crate) fn deletes(&self) -> &Arc<Deletes> {
        &self.deletes
    }

    /// Whether there is nothing to flush.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 && self.deletes.len() == 0
    }

    fn delete_in_place(&mut self, key: Option<&[u8]>) {
        let places = match key {
            None => 0..self.rows,
            Some(key) => match self.keys.find(key) {
                Some(number) if (number as usize) < self.rows => number as usize..number as usize + 1,
                _ => 0..0,
            },
        };
        for place in places {
            let (block, at) = (place / BLOCK_ROWS, place % BLOCK_ROWS);
            let sealed = block < self.blocks.len();
            let rows = if sealed { &mut Arc::make_mut(&mut self.blocks)[block] } else { &mut self.tail };
            Arc::make_mut(rows).lane_mut(PREVIOUS_LANE).set(at, Some(GONE));
        }
    }

    /// Turns the full tail into a block.
    fn seal(&mut self, pack: bool) {
        let tail = std::mem::take(&mut self.tail);
        let block = if pack { Arc::new(tail.pack()) } else { tail };
        self.block_bytes += block.bytes();
        Arc::make_mut(&mut self.blocks).push(block);
    }

    fn replace_rows(&mut self, section: &Section<'_>) {
        for (row, &container) in section.containers.iter().enumerate() {
            let place = container as usize;
            let sealed = self.blocks.len() * BLOCK_ROWS;
            let block = if place < sealed {
                Arc::make_mut(&mut Arc::make_mut(&mut self.blocks)[place / BLOCK_ROWS])
            } else {
                Arc::make_mut(&mut self.tail)
            };
            let at = place % BLOCK_ROWS;
            if place >= self.rows {
                // Containers are numbered in order of appearance, so a new one goes to the end.
                block.lane_mut(CONTAINER_LANE).push(Some(container));
                block.lane_mut(PREVIOUS_LANE).push(Some(PRESENT));
                self.containers[place] = Container { newest_row: container as u32, rows: 1, ..Container::EMPTY };
                self.rows = place + 1;
            } else {
                block.lane_mut(PREVIOUS_LANE).set(at, Some(PRESENT));
            }
            let mut present = 0u64;
            for field in &section.fields {
                let lane_number = lane_of(field.column);
                let value = (!field.nulls.is_null(row)).then(|| field.values[row]);
                let lane = block.lane_mut(lane_number);
                if at < lane.len() {
                    lane.set(at, value);
                } else {
                    lane.pad(at);
                    lane.push(value);
                }
                if lane_number < 64 {
                    present |= 1 << lane_number;
                }
            }
            for number in COLUMN_LANES..block.lanes.len() {
                let absent = if number < 64 {
                    present >> number & 1 == 0
                } else {
                    section.fields.iter().all(|field| lane_of(field.column) != number)
                };
                if absent && at < block.lanes[number].len() {
                    block.lanes[number].set(at, None);
                }
            }
            if place >= sealed && self.tail.rows() == BLOCK_ROWS {
                self.seal(false);
            }
        }
    }
}

/// The previous rows of adjacent rows in a section: `first` and the rows after it, all in one
/// block; or all [`NONE`]; or all [`NEIGHBOUR`]. Devices that always report in the same order
/// produce long runs.
struct RunBefore {
    first: u32,
    rows: usize,
}

/// The stored rows that precede a section's rows.
struct Stored<'a> {
    blocks: &'a [Arc<Block>],
    tail: &'a Block,
}

impl Stored<'_> {
    /// Appends, for each row of a section, the value of its container's previous row; see
    /// [`record`].
    fn before(&self, runs: &[RunBefore], field: &SectionField<'_>, out: &mut Vec<u64>) {
        for run in runs {
            match run.first {
                NONE => out.resize(out.len() + run.rows, 0),
                NEIGHBOUR => out.extend_from_slice(&field.values[out.len() - 1..out.len() - 1 + run.rows]),
                first => self.copy(first, run.rows, lane_of(field.column), out),
            }
        }
    }

    /// Appends the raw values of rows of one block; 0 for NULL.
    fn copy(&self, first: u32, rows: usize, lane: usize, out: &mut Vec<u64>) {
        let block = self.blocks.get(first as usize / BLOCK_ROWS).map_or(self.tail, |block| block);
        let (start, end) = (first as usize % BLOCK_ROWS, out.len() + rows);
        if let Some(lane) = block.lanes.get(lane) {
            lane.copy_raw(start.min(lane.len()), rows.min(lane.len().saturating_sub(start)), out);
        }
        out.resize(end, 0);
    }
}

/// The previous row is the preceding row of the section.
const NEIGHBOUR: u32 = NONE - 1;

impl RunBefore {
    fn goes_on_with(&self, row: u32) -> bool {
        if self.first >= NEIGHBOUR || row >= NEIGHBOUR {
            return self.first == row;
        }
        row as usize == self.first as usize + self.rows && row as usize / BLOCK_ROWS == self.first as usize / BLOCK_ROWS
    }
}

fn lane_of(column: ColumnId) -> usize {
    column.0 as usize + COLUMN_LANES
}
