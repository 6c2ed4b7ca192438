//! A memtable as it was at one moment, as readers see it.

use super::{BLOCK_ROWS, Block, Inner, Memtable, NONE, PRESENT, PREVIOUS_LANE, lane_of};
use crate::column::ColumnBuilder;
use crate::ids::{ColumnId, Generation};
use crate::lane::Lane;
use crate::pool::Pool;
use crate::schema::Column;
use crate::write::value::Value;
use parking_lot::RwLockReadGuard;
use std::sync::Arc;

/// If at least one in this many rows is wanted, a lane is first laid out flat: a value then takes
/// one load instead of three.
const FLATTEN_SHARE: usize = 16;

/// A memtable as it was at one moment.
#[derive(Clone)]
pub(crate) struct MemtableView {
    pub(super) memtable: Arc<Memtable>,
    pub(super) blocks: Arc<Vec<Arc<Block>>>,
    pub(super) tail: Arc<Block>,
    pub(super) rows: usize,
}

impl MemtableView {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn block(&self, row: u32) -> &Block {
        self.blocks.get(row as usize / BLOCK_ROWS).unwrap_or(&self.tail)
    }

    pub(super) fn get(&self, lane: usize, row: u32) -> Option<u64> {
        self.block(row).get(lane, row as usize % BLOCK_ROWS)
    }

    pub(super) fn time(&self, row: u32) -> i64 {
        self.memtable.time_lane.and_then(|lane| self.get(lane, row)).unwrap_or(0) as i64
    }

    /// The previous row of a row's container; [`NONE`] if it has none, and in a collection.
    pub(super) fn previous(&self, row: u32) -> u32 {
        match self.memtable.time_lane {
            Some(_) => self.get(PREVIOUS_LANE, row).map_or(NONE, |previous| previous as u32),
            None => NONE,
        }
    }

    /// Appends a column's values for these rows, in order.
    pub(crate) fn read(&self, column: ColumnId, rows: &[u32], out: &mut ColumnBuilder) {
        let lane = lane_of(column);
        match out {
            ColumnBuilder::Raw(out) => self.read_raw(column, rows, out),
            ColumnBuilder::Bytes(out) => {
                let inner = self.memtable.read();
                let pool = inner.texts.get(column.0 as usize).and_then(Option::as_ref);
                for &row in rows {
                    let code = self.get(lane, row);
                    out.push(pool.zip(code).map(|(pool, code)| pool.get(code as u32)));
                }
            }
        }
    }

    /// Appends a column's raw values (codes for text) for these rows, in order.
    pub(crate) fn read_raw(&self, column: ColumnId, rows: &[u32], out: &mut Lane) {
        let lane = lane_of(column);
        if rows.len() < self.rows / FLATTEN_SHARE {
            return rows.iter().for_each(|&row| out.push(self.get(lane, row)));
        }
        out.gather(&self.flat(lane), rows);
    }

    /// A whole lane in one piece.
    pub(super) fn flat(&self, lane: usize) -> Lane {
        let tail = self.tail.lanes.get(lane).map(Lane::pack);
        let blocks = self.blocks.iter().map(|block| (block.lanes.get(lane), block.rows()));
        let mut pieces: Vec<(Option<&Lane>, usize)> = blocks.collect();
        pieces.push((tail.as_ref(), self.tail.rows()));
        Lane::concat(&pieces)
    }

    /// A span that contains the times of all rows; `None` without rows, and in a collection.
    pub(crate) fn time_bounds(&self) -> Option<(i64, i64)> {
        let lane = self.memtable.time_lane?;
        let blocks = self.blocks.iter().chain([&self.tail]);
        let bounds = blocks.filter_map(|block| block.lanes.get(lane)?.bounds());
        bounds.reduce(|all, bounds| (all.0.min(bounds.0), all.1.max(bounds.1)))
    }

    /// Number of containers.
    pub(crate) fn containers(&self) -> usize {
        self.memtable.read().keys.len()
    }

    /// Average length of a text column's values.
    pub(crate) fn text_bytes(&self, column: ColumnId) -> usize {
        let inner = self.memtable.read();
        inner.texts.get(column.0 as usize).and_then(Option::as_ref).map_or(0, Pool::entry_bytes)
    }

    /// The generation of its rows.
    pub(crate) fn generation(&self) -> Generation {
        self.memtable.generation
    }

    /// The row of a collection with this key, if it has one. `inner` is its locked memtable.
    pub(crate) fn row_of(&self, inner: &Inner, key: &[u8]) -> Option<u32> {
        let row = inner.keys.find(key).filter(|row| (*row as usize) < self.rows)?;
        (self.get(PREVIOUS_LANE, row) == Some(PRESENT)).then_some(row)
    }

    /// The value of a field of a row. `inner` is its locked memtable.
    pub(crate) fn value(&self, inner: &Inner, column: &Column, row: u32) -> Value {
        let Some(value) = self.get(lane_of(column.id), row) else { return Value::Null };
        match inner.texts.get(column.id.0 as usize).and_then(Option::as_ref) {
            Some(pool) => Value::of_bytes(pool.get(value as u32), column.column_type),
            None => Value::of_raw(value, column.column_type),
        }
    }

    /// The locked memtable, for looking up codes.
    pub(crate) fn inner(&self) -> RwLockReadGuard<'_, Inner> {
        self.memtable.read()
    }
}
