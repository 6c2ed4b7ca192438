//! Parses InfluxDB line protocol into rows.
//!
//! `measurement[,tag=value]* field=value[,field=value]* [timestamp]`, one line per point. A
//! measurement is a table. Tags are its key columns, followed by the time (`time`); fields are its
//! other columns. In names and tag values a backslash escapes comma, space and equals sign. Text
//! fields are in double quotes, where a backslash escapes a quote and itself. (InfluxDB v1 line
//! protocol reference.)
//!
//! 0. [`LineSplitter`] finds lines in bytes.
//! 1. A [`LineParser`] receives lines and gathers columns per table. An invalid line is refused
//!    with its column and has no effect. Everything that admission would refuse about one line is
//!    refused here.
//! 2. [`LineParser::commit`] creates missing tables and columns, then writes everything as one
//!    batch.

mod ends;
mod line;
mod precision;
mod values;

pub use ends::{BodyLine, LineSplitter, body_lines};
pub use line::LineError;
pub use precision::Precision;

use crate::column_type::{ColumnType, Unit};
use crate::commit::Acknowledged;
use crate::db::Database;
use crate::error::{Error, Result};
use crate::key::{self, KeyPart};
use crate::memory::MemoryReservation;
use crate::schema::{ColumnDefinition, Merge, Role, TableDefinition, TableSchema, check_name};
use crate::settings::Durability;
use crate::write::admit::MAX_KEY_BYTES;
use crate::write::batch::Batch;
use crate::write::value::MAX_VALUE_BYTES;
use arrow::array::{
    ArrayRef, RecordBatch, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray,
};
use arrow::datatypes::{Field as ArrowField, Schema};
use line::{FieldValue, Line, Part, is_blank, parse_line};
use std::sync::Arc;
use values::Values;

/// The memory that a gathered value takes at most, except the bytes of a text: a vector that grows
/// has room for as many values again.
const VALUE_BYTES: usize = 2 * size_of::<Option<i64>>();

/// The name of the time column in tables created by line protocol.
pub const TIME_COLUMN: &str = "time";

struct GatheredColumn {
    name: String,
    role: Role,
    column_type: ColumnType,
    /// Whether the table already has the column.
    exists: bool,
    /// Whether every line must have a value for it.
    is_required: bool,
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

/// Parses lines and gathers their rows; see the module documentation.
///
/// ```
/// use fleetdb_engine::{Database, LineParser, Settings, Unit, io::{Io, MemoryStorage}};
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let mut lines = LineParser::new(&db, Unit::Nanosecond, 0);
/// lines.parse("cpu,host=a usage=3i 1000").unwrap();
/// assert_eq!(lines.parse("cpu,host=a usage=x").unwrap_err().column, 18);
/// lines.commit(fleetdb_engine::Durability::Sync).unwrap();
/// assert_eq!(db.view().table("cpu").unwrap().count().unwrap(), 1);
/// ```
pub struct LineParser<'a> {
    db: &'a Database,
    precision: Precision,
    now_ns: i64,
    tables: Vec<GatheredTable>,
    rows: usize,
    /// The memory of the gathered rows.
    bytes: usize,
    memory: MemoryReservation,
    /// The error of memory that could not be reserved. No row is gathered any more.
    exhausted: Option<Error>,
}

impl<'a> LineParser<'a> {
    /// A parser without lines. Timestamps are in `precision`; lines without a timestamp get
    /// `now_ns`.
    pub fn new(db: &'a Database, precision: impl Into<Precision>, now_ns: i64) -> Self {
        let (precision, memory) = (precision.into(), db.query_memory().reservation());
        Self { db, precision, now_ns, tables: Vec::new(), rows: 0, bytes: 0, memory, exhausted: None }
    }

    /// The number of gathered rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a line found by [`LineSplitter`]. A blank line or a comment (`#`) adds nothing.
    ///
    /// # Errors
    /// As [`parse`](Self::parse); or the line is not UTF-8.
    pub fn parse_bytes(&mut self, line: &[u8]) -> std::result::Result<(), LineError> {
        let text = str::from_utf8(line)
            .map_err(|e| LineError { column: e.valid_up_to() + 1, reason: "invalid UTF-8".to_owned() })?;
        self.parse(text)
    }

    /// Adds a line. A blank line or a comment (`#`) adds nothing. If the gathered rows take more
    /// memory than the budget has left, they are dropped; no line adds anything from then on, and
    /// [`into_batch`](Self::into_batch) fails.
    ///
    /// # Errors
    /// The line is invalid or does not fit its table; it then adds nothing.
    pub fn parse(&mut self, text: &str) -> std::result::Result<(), LineError> {
        let trimmed = text.trim_end_matches(['\r', '\n', ' ', '\t']);
        let Some(start) = trimmed.bytes().position(|byte| !is_blank(byte)) else { return Ok(()) };
        if trimmed.as_bytes()[start] == b'#' || self.exhausted.is_some() {
            return Ok(());
        }
        let line = parse_line(trimmed, start)?;
        let place = match self.tables.iter().position(|table| table.name == line.measurement) {
            Some(place) => place,
            None => {
                let schema = self.db.table(&line.measurement).ok();
                let at_start = |reason: String| LineError { column: start + 1, reason };
                if schema.is_none() {
                    check_name("table", &line.measurement).map_err(|e| at_start(e.to_string()))?;
                    self.check_new_table(&line.measurement).map_err(at_start)?;
                }
                self.tables.push(gathered(&line.measurement, schema.as_deref()).map_err(at_start)?);
                self.tables.len() - 1
            }
        };
        let table = &mut self.tables[place];
        let (time, precision) = line.time.map_or((self.now_ns, Precision::Nanosecond), |time| (time, self.precision));
        let time = precision.convert(time, table.unit).ok_or_else(|| LineError {
            column: trimmed.len(),
            reason: "the timestamp is outside the range of the table's time column".to_owned(),
        })?;
        let places = places_of(table, &line, start + 1, self.db.settings().max_columns)?;
        // The line has a value, perhaps NULL, in each column of its table. New columns have one for each
        // earlier line as well.
        let new = places.new;
        let values = table.columns.len() + 1 + new * (table.times.len() + 1);
        self.bytes += values * VALUE_BYTES + trimmed.len();
        if let Err(error) = self.memory.grow_to("lines of line protocol", self.bytes) {
            self.exhausted = Some(error);
            (self.tables, self.rows, self.bytes) = (Vec::new(), 0, 0);
            self.memory.release();
            return Ok(());
        }
        add(table, line, places);
        table.times.push(time);
        self.rows += 1;
        Ok(())
    }

    /// Refuses a line that would create a table beyond the limit.
    fn check_new_table(&self, name: &str) -> std::result::Result<(), String> {
        let new = self.tables.iter().filter(|table| !table.exists).count();
        let most = self.db.settings().max_tables;
        if self.db.table_count() + new < most {
            return Ok(());
        }
        Err(format!(
            "table '{name}' cannot be created: the limit is {most} tables (setting max_tables); distinguish devices by \
             tags, not by measurements"
        ))
    }

    /// Memory of the gathered rows, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Checks that the memory has sufficed so far. [`into_batch`](Self::into_batch) does it as well.
    ///
    /// # Errors
    /// [`Code::OutOfMemory`](crate::Code::OutOfMemory).
    pub fn check(&self) -> Result<()> {
        self.exhausted.clone().map_or(Ok(()), Err)
    }

    /// Creates missing tables and columns, and returns all gathered rows as one batch.
    ///
    /// # Errors
    /// As [`Database::create_table`] and [`Database::add_column`]; or the memory did not suffice
    /// ([`Code::OutOfMemory`](crate::Code::OutOfMemory)).
    pub fn into_batch(self) -> Result<Batch> {
        self.check()?;
        let mut batch = Batch::new().holding(self.memory);
        for table in self.tables.into_iter().filter(|table| !table.times.is_empty()) {
            create_missing(self.db, &table)?;
            batch = batch.with(&table.name.clone(), into_batch(table)?);
        }
        Ok(batch)
    }

    /// Creates missing tables and columns, and writes all gathered rows as one batch.
    ///
    /// # Errors
    /// As [`into_batch`](Self::into_batch) and [`Database::commit`]. No row is then written.
    pub fn commit(self, durability: Durability) -> Result<Acknowledged> {
        let db = self.db;
        db.commit(self.into_batch()?.with_durability(durability))
    }
}

fn gathered(measurement: &str, schema: Option<&TableSchema>) -> std::result::Result<GatheredTable, String> {
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
        return Err(format!("table '{measurement}' is a collection: line protocol needs a time column"));
    };
    let columns = schema.columns.iter().filter(|column| column.role != Role::Time);
    let columns = columns.map(|column| GatheredColumn {
        name: column.name.clone(),
        role: column.role,
        column_type: column.column_type,
        exists: true,
        is_required: !column.nullable,
        values: Values::new(column.column_type, 0),
    });
    let time_name = schema.columns[time].name.clone();
    let (name, times) = (measurement.to_owned(), Vec::new());
    Ok(GatheredTable { name, exists: true, time_name, unit, columns: columns.collect(), times })
}

/// The column for a tag or field.
enum Place {
    /// An existing column.
    Column(usize),
    /// A new column with this name.
    New(String),
}

/// Finds the column of a tag or field that has no column of its name and role. If a tag and a field
/// share a name, the column of the later one is called `name_1`, as in InfluxQL, or `name_2` if
/// that is taken.
fn place_of(table: &GatheredTable, places: &[Place], parts: &[Part<'_>], part: &Part<'_>) -> Place {
    let mut name = part.name.clone().into_owned();
    let mut number = 0;
    loop {
        match table.columns.iter().position(|column| column.name == name) {
            Some(place) if table.columns[place].role == part.role => return Place::Column(place),
            Some(_) => {}
            None => {
                let is_it = |place: &Place| matches!(place, Place::New(new) if *new == name);
                let new = places.iter().zip(parts).find(|(place, _)| is_it(place));
                if name != table.time_name && new.is_none_or(|(_, new)| new.role == part.role) {
                    return Place::New(name);
                }
            }
        }
        number += 1;
        name = format!("{}_{number}", part.name);
    }
}

/// The columns for the values of a line.
struct Places {
    of_parts: Vec<Place>,
    /// The parts whose fields the line names again: their values do not count.
    overtaken: Vec<usize>,
    /// The number of new columns.
    new: usize,
}

/// Finds the columns for a line that begins at `start`, and checks the line.
fn places_of(
    table: &GatheredTable,
    line: &Line<'_>,
    start: usize,
    max_columns: usize,
) -> std::result::Result<Places, LineError> {
    let mut places: Vec<Place> = Vec::with_capacity(line.parts.len());
    // Lines usually name their columns in the table's order. Each name is then found at once and is
    // unique.
    let (mut guess, mut highest, mut new) = (0, None, 0);
    let mut tag_bytes = 0;
    let mut overtaken = Vec::new();
    for part in &line.parts {
        let Part { name, value, at, role } = part;
        let wrong = |reason: String| LineError { column: *at, reason };
        let kind = if *role == Role::Key { "tag" } else { "field" };
        if let FieldValue::Text(text) = value {
            if text.len() > MAX_VALUE_BYTES {
                let bytes = text.len();
                return Err(wrong(format!("{kind} '{name}' has {bytes} bytes, but the limit is {MAX_VALUE_BYTES}")));
            }
            tag_bytes += if *role == Role::Key { text.len() } else { 0 };
        }
        let place = match table.columns.get(guess) {
            Some(column) if column.role == *role && column.name == *name => Place::Column(guess),
            _ if *name == table.time_name => return Err(wrong(format!("'{name}' is the name of the time column"))),
            _ => place_of(table, &places, &line.parts, part),
        };
        let earlier = match &place {
            Place::New(name) => places.iter().rposition(|other| matches!(other, Place::New(other) if other == name)),
            Place::Column(place) if Some(*place) > highest => None,
            Place::Column(place) => {
                places.iter().rposition(|other| matches!(other, Place::Column(other) if other == place))
            }
        };
        match earlier {
            None => {}
            Some(_) if *role == Role::Key => return Err(wrong(format!("duplicate {kind} '{name}'"))),
            // As in InfluxDB, the last value of a field wins.
            Some(earlier) => overtaken.push(earlier),
        }
        match &place {
            Place::Column(place) => {
                let column = &table.columns[*place];
                if !column.values.takes(value) {
                    return Err(wrong(format!(
                        "{kind} '{name}' is of type {}, but the column is of type {}",
                        value.column_type(),
                        column.column_type
                    )));
                }
                highest = highest.max(Some(*place));
                guess = place + 1;
            }
            Place::New(name) => {
                check_name("column", name).map_err(|e| wrong(e.to_string()))?;
                let before = earlier.map(|earlier: usize| line.parts[earlier].value.column_type());
                if let Some(before) = before.filter(|before| *before != value.column_type()) {
                    let again = value.column_type();
                    return Err(wrong(format!("{kind} '{name}' is of type {again}, but before of type {before}")));
                }
                new += usize::from(earlier.is_none());
                // Including the time column.
                let columns = table.columns.len() + new + 1;
                if columns > max_columns {
                    return Err(wrong(format!(
                        "column '{name}' cannot be added: table '{}' has {} columns, and the limit is {max_columns} \
                         (setting max_columns); store unbounded data as values, not as names",
                        table.name,
                        columns - 1
                    )));
                }
            }
        }
        places.push(place);
    }
    check_row(table, &places, line, tag_bytes).map_err(|reason| LineError { column: start, reason })?;
    Ok(Places { of_parts: places, overtaken, new })
}

/// Adds a line to its table's columns.
fn add(table: &mut GatheredTable, line: Line<'_>, Places { of_parts, overtaken, .. }: Places) {
    let rows = table.times.len();
    for (number, (place, Part { value, role, .. })) in of_parts.into_iter().zip(line.parts).enumerate() {
        if overtaken.contains(&number) {
            continue;
        }
        let place = match place {
            Place::Column(place) => place,
            Place::New(name) => {
                let column_type = value.column_type();
                let values = Values::new(column_type, rows);
                let (exists, is_required) = (false, false);
                table.columns.push(GatheredColumn { name, role, column_type, exists, is_required, values });
                table.columns.len() - 1
            }
        };
        table.columns[place].values.push(value);
    }
    for column in table.columns.iter_mut().filter(|column| column.values.len() == rows) {
        column.values.push_null();
    }
}

/// Refuses a whole line: it lacks a required value, or its key is too long.
fn check_row(
    table: &GatheredTable,
    places: &[Place],
    line: &Line<'_>,
    tag_bytes: usize,
) -> std::result::Result<(), String> {
    for (number, column) in table.columns.iter().enumerate().filter(|(_, column)| column.is_required) {
        if !places.iter().any(|place| matches!(place, Place::Column(place) if *place == number)) {
            return Err(format!(
                "column '{}' of table '{}' must not be NULL, but the line has no value for it",
                column.name, table.name
            ));
        }
    }
    // An upper bound for the key: a byte takes at most two bytes, and a column less than four more.
    if 2 * tag_bytes + 4 * (table.columns.len() + places.len()) > MAX_KEY_BYTES {
        let mut key = Vec::new();
        let columns = table.columns.iter().filter(|column| column.role == Role::Key);
        columns.for_each(|column| key::push(&mut key, column.column_type, KeyPart::Null));
        for part in line.parts.iter().filter(|part| part.role == Role::Key) {
            if let FieldValue::Text(text) = &part.value {
                key::push(&mut key, ColumnType::Utf8, KeyPart::Bytes(text.as_bytes()));
            }
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(format!("the tags have {} bytes, but the limit is {MAX_KEY_BYTES}", key.len()));
        }
    }
    Ok(())
}

/// Creates missing tables and columns. If another writer creates the same ones meanwhile, uses
/// those.
fn create_missing(db: &Database, table: &GatheredTable) -> Result<()> {
    if !table.exists {
        let mut definition = TableDefinition { merge: Merge::Fields, ..TableDefinition::new(&table.name) };
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
        let definition = ColumnDefinition {
            name: column.name.clone(),
            column_type: column.column_type,
            nullable: true,
            default: None,
        };
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
        let Some(array) = column.values.into_array() else { continue };
        fields.push(ArrowField::new(&column.name, array.data_type().clone(), true));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|e| Error::bug(format!("the lines could not be converted to a batch: {e}")))
}

#[cfg(test)]
#[path = "line_protocol_tests.rs"]
mod tests;
