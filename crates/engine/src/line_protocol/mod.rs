//! InfluxDB line protocol as rows.
//!
//! `measurement[,tag=value]* field=value[,field=value]* [timestamp]`, one line a point. A measurement is a
//! table; tags are its key columns, then comes the time (`time`), fields are the other columns. Backslash
//! escapes comma, blank and equals sign in names and tag values; text fields stand in double quotes, where
//! backslash escapes a quote and itself. (InfluxDB v1 line protocol reference.)
//!
//! 1. A [`LineParser`] takes lines and gathers columns per table. A line that is wrong is refused with
//!    its column, and leaves nothing behind.
//! 2. [`LineParser::commit`] creates tables and columns that are missing, then writes everything as
//!    one batch.

mod line;

pub use line::LineError;

use crate::db::{Acknowledged, Database};
use crate::error::{Error, Result};
use crate::schema::{ColumnDefinition, ColumnType, Role, TableDefinition, TableSchema, Unit};
use crate::settings::Durability;
use crate::write::batch::Batch;
use arrow::array::{
    ArrayBuilder, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringBuilder,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow::datatypes::{Field as ArrowField, Schema};
use line::{FieldValue, Line, Part, parse_line};
use std::sync::Arc;

/// The name of the time column in tables made from line protocol.
pub const TIME_COLUMN: &str = "time";

enum Values {
    Float(Vec<Option<f64>>),
    Int(Vec<Option<i64>>),
    UInt(Vec<Option<u64>>),
    Boolean(Vec<Option<bool>>),
    Text(StringBuilder),
}

impl Values {
    fn new(column_type: ColumnType, rows: usize) -> Option<Self> {
        Some(match column_type {
            ColumnType::Float64 => Self::Float(vec![None; rows]),
            ColumnType::Int64 => Self::Int(vec![None; rows]),
            ColumnType::UInt64 => Self::UInt(vec![None; rows]),
            ColumnType::Boolean => Self::Boolean(vec![None; rows]),
            ColumnType::Utf8 => {
                let mut texts = StringBuilder::new();
                texts.append_nulls(rows);
                Self::Text(texts)
            }
            _ => return None,
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::Float(v) => v.len(),
            Self::Int(v) => v.len(),
            Self::UInt(v) => v.len(),
            Self::Boolean(v) => v.len(),
            Self::Text(v) => v.len(),
        }
    }

    fn push_null(&mut self) {
        match self {
            Self::Float(v) => v.push(None),
            Self::Int(v) => v.push(None),
            Self::UInt(v) => v.push(None),
            Self::Boolean(v) => v.push(None),
            Self::Text(v) => v.append_null(),
        }
    }

    fn takes(&self, value: &FieldValue<'_>) -> bool {
        matches!(
            (self, value),
            (Self::Float(_), FieldValue::Float(_) | FieldValue::Int(_) | FieldValue::UInt(_))
                | (Self::Int(_), FieldValue::Int(_))
                | (Self::UInt(_), FieldValue::UInt(_))
                | (Self::Boolean(_), FieldValue::Boolean(_))
                | (Self::Text(_), FieldValue::Text(_))
        )
    }

    fn push(&mut self, value: FieldValue<'_>) {
        match (self, value) {
            (Self::Float(v), FieldValue::Float(value)) => v.push(Some(value)),
            (Self::Float(v), FieldValue::Int(value)) => v.push(Some(value as f64)),
            (Self::Float(v), FieldValue::UInt(value)) => v.push(Some(value as f64)),
            (Self::Int(v), FieldValue::Int(value)) => v.push(Some(value)),
            (Self::UInt(v), FieldValue::UInt(value)) => v.push(Some(value)),
            (Self::Boolean(v), FieldValue::Boolean(value)) => v.push(Some(value)),
            (Self::Text(v), FieldValue::Text(value)) => v.append_value(value),
            // `takes` was asked first.
            (values, _) => values.push_null(),
        }
    }

    fn into_array(self) -> ArrayRef {
        match self {
            Self::Float(v) => Arc::new(Float64Array::from(v)),
            Self::Int(v) => Arc::new(Int64Array::from(v)),
            Self::UInt(v) => Arc::new(UInt64Array::from(v)),
            Self::Boolean(v) => Arc::new(BooleanArray::from(v)),
            Self::Text(mut v) => Arc::new(v.finish()),
        }
    }
}

struct GatheredColumn {
    name: String,
    role: Role,
    column_type: ColumnType,
    /// Whether the table has the column already.
    exists: bool,
    values: Values,
}

struct GatheredTable {
    name: String,
    exists: bool,
    time_name: String,
    unit: Unit,
    columns: Vec<GatheredColumn>,
    times: Vec<i64>,
}

/// Parses lines and gathers their rows; see the module's head.
///
/// ```
/// use fleetdb_engine::{Database, LineParser, Settings, Unit, io::{Io, MemoryStorage}};
/// let db = Database::open(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let mut lines = LineParser::new(&db, Unit::Nanosecond, 0);
/// lines.parse("cpu,host=a usage=3i 1000").unwrap();
/// assert_eq!(lines.parse("cpu,host=a usage=x").unwrap_err().column, 18);
/// lines.commit(fleetdb_engine::Durability::Sync).unwrap();
/// assert_eq!(db.view().table("cpu").unwrap().count().unwrap(), 1);
/// ```
pub struct LineParser<'a> {
    db: &'a Database,
    precision: Unit,
    now_ns: i64,
    tables: Vec<GatheredTable>,
    rows: usize,
}

impl<'a> LineParser<'a> {
    /// A parser without lines. Timestamps are in `precision`; lines without one get `now_ns`.
    pub fn new(db: &'a Database, precision: Unit, now_ns: i64) -> Self {
        Self { db, precision, now_ns, tables: Vec::new(), rows: 0 }
    }

    /// How many rows are gathered.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a line. A blank line or a comment (`#`) adds nothing.
    ///
    /// # Errors
    /// The line is wrong or does not fit its table; then it adds nothing.
    pub fn parse(&mut self, text: &str) -> std::result::Result<(), LineError> {
        let trimmed = text.trim_end_matches(['\r', '\n', ' ', '\t']);
        if trimmed.is_empty() || trimmed.starts_with('#') {
            return Ok(());
        }
        let line = parse_line(trimmed)?;
        let place = match self.tables.iter().position(|table| table.name == line.measurement) {
            Some(place) => place,
            None => {
                let schema = self.db.table(&line.measurement).ok();
                if schema.is_none() {
                    self.check_new_table(&line.measurement)?;
                }
                self.tables.push(gathered(&line.measurement, schema.as_deref())?);
                self.tables.len() - 1
            }
        };
        let time_ns = i128::from(line.time.unwrap_or(self.now_ns));
        let per_second = if line.time.is_some() { self.precision.per_second() } else { 1_000_000_000 };
        let table = &mut self.tables[place];
        let scaled = time_ns * i128::from(table.unit.per_second());
        let time = i64::try_from(scaled.div_euclid(i128::from(per_second))).map_err(|_| LineError {
            column: trimmed.len(),
            reason: "the timestamp is outside the range of the table's time column".to_owned(),
        })?;
        add(table, line, self.db.settings().max_columns)?;
        table.times.push(time);
        self.rows += 1;
        Ok(())
    }

    /// Refuses a line whose table would be one too many.
    fn check_new_table(&self, name: &str) -> std::result::Result<(), LineError> {
        let new = self.tables.iter().filter(|table| !table.exists).count();
        let most = self.db.settings().max_tables;
        if self.db.table_count() + new < most {
            return Ok(());
        }
        let reason = format!(
            "there is no table '{name}', and no room for another: the most is {most} (setting max_tables); devices are \
             told apart by tags, not by measurements"
        );
        Err(LineError { column: 1, reason })
    }

    /// Creates tables and columns that are missing, and gives all gathered rows as one batch.
    ///
    /// # Errors
    /// As [`Database::create_table`] and [`Database::add_column`].
    pub fn into_batch(self) -> Result<Batch> {
        let mut batch = Batch::new();
        for table in self.tables.into_iter().filter(|table| !table.times.is_empty()) {
            create_missing(self.db, &table)?;
            batch = batch.with(&table.name.clone(), into_batch(table)?);
        }
        Ok(batch)
    }

    /// Creates what is missing and writes all gathered rows as one batch.
    ///
    /// # Errors
    /// As [`into_batch`](Self::into_batch) and [`Database::commit_with`]; then no row is written.
    pub fn commit(self, durability: Durability) -> Result<Acknowledged> {
        let db = self.db;
        db.commit_with(self.into_batch()?, durability)
    }
}

fn gathered(measurement: &str, schema: Option<&TableSchema>) -> std::result::Result<GatheredTable, LineError> {
    let wrong = |reason: String| LineError { column: 1, reason };
    let Some(schema) = schema else {
        return Ok(GatheredTable {
            name: measurement.to_owned(),
            exists: false,
            time_name: TIME_COLUMN.to_owned(),
            unit: Unit::Nanosecond,
            columns: Vec::new(),
            times: Vec::new(),
        });
    };
    let (Some(time), Some(unit)) = (schema.time, schema.time_unit()) else {
        return Err(wrong(format!("table '{measurement}' is a collection: line protocol needs a time column")));
    };
    let mut columns = Vec::new();
    for column in schema.columns.iter().filter(|column| column.role != Role::Time) {
        let Some(values) = Values::new(column.column_type, 0) else { continue };
        columns.push(GatheredColumn {
            name: column.name.clone(),
            role: column.role,
            column_type: column.column_type,
            exists: true,
            values,
        });
    }
    let time_name = schema.columns[time].name.clone();
    Ok(GatheredTable { name: measurement.to_owned(), exists: true, time_name, unit, columns, times: Vec::new() })
}

/// Adds a line's values to its table's columns: first every check, then every change.
fn add(table: &mut GatheredTable, line: Line<'_>, max_columns: usize) -> std::result::Result<(), LineError> {
    let rows = table.times.len();
    let mut places: Vec<Option<usize>> = Vec::with_capacity(line.parts.len());
    // Lines name their columns in one order, mostly the table's: then each name is found at once and stands there once.
    let (mut guess, mut highest, mut new) = (0, None, 0);
    for (number, Part { name, value, at, role }) in line.parts.iter().enumerate() {
        let wrong = |reason: String| LineError { column: *at, reason };
        let found = match table.columns.get(guess) {
            Some(column) if column.name == *name => Some(guess),
            _ => table.columns.iter().position(|column| column.name == *name),
        };
        let is_repeated = match found {
            None if *name == table.time_name => return Err(wrong(format!("'{name}' is the name of the time column"))),
            None => line.parts[..number].iter().any(|other| other.name == *name),
            Some(_) => found <= highest && places.contains(&found),
        };
        if is_repeated {
            return Err(wrong(format!("'{name}' stands twice in the line")));
        }
        highest = highest.max(found);
        if let Some(place) = found {
            let column = &table.columns[place];
            if column.role != *role {
                let (is, was) = if *role == Role::Key { ("tag", "field") } else { ("field", "tag") };
                return Err(wrong(format!("'{name}' is a {is} here and a {was} in table '{}'", table.name)));
            }
            if !column.values.takes(value) {
                return Err(wrong(format!(
                    "field '{name}' is {} here and the column holds {}",
                    value.column_type(),
                    column.column_type
                )));
            }
            guess = place + 1;
        } else {
            new += 1;
            // With the time's.
            let columns = table.columns.len() + new + 1;
            if columns > max_columns {
                return Err(wrong(format!(
                    "there is no column '{name}', and no room for another: table '{}' has {}, the most is {max_columns} \
                     (setting max_columns); what varies without end is a value, not a name",
                    table.name,
                    columns - 1
                )));
            }
        }
        places.push(found);
    }
    for (found, Part { name, value, role, .. }) in places.into_iter().zip(line.parts) {
        let place = match found {
            Some(place) => place,
            None => {
                let column_type = value.column_type();
                // A value's own type always has values.
                let Some(values) = Values::new(column_type, rows) else { continue };
                table.columns.push(GatheredColumn {
                    name: name.into_owned(),
                    role,
                    column_type,
                    exists: false,
                    values,
                });
                table.columns.len() - 1
            }
        };
        table.columns[place].values.push(value);
    }
    for column in table.columns.iter_mut().filter(|column| column.values.len() == rows) {
        column.values.push_null();
    }
    Ok(())
}

/// Creates what a table lacks. Somebody else may create the same at the same time: then it is there.
fn create_missing(db: &Database, table: &GatheredTable) -> Result<()> {
    if !table.exists {
        let mut definition = TableDefinition::new(&table.name);
        for column in table.columns.iter().filter(|column| column.role == Role::Key) {
            definition = definition.key(&column.name, ColumnType::Utf8);
        }
        definition = definition.time(&table.time_name, table.unit);
        for column in table.columns.iter().filter(|column| column.role == Role::Field) {
            definition = definition.field(&column.name, column.column_type);
        }
        let created = db.create_table(&definition);
        if created.is_ok() || db.table(&table.name).is_err() {
            return created.map(|_| ());
        }
    }
    for column in table.columns.iter().filter(|column| !column.exists) {
        let is_there = || {
            let schema = db.table(&table.name).ok();
            let found =
                schema.as_ref().and_then(|schema| schema.columns.iter().find(|there| there.name == column.name));
            found.is_some_and(|there| (there.role, there.column_type) == (column.role, column.column_type))
        };
        if is_there() {
            continue;
        }
        let definition =
            ColumnDefinition { name: column.name.clone(), column_type: column.column_type, nullable: true };
        let added = db.add_column(&table.name, &definition, column.role);
        if added.is_err() && !is_there() {
            return added.map(|_| ());
        }
    }
    Ok(())
}

fn into_batch(table: GatheredTable) -> Result<RecordBatch> {
    let times: ArrayRef = match table.unit {
        Unit::Second => Arc::new(TimestampSecondArray::from(table.times)),
        Unit::Millisecond => Arc::new(TimestampMillisecondArray::from(table.times)),
        Unit::Microsecond => Arc::new(TimestampMicrosecondArray::from(table.times)),
        Unit::Nanosecond => Arc::new(TimestampNanosecondArray::from(table.times)),
    };
    let mut fields = vec![ArrowField::new(&table.time_name, times.data_type().clone(), false)];
    let mut arrays = vec![times];
    for column in table.columns {
        let array = column.values.into_array();
        fields.push(ArrowField::new(&column.name, array.data_type().clone(), true));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|e| Error::bug(format!("gathered lines do not make a batch: {e}")))
}

#[cfg(test)]
#[path = "line_protocol_tests.rs"]
mod tests;
