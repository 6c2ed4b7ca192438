//! A user's own rows, converted to the form that experiments take.

use crate::Outcome;
use crate::query::Key;
use crate::table::{Column, ColumnType, Table};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, TimestampNanosecondArray, UInt64Array, new_null_array};
use arrow::compute::{cast, filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, Int64Type, TimestampNanosecondType};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows per transaction.
const BATCH_ROWS: usize = 1_000;
/// Times are rounded to microseconds, since half of the databases store no more.
const MICROSECOND_NS: i64 = 1_000;
/// Names reserved by some database; they get a trailing `_`.
const RESERVED: [&str; 32] = [
    "asc",
    "at",
    "by",
    "check",
    "column",
    "condition",
    "desc",
    "end",
    "from",
    "group",
    "index",
    "interval",
    "key",
    "limit",
    "of",
    "order",
    "range",
    "rank",
    "read",
    "row",
    "rows",
    "select",
    "start",
    "system",
    "table",
    "time",
    "timestamp",
    "to",
    "user",
    "value",
    "values",
    "where",
];

/// Assigns roles to the columns of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    /// The column that identifies a row's series, such as a device.
    pub key: String,
    /// The column with the time.
    pub time: String,
    /// The unit of an integer time: s, ms, us or ns.
    pub time_unit: Option<Unit>,
    /// The other columns to use; by default all columns of the file.
    pub columns: Option<Vec<String>>,
    /// For line protocol, the measurement to read.
    pub measurement: Option<String>,
}

/// The unit of an integer time since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Unit {
    S,
    Ms,
    Us,
    Ns,
}

/// A user's table with its rows.
pub struct Own {
    /// The table: a key, a time, and the other columns.
    pub table: Arc<Table>,
    /// The rows in file order, with no duplicates within a batch.
    pub batches: Vec<RecordBatch>,
    /// Number of rows left out because they lack a key or a time.
    pub left_out: usize,
}

impl Own {
    /// Converts rows according to a mapping.
    ///
    /// # Errors
    /// A column is missing or has a type that not every database supports, or there are no rows.
    pub fn new(mapping: &Mapping, batches: &[RecordBatch]) -> Outcome<Self> {
        let schema = batches.first().ok_or("there are no rows")?.schema();
        let all = schema.fields().iter().map(|field| field.name().clone());
        let is_field = |name: &String| *name != mapping.key && *name != mapping.time;
        let mut fields: Vec<String> =
            mapping.columns.clone().unwrap_or_else(|| all.collect()).into_iter().filter(is_field).collect();
        // Columns without NULLs come first, because InfluxDB counts the values of a field, not
        // rows.
        fields.sort_by_key(|field| batches.iter().any(|rows| column(rows, field).logical_null_count() > 0));
        if fields.is_empty() {
            return Err("there are no columns other than the key and the time".into());
        }
        let kind = |name: &str| {
            let field = schema.field_with_name(name).map_err(|_| {
                let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                format!("column {name:?} does not exist; the columns are {}", names.join(", "))
            })?;
            column_type(field.data_type()).ok_or_else(|| {
                format!(
                    "column {name:?} is {}, a type that not every database supports; omit it from `columns`",
                    field.data_type()
                )
            })
        };
        let key = (name(&mapping.key), kind(&mapping.key)?);
        if !matches!(key.1, ColumnType::Int | ColumnType::Text) {
            return Err(format!("the key {:?} is neither an integer nor text", mapping.key).into());
        }
        let mut columns: Vec<Column> = vec![key, ("ts", ColumnType::Time)];
        for field in &fields {
            columns.push((name(field), kind(field)?));
        }
        let key: &'static [&'static str] = Vec::leak(vec![columns[0].0, "ts"]);
        let mut own = Self { table: Arc::new(Table { name: "own", columns, key }), batches: Vec::new(), left_out: 0 };
        for batch in batches {
            for first in (0..batch.num_rows()).step_by(BATCH_ROWS) {
                let rows = batch.slice(first, BATCH_ROWS.min(batch.num_rows() - first));
                own.add(mapping, &fields, &rows)?;
            }
        }
        Ok(own)
    }

    fn add(&mut self, mapping: &Mapping, fields: &[String], rows: &RecordBatch) -> Outcome<()> {
        let mut columns: Vec<ArrayRef> = vec![column(rows, &mapping.key), times(rows, mapping)?];
        columns.extend(fields.iter().map(|field| column(rows, field)));
        let columns: Vec<ArrayRef> = columns
            .iter()
            .zip(&self.table.columns)
            .map(|(column, (_, kind))| cast(column, &kind.data_type()))
            .collect::<Result<_, _>>()?;
        let rows = RecordBatch::try_new(self.table.schema(), columns)?;
        let is_whole = (0..rows.num_rows()).map(|row| Some(rows.columns()[..2].iter().all(|key| key.is_valid(row))));
        let whole = filter_record_batch(&rows, &is_whole.collect())?;
        self.left_out += rows.num_rows() - whole.num_rows();
        // Keep only the last row of each key and time, because a PostgreSQL statement cannot write
        // a row twice.
        let mut last = BTreeMap::new();
        for row in 0..whole.num_rows() {
            last.insert(Self::key(&whole, row), row as u64);
        }
        let mut last: Vec<u64> = last.into_values().collect();
        last.sort_unstable();
        if !last.is_empty() {
            self.batches.push(take_record_batch(&whole, &UInt64Array::from(last))?);
        }
        Ok(())
    }

    /// The key and the time of a row.
    pub(crate) fn key(rows: &RecordBatch, row: usize) -> (Key, i64) {
        let time = rows.column(1).as_primitive::<TimestampNanosecondType>().value(row);
        let key = match rows.column(0).as_string_opt::<i32>() {
            Some(names) => Key::Text(names.value(row).to_owned()),
            None => Key::Int(rows.column(0).as_primitive::<Int64Type>().value(row)),
        };
        (key, time)
    }
}

/// Converts a name to a form that every database accepts: lower-case letters, digits and `_`. The
/// result is leaked.
fn name(name: &str) -> &'static str {
    let mut plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    if RESERVED.contains(&plain.as_str()) || plain == "ts" {
        plain.push('_');
    }
    if !plain.starts_with(|c: char| c.is_ascii_lowercase()) {
        plain.insert(0, 'c');
    }
    plain.leak()
}

fn column_type(data_type: &DataType) -> Option<ColumnType> {
    Some(match data_type {
        DataType::Boolean => ColumnType::Int,
        other if other.is_integer() => ColumnType::Int,
        other if other.is_floating() => ColumnType::Float,
        DataType::Decimal128(..) => ColumnType::Float,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::Text,
        DataType::Dictionary(_, value) if **value == DataType::Utf8 => ColumnType::Text,
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => ColumnType::Time,
        _ => return None,
    })
}

/// A column, or NULLs if the batch lacks it, as batches of line protocol may.
fn column(rows: &RecordBatch, name: &str) -> ArrayRef {
    rows.column_by_name(name).map_or_else(|| new_null_array(&DataType::Null, rows.num_rows()), Arc::clone)
}

/// The times, rounded down to whole microseconds.
fn times(rows: &RecordBatch, mapping: &Mapping) -> Outcome<ArrayRef> {
    let given = column(rows, &mapping.time);
    let ns = |given: &ArrayRef, factor: i64| -> Outcome<ArrayRef> {
        let given = cast(given, &DataType::Int64)?;
        let times = given.as_primitive::<Int64Type>().iter().map(|time| {
            let ns = time?.checked_mul(factor)?;
            Some(ns.div_euclid(MICROSECOND_NS) * MICROSECOND_NS)
        });
        Ok(Arc::new(times.collect::<TimestampNanosecondArray>()))
    };
    match (given.data_type(), mapping.time_unit) {
        (DataType::Null, _) => Err(format!("column {:?} does not exist", mapping.time).into()),
        (DataType::Timestamp(..) | DataType::Date32 | DataType::Date64, _) => {
            ns(&cast(&given, &ColumnType::Time.data_type())?, 1)
        }
        (other, Some(unit)) if other.is_integer() => ns(
            &given,
            match unit {
                Unit::S => 1_000_000_000,
                Unit::Ms => 1_000_000,
                Unit::Us => 1_000,
                Unit::Ns => 1,
            },
        ),
        (other, None) if other.is_integer() => {
            Err(format!("column {:?} contains integers: set time_unit", mapping.time).into())
        }
        (other, _) => Err(format!("column {:?} is {other}, not timestamps", mapping.time).into()),
    }
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
