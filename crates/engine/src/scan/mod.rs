//! Reading: a [`View`] of tables at one moment, and the requests it answers.
//!
//! 1. A view holds memtable views and segments ([`TableView`]). Writers and flushes do not change
//!    it.
//! 2. [`TableView::scan`] prunes segments by time, containers by key and pages by rows ([`merge`]),
//!    and yields Arrow batches in (key, time) order ([`rows`]).
//! 3. [`Container`](container::Container) reads one container through the same merge. Aggregates
//!    take the totals of whole segment parts from the container index.
//! 4. [`TableView::count`] adds up what indexes know about rows ([`count`]).
//! 5. A transaction reads its own uncommitted batches through an [`Overlay`](overlay::Overlay).

pub(crate) mod batch_reader;
pub(crate) mod bounds;
pub(crate) mod buckets;
mod collection;
pub(crate) mod container;
pub(crate) mod containers;
mod count;
mod followed_by;
pub(crate) mod last;
pub(crate) mod merge;
pub(crate) mod overlay;
mod parallel;
pub(crate) mod picker;
mod reading;
pub(crate) mod resources;
pub(crate) mod rows;
mod rows_in_memory;
pub(crate) mod source;

use crate::constraints::{StoredQueries, no_table};
use crate::deletes::DeleteSet;
use crate::error::{Error, Result};
use crate::ids::Sequence;
use crate::key::{self, KeyPart};
use crate::manifest::SegmentEntry;
use crate::memory::Charge;
use crate::memtable::MemtableView;
use crate::memtable::selection::Selection;
use crate::memtable::sorted::Sorted;
use crate::schema::{Column, TableSchema};
use crate::segment::{Listed, PAGE_ROWS, Segments};
use crate::wal::record::Removal;
use crate::write::batch::DeleteRequest;
use crate::write::value::{Value, misfit_code};
use bounds::{KeyTest, ScanBounds, range_of};
use resources::ScanResources;
use source::Source;
use std::ops::Bound;
use std::sync::Arc;

/// All tables as they were at one moment. It contains each batch whole or not at all.
#[derive(Clone)]
pub struct View {
    /// Sorted by name.
    pub(crate) tables: Vec<TableView>,
    pub(crate) stored_queries: Arc<StoredQueries>,
    pub(crate) sequence: Sequence,
}

impl View {
    /// The queries that the database keeps by name
    /// ([`Database::store_query`](crate::Database::store_query)).
    pub fn stored_queries(&self) -> &Arc<StoredQueries> {
        &self.stored_queries
    }

    /// The table called `name`.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table does not exist.
    pub fn table(&self, name: &str) -> Result<&TableView> {
        let names = || self.tables.iter().map(|table| &table.schema.name);
        let place = self.place(name).ok_or_else(|| no_table(name, &self.stored_queries, names()))?;
        Ok(&self.tables[place])
    }

    /// The place of a table in the list.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.tables.binary_search_by(|table| table.schema.name.as_str().cmp(name)).ok()
    }

    /// All tables, sorted by name.
    pub fn tables(&self) -> impl Iterator<Item = &TableView> {
        self.tables.iter()
    }

    /// The names of all tables, sorted.
    pub fn table_names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|table| table.schema.name.as_str())
    }

    /// The last batch in the view.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }
}

/// One table in a [`View`].
#[derive(Clone)]
pub struct TableView {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) segments: Arc<Segments>,
    /// Oldest first.
    pub(crate) memtables: Vec<MemtableView>,
    pub(crate) deletes: DeleteSet,
    /// The latest time that retention hides.
    pub(crate) expired: Option<i64>,
    pub(crate) scans: Arc<ScanResources>,
}

/// What is known of the segments of a table without reading. Rows that were deleted or replaced
/// count until they are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentTotals {
    /// Number of rows.
    pub rows: u64,
    /// The number of containers of the segment that has most.
    pub max_containers: u64,
    /// Minimum and maximum time, in the time column's unit; `None` without segments.
    pub times: Option<(i64, i64)>,
}

impl SegmentTotals {
    /// Estimates the number of rows of a container.
    pub fn rows_of_container(&self) -> u64 {
        self.rows / self.max_containers.max(1)
    }
}

/// The sources of a scan, and the memory they take.
pub(crate) struct Sources {
    pub(crate) list: Arc<Vec<Source>>,
    _charges: Vec<Charge>,
}

/// Memory of a memtable row while it is sorted: its position and time, and a second copy of both.
const SORTED_ROW_BYTES: usize = 28;
/// Memory of a segment in a scan: a block of its container index.
pub(crate) const INDEX_BLOCK_BYTES: usize = 48 << 10;
/// In addition, a decoded page of each column that is read.
pub(crate) const PAGE_BYTES: usize = 8 * PAGE_ROWS;

/// Blocks of a segment's container index that runs keep in memory, if their containers follow each
/// other and are not more than one block has.
const BLOCKS_OF_RUNS: usize = 2;
/// Their memory in columns of pages, for [`TableView::sources`].
const COLUMNS_OF_RUNS: usize = (BLOCKS_OF_RUNS * INDEX_BLOCK_BYTES).div_ceil(PAGE_BYTES);

/// If conditions list at most this many containers, they are looked up one by one.
const MAX_LISTED_KEYS: usize = 4_096;

/// Which rows and columns a scan yields.
///
/// ```
/// use fleetdb_engine::{Projection, ScanRequest, Value};
/// let request = ScanRequest::all().container(&[Value::Int(7)]).from_time(0);
/// let request = request.columns(Projection::Names(vec!["usage".into()]));
/// assert_eq!(request.keys.unwrap().len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScanRequest {
    /// The columns, by name or index.
    pub projection: Projection,
    /// The containers, each as the values of its key columns in key order; `None` for all.
    pub keys: Option<Vec<Vec<Value>>>,
    /// Conditions on key columns. A container is tested once, before any of its rows is read.
    pub key_predicates: Vec<KeyPredicate>,
    /// Only rows at or after this time, in the time column's unit.
    pub from: Option<i64>,
    /// Only rows at or before this time.
    pub to: Option<i64>,
    /// At most this many rows.
    pub limit: Option<usize>,
    /// Whether each container's rows are returned newest first.
    pub newest_first: bool,
    /// The number of rows of the first batch, for readers that may stop after few; the following batches
    /// become larger.
    pub first_rows: Option<usize>,
}

/// A condition on one key column.
#[derive(Clone, Debug)]
pub struct KeyPredicate {
    /// The column's index in the table.
    pub column: usize,
    /// The condition.
    pub test: KeyCondition,
}

/// A condition on a key column's value. NULL passes only if it is listed. NULL sorts before every
/// value.
#[derive(Clone, Debug)]
pub enum KeyCondition {
    /// The value is one of these.
    In(Vec<Value>),
    /// The value is within these bounds and not NULL.
    Between(Bound<Value>, Bound<Value>),
}

/// Which columns a scan yields.
#[derive(Clone, Debug, Default)]
pub enum Projection {
    /// All columns, in the table's order.
    #[default]
    All,
    /// These columns, by name.
    Names(Vec<String>),
    /// These columns, by index in the table.
    Places(Vec<usize>),
}

impl ScanRequest {
    /// All rows, all columns.
    pub fn all() -> Self {
        Self::default()
    }

    /// Adds a container to the requested ones.
    #[must_use]
    pub fn container(mut self, key: &[Value]) -> Self {
        self.keys.get_or_insert_default().push(key.to_vec());
        self
    }

    /// Only rows at or after this time.
    #[must_use]
    pub fn from_time(mut self, from: i64) -> Self {
        self.from = Some(from);
        self
    }

    /// Only rows at or before this time.
    #[must_use]
    pub fn to_time(mut self, to: i64) -> Self {
        self.to = Some(to);
        self
    }

    /// Only these columns.
    #[must_use]
    pub fn columns(mut self, projection: Projection) -> Self {
        self.projection = projection;
        self
    }

    /// At most this many rows.
    #[must_use]
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Returns each container's newest rows first.
    #[must_use]
    pub fn newest_first(mut self) -> Self {
        self.newest_first = true;
        self
    }
}

impl TableView {
    /// The table's schema.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Number of segments of the table in this view.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// A number of rows that the table has at most, found without reading: rows that were deleted or
    /// replaced count until they are merged.
    pub fn max_rows(&self) -> u64 {
        self.segment_totals().rows + self.memtables.iter().map(|memtable| memtable.rows() as u64).sum::<u64>()
    }

    /// A number of containers that the table has at least, found without reading: the most that one
    /// segment or memtable has. Deleted ones may be among them.
    pub fn min_containers(&self) -> u64 {
        let in_memtables = self.memtables.iter().map(|memtable| memtable.containers() as u64);
        in_memtables.fold(self.segment_totals().max_containers, u64::max)
    }

    /// What is known of the table's segments without reading.
    pub fn segment_totals(&self) -> SegmentTotals {
        let mut totals = SegmentTotals::default();
        for listed in self.segments.iter() {
            let (facts, times) = (&listed.segment.facts, listed.entry.times);
            totals.rows += facts.rows;
            totals.max_containers = totals.max_containers.max(facts.containers);
            totals.times = Some(totals.times.map_or(times, |all| (all.0.min(times.0), all.1.max(times.1))));
        }
        totals
    }

    /// A span that contains the times of all rows, found without reading segments; `None` without
    /// rows, and in a collection.
    pub fn time_bounds(&self) -> Option<(i64, i64)> {
        let of_memtables = self.memtables.iter().filter_map(MemtableView::time_bounds);
        self.schema.time?;
        let of_all = of_memtables.chain(self.segment_totals().times);
        of_all.reduce(|all, times| (all.0.min(times.0), all.1.max(times.1)))
    }

    /// The manifest entries of the segments, oldest first.
    pub fn segment_entries(&self) -> impl Iterator<Item = &SegmentEntry> {
        self.segments.iter().map(|listed| &listed.entry)
    }

    fn places(&self, projection: &Projection) -> Result<Vec<usize>> {
        match projection {
            Projection::All => Ok((0..self.schema.columns.len()).collect()),
            Projection::Names(names) => names.iter().map(|name| self.schema.column_index(name)).collect(),
            Projection::Places(places) => {
                if let Some(place) = places.iter().find(|&&place| place >= self.schema.columns.len()) {
                    return Err(Error::invalid(format!("table '{}' has no column {place}", self.schema.name)));
                }
                Ok(places.clone())
            }
        }
    }

    fn bounds(&self, request: &ScanRequest) -> Result<ScanBounds> {
        if self.schema.time.is_none() && (request.from.is_some() || request.to.is_some()) {
            return Err(Error::invalid(format!("table '{}' has no time column", self.schema.name)));
        }
        let keys = match &request.keys {
            None => None,
            Some(keys) => {
                let encoded = keys.iter().map(|key| encode_key(&self.schema, key));
                let mut encoded = encoded.collect::<Result<Vec<_>>>()?;
                encoded.sort_unstable();
                encoded.dedup();
                Some(encoded)
            }
        };
        let mut bounds = ScanBounds {
            key_types: self.schema.key_types(),
            keys,
            from: self.bounds_from(request.from).from,
            to: request.to,
            merges_fields: self.schema.merges_fields(),
            ..ScanBounds::default()
        };
        for predicate in &request.key_predicates {
            bounds.tests.push(self.key_test(predicate)?);
        }
        if bounds.keys.is_none() {
            bounds.keys = self.listed_keys(&bounds.tests);
        }
        // Listed keys pass if they are all that is tested.
        let is_list = request.keys.is_none() && bounds.tests.len() == self.schema.key.len();
        if !is_list && let Some(keys) = bounds.keys.take() {
            let passing = keys.into_iter().map(|key| Ok(bounds.passes(&key)?.then_some(key)));
            bounds.keys = Some(passing.filter_map(Result::transpose).collect::<Result<_>>()?);
        }
        if bounds.keys.is_none() {
            bounds.range = range_of(&bounds.tests, self.schema.key.len());
        }
        Ok(bounds)
    }

    /// The keys, sorted, if conditions list the values of every key column; `None` if they do not,
    /// or if there are too many.
    fn listed_keys(&self, tests: &[KeyTest]) -> Option<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<&Vec<u8>>> = vec![Vec::new()];
        for part in 0..self.schema.key.len() {
            let any_of = tests.iter().find_map(|test| test.any_of.as_ref().filter(|_| test.part == part))?;
            if keys.len().saturating_mul(any_of.len()) > MAX_LISTED_KEYS {
                return None;
            }
            let longer = keys.iter().flat_map(|key| any_of.iter().map(|value| [key.as_slice(), &[value]].concat()));
            keys = longer.collect();
        }
        let mut keys: Vec<Vec<u8>> = keys.into_iter().map(|parts| key::join(&parts)).collect();
        keys.sort_unstable();
        Some(keys)
    }

    /// All rows from a time on, except those that retention hides.
    pub(crate) fn bounds_from(&self, from: Option<i64>) -> ScanBounds {
        let kept = self.expired.map(|expired| expired.saturating_add(1));
        ScanBounds { from: from.max(kept), merges_fields: self.schema.merges_fields(), ..ScanBounds::default() }
    }

    fn key_test(&self, predicate: &KeyPredicate) -> Result<KeyTest> {
        let part = self.schema.key.iter().position(|&place| place == predicate.column).ok_or_else(|| {
            Error::invalid(format!("column {} of table '{}' is not a key column", predicate.column, self.schema.name))
        })?;
        let column = &self.schema.columns[predicate.column];
        let encode = |value: &Value| -> Result<Vec<u8>> {
            let mut out = Vec::with_capacity(key::NUMBER_BYTES);
            key::push(&mut out, column.column_type, key_part(column, value)?);
            Ok(out)
        };
        let bound = |bound: &Bound<Value>| -> Result<Bound<Vec<u8>>> {
            Ok(match bound {
                Bound::Included(value) => Bound::Included(encode(value)?),
                Bound::Excluded(value) => Bound::Excluded(encode(value)?),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        Ok(match &predicate.test {
            KeyCondition::In(values) => {
                let mut any_of = values.iter().map(encode).collect::<Result<Vec<_>>>()?;
                any_of.sort_unstable();
                any_of.dedup();
                KeyTest { part, any_of: Some(any_of), from: Bound::Unbounded, to: Bound::Unbounded }
            }
            KeyCondition::Between(from, to) => {
                let from = match bound(from)? {
                    Bound::Unbounded => Bound::Excluded(vec![0]),
                    from => from,
                };
                KeyTest { part, any_of: None, from, to: bound(to)? }
            }
        })
    }

    /// The sources that may hold matching rows, oldest first, for reading `columns` columns of
    /// them. With a limit, a memtable may have its first rows only, if they are as many as the limit
    /// says: the merged rows up to the last of them are then at least as many.
    ///
    /// # Errors
    /// The memory budget is exhausted.
    pub(crate) fn sources(&self, bounds: &ScanBounds, columns: usize) -> Result<Sources> {
        let touched: Vec<&Arc<Listed>> = self
            .segments
            .iter()
            .filter(|listed| bounds.touches(listed.entry.times))
            .filter(|listed| bounds.keys.as_deref().is_none_or(|keys| listed.segment.may_hold(keys)))
            .collect();
        // Pages are cached for a few containers, and for a table that does not fill the cache.
        let pages: usize = touched.iter().map(|listed| listed.segment.pages()).sum();
        let bytes = pages.saturating_mul((columns + 1) * PAGE_BYTES);
        let keep = bounds.keys.is_some() || touched.iter().all(|listed| listed.segment.has_cache_for(bytes));
        let segment = |listed| Source::segment(listed, &self.schema, &self.deletes, keep);
        let mut sources: Vec<Source> = touched.into_iter().map(segment).collect();
        let views = self.memtables.iter().filter(|view| view.rows() > 0);
        let selected = views.map(|view| Ok((view, selection(view, bounds, bounds.limit)?)));
        let selected = selected.collect::<Result<Vec<_>>>()?;
        let rows: usize = selected.iter().map(|(_, selection)| selection.rows).sum();
        let segment_bytes = INDEX_BLOCK_BYTES + columns * PAGE_BYTES;
        let charge = |bytes| self.scans.budget.charge_behind_compaction("a scan", bytes);
        let mut charges = vec![charge(rows * SORTED_ROW_BYTES + sources.len() * segment_bytes)?];
        let sort = |view: &MemtableView, selection: &Selection| {
            Sorted::of(view.clone(), selection, &self.deletes, &*self.scans.cache)
        };
        for (view, first) in selected {
            let mut sorted = sort(view, &first);
            if first.is_cut && bounds.limit.is_some_and(|limit| sorted.order().len() < limit) {
                // Some of them were deleted, replaced, or outside the times.
                let all = selection(view, bounds, None)?;
                charges.push(charge(all.rows * SORTED_ROW_BYTES)?);
                sorted = sort(view, &all);
            }
            if sorted.keys.len() > 0 {
                sources.push(Source::Memtable(sorted));
            }
        }
        Ok(Sources { list: Arc::new(sources), _charges: charges })
    }
}

/// The rows of a memtable that a scan wants.
fn selection(view: &MemtableView, bounds: &ScanBounds, limit: Option<usize>) -> Result<Selection> {
    let selection = match (bounds.keys.as_deref(), limit) {
        (Some(keys), _) => Selection::listed(view, keys),
        (None, None) if bounds.tests.is_empty() => Selection::all(view),
        (None, limit) => {
            Selection::passing(view, &bounds.range, limit.unwrap_or(usize::MAX), |key| bounds.passes(key))?
        }
    };
    Ok(selection.within(bounds.from, bounds.to).newest(bounds.newest))
}

/// Encodes a container's key from the values of its key columns.
pub(crate) fn encode_key(schema: &TableSchema, values: &[Value]) -> Result<Vec<u8>> {
    if values.len() != schema.key.len() {
        return Err(Error::invalid(format!(
            "the key has {} values, but the key of table '{}' has {} columns",
            values.len(),
            schema.name,
            schema.key.len()
        )));
    }
    let mut parts = Vec::with_capacity(values.len());
    for (value, &place) in values.iter().zip(&schema.key) {
        parts.push(key_part(&schema.columns[place], value)?);
    }
    Ok(key::encode(&schema.key_types(), parts))
}

/// A delete in the engine's form.
pub(crate) fn removal(schema: &TableSchema, request: &DeleteRequest) -> Result<Removal> {
    let key = request.key.as_ref().map(|key| encode_key(schema, key)).transpose()?;
    if schema.time.is_none() && (request.from, request.to) != (i64::MIN, i64::MAX) {
        let name = &schema.name;
        return Err(Error::invalid(format!(
            "table '{name}' is a collection: its rows can be deleted by key, not by time"
        )));
    }
    Ok(Removal { table: schema.id, key, from: request.from, to: request.to })
}

/// A value as a part of a key.
fn key_part<'a>(column: &Column, value: &'a Value) -> Result<KeyPart<'a>> {
    let Column { name, column_type, .. } = column;
    let misfit = || {
        let message = format!("invalid value for key column '{name}' of type {column_type}: {value:?}");
        Error::new(misfit_code(value, *column_type), message)
    };
    value.part(*column_type).ok_or_else(misfit)
}
