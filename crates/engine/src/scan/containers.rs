//! The containers of a table: which there are, how many rows each has, and what its columns amount to.
//!
//! A part of a segment that is wanted whole is not read: the container index has its amounts. Of the rows only those are
//! read where a bound cuts, and the times where sources overlap.

use super::merge::{self, Merge};
use super::source::{Memo, Run, Source};
use super::wanted::Wanted;
use super::{ScanRequest, Sources, TableView};
use crate::error::{Error, Result};
use crate::ids::ColumnId;
use crate::key;
use crate::schema::{ColumnType, Role};
use crate::segment::index::{Amounts, Sum};
use crate::write::batch::Value;

/// A container, and what it holds of what was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerRows {
    /// The key columns' values, in key order.
    pub key: Vec<Value>,
    /// How many rows.
    pub rows: u64,
    /// The first and the last time; 0 in a collection.
    pub times: (i64, i64),
    /// What the columns that were asked for amount to, in their order.
    pub amounts: Vec<Amount>,
}

/// What a numeric column's values amount to.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    /// Values that are not NULL.
    pub count: u64,
    /// The least value; `Null` if there is no value.
    pub min: Value,
    /// The largest value; NaN counts as larger than any number.
    pub max: Value,
    /// The sum; 0 if there is no value.
    pub sum: Total,
}

impl Amount {
    /// Adds what other values amount to.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        if is_below(&other.min, &self.min) {
            self.min = other.min.clone();
        }
        if self.max == Value::Null || other.max != Value::Null && is_below(&self.max, &other.max) {
            self.max = other.max.clone();
        }
        match (&mut self.sum, other.sum) {
            (Total::Integer(sum), Total::Integer(other)) => *sum += other,
            (Total::Float(sum), Total::Float(other)) => *sum += other,
            // Of one column both are the same.
            _ => {}
        }
    }
}

/// The order of numbers of one column; NULL is not below anything, and everything is below it.
fn is_below(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, _) => false,
        (_, Value::Null) => true,
        (Value::Int(a), Value::Int(b)) => a < b,
        (Value::UInt(a), Value::UInt(b)) => a < b,
        (Value::Float(a), Value::Float(b)) => a.total_cmp(b).is_lt(),
        _ => false,
    }
}

/// A sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Total {
    /// Of integers, exact.
    Integer(i128),
    /// Of floats, in no particular order.
    Float(f64),
}

/// Yields containers in key order.
pub struct Containers {
    types: Vec<ColumnType>,
    columns: Vec<(ColumnId, ColumnType)>,
    sources: Sources,
    merge: Merge,
    wanted: Wanted,
    memos: Vec<Memo>,
}

impl TableView {
    /// The containers that hold rows a request asks for, in key order, with what these columns (their places in the
    /// table) amount to. The request's own columns and limit play no part.
    ///
    /// ```
    /// use fleetdb_engine::{ColumnType, Database, ScanRequest, Settings, TableDefinition, Unit, Value, io::{Io, MemoryStorage}};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// db.create_table(&TableDefinition::new("reads").key("meter", ColumnType::Int64).time("ts", Unit::Second)).unwrap();
    /// let meter = db.container("reads", &[Value::Int(7)]).unwrap();
    /// (0..10).for_each(|time| { meter.append(time, &[]).unwrap(); });
    /// let view = db.view();
    /// let found = view.table("reads").unwrap().containers(&ScanRequest::all().from_time(5), &[]).unwrap().next().unwrap().unwrap();
    /// assert_eq!((found.key, found.rows, found.times), (vec![Value::Int(7)], 5, (5, 9)));
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if a column is not numeric or part of the key; else see
    /// [`scan`](Self::scan).
    pub fn containers(&self, request: &ScanRequest, columns: &[usize]) -> Result<Containers> {
        let wanted = self.wanted(request)?;
        let mut numeric = Vec::with_capacity(columns.len());
        for &place in columns {
            match self.schema.columns.get(place) {
                Some(column) if column.role == Role::Field && column.column_type.is_numeric() => {
                    numeric.push((column.id, column.column_type));
                }
                Some(column) => {
                    return Err(Error::input(format!(
                        "column '{}' of type {} cannot be added up: name a numeric column outside the key",
                        column.name, column.column_type
                    )));
                }
                None => return Err(Error::input(format!("table '{}' has no column {place}", self.schema.name))),
            }
        }
        let sources = self.sources(&wanted, columns.len())?;
        Ok(Containers {
            columns: numeric,
            types: self.schema.key_types(),
            merge: Merge::new(&sources.list, wanted.clone()),
            memos: sources.list.iter().map(|_| Memo::default()).collect(),
            sources,
            wanted,
        })
    }
}

impl Containers {
    fn next_container(&mut self) -> Result<Option<ContainerRows>> {
        while let Some(runs) = self.merge.next()? {
            let Self { sources, memos, wanted, columns, types, .. } = self;
            let sources: &[Source] = &sources.list;
            let parts = merge::parts(sources, &runs, wanted, memos)?;
            let picks = merge::picks_of(sources, &parts, wanted.merges_fields, memos)?;
            let Some((_, run)) = runs.first().filter(|_| !picks.is_empty()) else { continue };
            let values = key::decode(&run.key, types)?;
            let key = values.iter().zip(types.iter()).map(|(value, column_type)| Value::of_key(value, *column_type));
            let first = parts.iter().map(|part| part.times.0).min().unwrap_or_default();
            let last = parts.iter().map(|part| part.times.1).max().unwrap_or_default();
            let mut amounts = Vec::with_capacity(columns.len());
            for &column in columns.iter() {
                let mut total = Amounts::none(column.1);
                for pick in merge::picks_with(sources, &picks, column.0, memos)?.iter() {
                    let whole = |(source, run): &&(usize, Run)| {
                        (*source, run.start, run.rows) == (pick.source, pick.start, pick.rows)
                    };
                    let known =
                        runs.iter().find(whole).and_then(|(_, run)| sources[pick.source].known_amounts(run, column));
                    match known {
                        Some(known) => total.merge(&known, column.1),
                        None => sources[pick.source].add_up(
                            column,
                            pick.start,
                            pick.rows,
                            &mut memos[pick.source],
                            &mut total,
                        )?,
                    }
                }
                amounts.push(amount(&total, column.1));
            }
            let rows = picks.iter().map(|pick| pick.rows as u64).sum();
            return Ok(Some(ContainerRows { key: key.collect(), rows, times: (first, last), amounts }));
        }
        Ok(None)
    }
}

impl Iterator for Containers {
    type Item = Result<ContainerRows>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_container().transpose()
    }
}

fn amount(amounts: &Amounts, column_type: ColumnType) -> Amount {
    let sum = match amounts.sum {
        Sum::Float(sum) => Total::Float(sum),
        Sum::Integer(sum) => Total::Integer(sum),
    };
    if amounts.count == 0 {
        return Amount { count: 0, min: Value::Null, max: Value::Null, sum };
    }
    let number = |raw: u64| Value::of_raw(raw, column_type);
    Amount { count: amounts.count, min: number(amounts.least), max: number(amounts.most), sum }
}
