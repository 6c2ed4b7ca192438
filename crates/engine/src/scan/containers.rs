//! The containers of a table, with their row counts and the totals of their columns.
//!
//! A segment part that matches whole is not read: the container index has its totals. Rows are read
//! only where a bound cuts a container, and times only where sources overlap.

use super::bounds::ScanBounds;
use super::merge::{self, Merge, RowSpan};
use super::source::{PageMemo, Run, Source};
use super::{ScanRequest, Sources, TableView};
use crate::column_type::ColumnType;
use crate::error::{Error, Result};
use crate::ids::ColumnId;
use crate::key::{self, KeyValue};
use crate::schema::Role;
use crate::segment::amounts::{Amounts, Sum};
use crate::write::value::Value;

/// A container and its totals for a request.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSummary {
    /// The key columns' values, in key order.
    pub key: Vec<Value>,
    /// The start of the time bucket that these totals are of; `None` if they are of all times.
    pub bucket: Option<i64>,
    /// Number of rows.
    pub rows: u64,
    /// The first and last time; 0 in a collection.
    pub times: (i64, i64),
    /// The totals of the requested columns, in their order.
    pub amounts: Vec<ColumnTotals>,
}

/// The totals of a numeric column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnTotals {
    /// Number of non-NULL values.
    pub count: u64,
    /// The minimum; `Null` if there are no values.
    pub min: Value,
    /// The maximum; NaN counts as larger than any number.
    pub max: Value,
    /// The sum; 0 if there are no values.
    pub sum: ColumnSum,
}

impl ColumnTotals {
    /// Adds the totals of other values.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        if is_below(&other.min, &self.min) {
            self.min = other.min.clone();
        }
        if self.max == Value::Null || other.max != Value::Null && is_below(&self.max, &other.max) {
            self.max = other.max.clone();
        }
        match (&mut self.sum, other.sum) {
            (ColumnSum::Integer(sum), ColumnSum::Integer(other)) => *sum += other,
            (ColumnSum::Float(sum), ColumnSum::Float(other)) => *sum += other,
            (ColumnSum::Decimal { unscaled, .. }, ColumnSum::Decimal { unscaled: other, .. }) => *unscaled += other,
            // Both have the column's type.
            _ => {}
        }
    }
}

/// The order of numbers in a column. NULL is below nothing, and everything is below NULL.
fn is_below(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, _) => false,
        (_, Value::Null) => true,
        (Value::Int(a), Value::Int(b)) => a < b,
        (Value::UInt(a), Value::UInt(b)) => a < b,
        (Value::Float(a), Value::Float(b)) => a.total_cmp(b).is_lt(),
        // Both have the column's scale.
        (Value::Decimal(a), Value::Decimal(b)) => a.unscaled < b.unscaled,
        _ => false,
    }
}

/// A sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ColumnSum {
    /// Exact, for integers.
    Integer(i128),
    /// For floats, added in no particular order.
    Float(f64),
    /// Exact, for decimal numbers.
    Decimal {
        /// The sum without its decimal point.
        unscaled: i128,
        /// The number of digits after the decimal point.
        scale: u8,
    },
}

/// Yields containers in key order.
pub struct ContainerSummaries {
    types: Vec<ColumnType>,
    columns: Vec<(ColumnId, ColumnType)>,
    sources: Sources,
    merge: Merge,
    memos: Vec<PageMemo>,
}

impl TableView {
    /// The containers with rows that match a request, in key order, with the totals of `columns`
    /// (indexes into the table). The request's own columns and limit are ignored.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{ColumnType, Database, ScanRequest, Settings, TableDefinition, Unit, Value};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let reads = TableDefinition::new("reads").key("meter", ColumnType::Int64).time("ts", Unit::Second);
    /// db.create_table(&reads).unwrap();
    /// let meter = db.container("reads", &[Value::Int(7)]).unwrap();
    /// (0..10).for_each(|time| { meter.append(time, &[]).unwrap(); });
    /// let view = db.view();
    /// let mut found = view.table("reads").unwrap().containers(&ScanRequest::all().from_time(5), &[]).unwrap();
    /// let found = found.next().unwrap().unwrap();
    /// assert_eq!((found.key, found.rows, found.times), (vec![Value::Int(7)], 5, (5, 9)));
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if a column is not numeric or is part of the
    /// key; otherwise see [`scan`](Self::scan).
    pub fn containers(&self, request: &ScanRequest, columns: &[usize]) -> Result<ContainerSummaries> {
        self.summaries(self.bounds(request)?, columns)
    }

    /// The containers with rows that match a request, in key order, with their last times. The number
    /// of rows and the first time are those of some of the rows only: older ones need not be looked at.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{ColumnType, Database, ScanRequest, Settings, TableDefinition, Unit, Value};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let reads = TableDefinition::new("reads").key("meter", ColumnType::Int64).time("ts", Unit::Second);
    /// db.create_table(&reads).unwrap();
    /// let meter = db.container("reads", &[Value::Int(7)]).unwrap();
    /// (0..10).for_each(|time| { meter.append(time, &[]).unwrap(); });
    /// let view = db.view();
    /// let mut found = view.table("reads").unwrap().last_times(&ScanRequest::all().to_time(5)).unwrap();
    /// assert_eq!(found.next().unwrap().unwrap().times.1, 5);
    /// ```
    ///
    /// # Errors
    /// See [`scan`](Self::scan).
    pub fn last_times(&self, request: &ScanRequest) -> Result<ContainerSummaries> {
        self.summaries(ScanBounds { newest: Some(1), ..self.bounds(request)? }, &[])
    }

    fn summaries(&self, bounds: ScanBounds, columns: &[usize]) -> Result<ContainerSummaries> {
        let numeric = self.numeric_columns(columns)?;
        let sources = self.sources(&bounds, columns.len())?;
        Ok(ContainerSummaries {
            columns: numeric,
            types: self.schema.key_types(),
            merge: Merge::new(&sources.list, bounds),
            memos: PageMemo::of_each(&sources.list),
            sources,
        })
    }

    /// The columns at these indexes, whose values can be summed.
    pub(super) fn numeric_columns(&self, columns: &[usize]) -> Result<Vec<(ColumnId, ColumnType)>> {
        let numeric = |&place: &usize| match self.schema.columns.get(place) {
            Some(column) if column.role == Role::Field && column.column_type.is_numeric() => {
                Ok((column.id, column.column_type))
            }
            Some(column) => Err(Error::invalid(format!(
                "column '{}' of type {} cannot be summed: choose a numeric column outside the key",
                column.name, column.column_type
            ))),
            None => Err(Error::invalid(format!("table '{}' has no column {place}", self.schema.name))),
        };
        columns.iter().map(numeric).collect()
    }
}

impl ContainerSummaries {
    fn next_container(&mut self) -> Result<Option<ContainerSummary>> {
        while let Some(runs) = self.merge.next()? {
            let Self { sources, memos, merge, columns, types, .. } = self;
            let sources: &[Source] = &sources.list;
            let parts = merge::parts(sources, &runs, &merge.bounds, memos)?;
            let picks = merge::picks_of(sources, &parts, merge.bounds.merges_fields, memos)?;
            let Some((_, run)) = runs.first().filter(|_| !picks.is_empty()) else { continue };
            let key = key_values(&key::decode(&run.key, types)?, types);
            let first = parts.iter().map(|part| part.times.0).min().unwrap_or_default();
            let last = parts.iter().map(|part| part.times.1).max().unwrap_or_default();
            let amounts = columns.iter().map(|&column| {
                let amounts = amounts_of(sources, &runs, &picks, (column.0, column.1, true), memos)?;
                Ok(totals(&amounts, column.1, true))
            });
            let amounts = amounts.collect::<Result<Vec<_>>>()?;
            let rows = picks.iter().map(|pick| pick.rows as u64).sum();
            return Ok(Some(ContainerSummary { key, bucket: None, rows, times: (first, last), amounts }));
        }
        Ok(None)
    }
}

impl Iterator for ContainerSummaries {
    type Item = Result<ContainerSummary>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_container().transpose()
    }
}

/// The totals of a column's values in rows of a container: from the index, if it has them. `runs`
/// are the container's.
pub(super) fn amounts_of(
    sources: &[Source],
    runs: &[(usize, Run)],
    picks: &[RowSpan],
    (column, column_type, extremes): (ColumnId, ColumnType, bool),
    memos: &mut [PageMemo],
) -> Result<Amounts> {
    let mut amounts = Amounts::none(column_type);
    for pick in merge::picks_with(sources, picks, column, memos)?.iter() {
        let (source, memo) = (&sources[pick.source], &mut memos[pick.source]);
        match merge::whole_run(runs, pick).and_then(|run| source.known_amounts(run, (column, column_type))) {
            Some(known) => amounts.merge(&known, column_type),
            None => source.add_up((column, column_type, extremes), pick.start, pick.rows, memo, &mut amounts)?,
        }
    }
    Ok(amounts)
}

/// The values of a key.
pub(super) fn key_values(key: &[KeyValue], types: &[ColumnType]) -> Vec<Value> {
    key.iter().zip(types).map(|(value, column_type)| Value::of_key(value, *column_type)).collect()
}

/// The totals for the user; without `extremes`, the minimum and maximum are NULL.
pub(super) fn totals(amounts: &Amounts, column_type: ColumnType, extremes: bool) -> ColumnTotals {
    let sum = match (amounts.sum, column_type) {
        (Sum::Float(sum), _) => ColumnSum::Float(sum),
        (Sum::Integer(unscaled), ColumnType::Decimal { scale, .. }) => ColumnSum::Decimal { unscaled, scale },
        (Sum::Integer(sum), _) => ColumnSum::Integer(sum),
    };
    if amounts.count == 0 || !extremes {
        return ColumnTotals { count: amounts.count, min: Value::Null, max: Value::Null, sum };
    }
    let number = |raw: u64| Value::of_raw(raw, column_type);
    ColumnTotals { count: amounts.count, min: number(amounts.least), max: number(amounts.most), sum }
}
