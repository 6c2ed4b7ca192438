//! Tables and columns: what a row looks like and which columns identify it.
//!
//! A table's primary key ends in a timestamp (a time-series table) or contains none (a collection).
//! The part of the key before the time identifies a container. The engine keeps each value as a raw
//! 64-bit number ([`crate::lane`]); [`ColumnType`] says how to interpret it.

use crate::error::{Code, Error, Result, listed};
use crate::ids::{ColumnId, TableId};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// The maximum number of columns in a table.
pub const MAX_COLUMNS: usize = 4_096;
/// The maximum length of a table or column name, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// The unit of a timestamp column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Seconds.
    Second,
    /// Milliseconds.
    Millisecond,
    /// Microseconds.
    Microsecond,
    /// Nanoseconds.
    Nanosecond,
}

impl Unit {
    /// The number of these units in a second.
    pub fn per_second(self) -> i64 {
        match self {
            Self::Second => 1,
            Self::Millisecond => 1_000,
            Self::Microsecond => 1_000_000,
            Self::Nanosecond => 1_000_000_000,
        }
    }

    fn to_arrow(self) -> TimeUnit {
        match self {
            Self::Second => TimeUnit::Second,
            Self::Millisecond => TimeUnit::Millisecond,
            Self::Microsecond => TimeUnit::Microsecond,
            Self::Nanosecond => TimeUnit::Nanosecond,
        }
    }

    fn from_arrow(unit: &TimeUnit) -> Self {
        match unit {
            TimeUnit::Second => Self::Second,
            TimeUnit::Millisecond => Self::Millisecond,
            TimeUnit::Microsecond => Self::Microsecond,
            TimeUnit::Nanosecond => Self::Nanosecond,
        }
    }
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Second => "s",
            Self::Millisecond => "ms",
            Self::Microsecond => "us",
            Self::Nanosecond => "ns",
        })
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ColumnType {
    /// True or false.
    Boolean,
    /// 8-bit integer.
    Int8,
    /// 16-bit integer.
    Int16,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// 8-bit unsigned integer.
    UInt8,
    /// 16-bit unsigned integer.
    UInt16,
    /// 32-bit unsigned integer.
    UInt32,
    /// 64-bit unsigned integer.
    UInt64,
    /// 32-bit floating point number.
    Float32,
    /// 64-bit floating point number.
    Float64,
    /// Text.
    Utf8,
    /// Bytes.
    Binary,
    /// Days since 1970-01-01.
    Date32,
    /// A time, as a count of the unit since 1970 (UTC).
    Timestamp(Unit),
    /// The same, returned with the time zone UTC, so that clients anywhere know the instant.
    TimestampUtc(Unit),
}

impl ColumnType {
    /// The time zone of [`TimestampUtc`](Self::TimestampUtc) in Arrow types, written as Parquet
    /// readers write it.
    pub const UTC: &str = "+00:00";

    /// The type's name in SQL.
    ///
    /// ```
    /// assert_eq!(fleetdb_engine::ColumnType::Float64.sql_name(), "double precision");
    /// ```
    pub fn sql_name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Int8 => "tinyint",
            Self::Int16 => "smallint",
            Self::Int32 => "integer",
            Self::Int64 => "bigint",
            Self::UInt8 => "tinyint unsigned",
            Self::UInt16 => "smallint unsigned",
            Self::UInt32 => "integer unsigned",
            Self::UInt64 => "bigint unsigned",
            Self::Float32 => "real",
            Self::Float64 => "double precision",
            Self::Utf8 => "text",
            Self::Binary => "bytea",
            Self::Date32 => "date",
            Self::Timestamp(_) => "timestamp",
            Self::TimestampUtc(_) => "timestamp with time zone",
        }
    }

    /// The Arrow type of the column's values.
    pub fn to_arrow(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Int8 => DataType::Int8,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::UInt8 => DataType::UInt8,
            Self::UInt16 => DataType::UInt16,
            Self::UInt32 => DataType::UInt32,
            Self::UInt64 => DataType::UInt64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Utf8 => DataType::Utf8,
            Self::Binary => DataType::Binary,
            Self::Date32 => DataType::Date32,
            Self::Timestamp(unit) => DataType::Timestamp(unit.to_arrow(), None),
            Self::TimestampUtc(unit) => DataType::Timestamp(unit.to_arrow(), Some(Self::UTC.into())),
        }
    }

    /// The column type that stores values of an Arrow type.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if there is none.
    pub fn from_arrow(data_type: &DataType) -> Result<Self> {
        Ok(match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Int8 => Self::Int8,
            DataType::Int16 => Self::Int16,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::UInt8 => Self::UInt8,
            DataType::UInt16 => Self::UInt16,
            DataType::UInt32 => Self::UInt32,
            DataType::UInt64 => Self::UInt64,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Utf8,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Binary
            }
            DataType::Date32 => Self::Date32,
            DataType::Timestamp(unit, None) => Self::Timestamp(Unit::from_arrow(unit)),
            // Values count from 1970 in UTC, whatever the zone.
            DataType::Timestamp(unit, Some(_)) => Self::TimestampUtc(Unit::from_arrow(unit)),
            DataType::Dictionary(_, values) => Self::from_arrow(values)?,
            other => {
                return Err(Error::invalid(format!(
                    "Arrow type {other} is not supported: use booleans, integers, floats, text, binary, dates or \
                     timestamps"
                )));
            }
        })
    }

    /// The unit of a time type, with or without a zone; `None` for other types.
    pub fn time_unit(self) -> Option<Unit> {
        match self {
            Self::Timestamp(unit) | Self::TimestampUtc(unit) => Some(unit),
            _ => None,
        }
    }

    /// Whether values are text or binary.
    pub(crate) fn is_bytes(self) -> bool {
        matches!(self, Self::Utf8 | Self::Binary)
    }

    /// Whether values are floating point numbers.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    /// Whether each container's sum, minimum and maximum are kept.
    pub fn is_numeric(self) -> bool {
        self.is_float() || self.is_integer()
    }

    /// Whether values are integers.
    pub(crate) fn is_integer(self) -> bool {
        matches!(
            self,
            Self::Int8
                | Self::Int16
                | Self::Int32
                | Self::Int64
                | Self::UInt8
                | Self::UInt16
                | Self::UInt32
                | Self::UInt64
        )
    }

    /// The smallest and largest integer of an integer or date type; `None` for other types.
    pub(crate) fn integer_range(self) -> Option<(i128, i128)> {
        let signed = |bits: u32| Some((-1i128 << (bits - 1), (1i128 << (bits - 1)) - 1));
        let unsigned = |bits: u32| Some((0, (1i128 << bits) - 1));
        match self {
            Self::Int8 => signed(8),
            Self::Int16 => signed(16),
            Self::Int32 | Self::Date32 => signed(32),
            Self::Int64 | Self::Timestamp(_) | Self::TimestampUtc(_) => signed(64),
            Self::UInt8 => unsigned(8),
            Self::UInt16 => unsigned(16),
            Self::UInt32 => unsigned(32),
            Self::UInt64 => unsigned(64),
            Self::Boolean | Self::Float32 | Self::Float64 | Self::Utf8 | Self::Binary => None,
        }
    }
}

impl ColumnType {
    /// Whether both are time types of the same unit, one with a zone. Their values are the same,
    /// even in keys.
    pub(crate) fn same_values(self, other: Self) -> bool {
        self != other && self.time_unit().is_some() && self.time_unit() == other.time_unit()
    }

    /// Whether every value of this type can be represented in `to`. Integers widen to larger
    /// integers and to floats (from 32 bits on, only to `Float64`; a 64-bit integer then keeps 53
    /// bits of precision).
    pub fn widens_to(self, to: Self) -> bool {
        let bits = |t: Self| match t {
            Self::Int8 | Self::UInt8 => 8,
            Self::Int16 | Self::UInt16 => 16,
            Self::Int32 | Self::UInt32 | Self::Float32 => 32,
            _ => 64,
        };
        let unsigned = |t: Self| matches!(t, Self::UInt8 | Self::UInt16 | Self::UInt32 | Self::UInt64);
        match (self, to) {
            _ if self == to || !self.is_numeric() || !to.is_numeric() => false,
            (Self::Float32, Self::Float64) => true,
            (from, _) if from.is_float() => false,
            (_, Self::Float64) => true,
            (from, Self::Float32) => bits(from) <= 16,
            (from, to) => bits(from) < bits(to) && (unsigned(from) || !unsigned(to)),
        }
    }
}

/// Converts a raw value of a column that was widened after the value was stored; see
/// [`ColumnType::widens_to`]. Integers need no conversion: a raw value is already extended to 64
/// bits.
pub(crate) fn widen(raw: u64, from: ColumnType, to: ColumnType) -> u64 {
    let value = match from {
        _ if from == to || !to.is_float() => return raw,
        ColumnType::Float32 => f64::from(f32::from_bits(raw as u32)),
        ColumnType::UInt64 => raw as f64,
        _ => raw as i64 as f64,
    };
    if to == ColumnType::Float32 { u64::from((value as f32).to_bits()) } else { value.to_bits() }
}

impl std::fmt::Display for ColumnType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Timestamp(unit) => write!(f, "Timestamp({unit})"),
            Self::TimestampUtc(unit) => write!(f, "Timestamp({unit}, UTC)"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A column's role in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Part of the primary key before the time; identifies the container.
    Key,
    /// The last part of a time-series table's primary key.
    Time,
    /// Any other column.
    Field,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Identifies the column in files. Never changes.
    pub id: ColumnId,
    /// The name that users see.
    pub name: String,
    /// The type of its values.
    pub column_type: ColumnType,
    /// Its role in a row.
    pub role: Role,
    /// Whether it may be NULL. The time column never is. A key column may be: NULL is then a value
    /// that identifies a container like any other.
    pub nullable: bool,
}

impl Column {
    /// Whether the column can change to this type and keep its stored values. Fields can widen;
    /// times can gain or lose a zone.
    pub(crate) fn may_become(&self, to: ColumnType) -> bool {
        self.column_type.same_values(to) || (self.role == Role::Field && self.column_type.widens_to(to))
    }
}

/// How rows with the same primary key are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Merge {
    /// The newest row replaces the others.
    #[default]
    Rows,
    /// Each field takes its newest non-NULL value. Only for time-series tables.
    Fields,
}

impl Merge {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for Merge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rows => "rows",
            Self::Fields => "fields",
        })
    }
}

/// A table's schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSchema {
    /// Identifies the table in files. Never changes.
    pub id: TableId,
    /// The name that users see.
    pub name: String,
    /// The columns, in the order users see them.
    pub columns: Vec<Column>,
    /// The key columns, as indexes into `columns`, in key order.
    pub key: Vec<usize>,
    /// The time column, as an index into `columns`; `None` for a collection.
    pub time: Option<usize>,
    /// The width of a time partition, in the time column's unit; `None` if it depends on the data
    /// rate.
    pub partition_width: Option<i64>,
    /// Rows older than this are dropped; `None` keeps all.
    #[serde(default)]
    pub retention_seconds: Option<i64>,
    /// How rows with the same primary key are merged.
    #[serde(default, skip_serializing_if = "Merge::is_default")]
    pub merge: Merge,
    /// The id of the next column to be added.
    pub next_column: u32,
    /// The Arrow schema of the table's batches, created on first use.
    #[serde(skip)]
    pub(crate) arrow: ArrowSchema,
}

/// A cache derived from a [`TableSchema`]'s columns. A clone starts empty: its columns may be
/// changed.
#[derive(Debug, Default)]
pub(crate) struct ArrowSchema(OnceLock<SchemaRef>);

impl Clone for ArrowSchema {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for ArrowSchema {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for ArrowSchema {}

impl TableSchema {
    /// The index of a column.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) that lists the table's columns.
    pub fn column_index(&self, name: &str) -> Result<usize> {
        self.find(name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
            let names = listed(self.columns.iter().map(|column| column.name.as_str()));
            Error::new(Code::UndefinedColumn, message).with_hint(format!("The columns are: {names}."))
        })
    }

    /// The index of a column, if it exists.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    /// Whether each field takes its newest non-NULL value.
    pub fn merges_fields(&self) -> bool {
        self.merge == Merge::Fields
    }

    /// The Arrow schema of this table's batches.
    pub fn to_arrow(&self) -> SchemaRef {
        let schema = self.arrow.0.get_or_init(|| {
            let field = |column: &Column| Field::new(&column.name, column.column_type.to_arrow(), column.nullable);
            Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
        });
        Arc::clone(schema)
    }

    /// The Arrow schema of batches with the columns at these indexes.
    pub(crate) fn to_arrow_of(&self, places: &[usize]) -> SchemaRef {
        let all = self.to_arrow();
        if places.iter().copied().eq(0..self.columns.len()) {
            return all;
        }
        let fields: Fields = places.iter().map(|&place| Arc::clone(&all.fields()[place])).collect();
        Arc::new(Schema::new(fields))
    }

    /// The position in the key of a [`Role::Key`] column, given its index in `columns`.
    pub(crate) fn key_place(&self, column: usize) -> usize {
        // Manifest invariant S4: `key` contains the column.
        self.key.iter().position(|&place| place == column).unwrap_or(0)
    }

    /// The types of the key columns, in key order.
    pub(crate) fn key_types(&self) -> Vec<ColumnType> {
        self.key.iter().map(|&i| self.columns[i].column_type).collect()
    }

    /// The latest time that retention drops now, in the time column's unit.
    pub(crate) fn expired(&self, now_ns: i64) -> Option<i64> {
        let per_second = i128::from(self.time_unit()?.per_second());
        let now = i128::from(now_ns) * per_second / 1_000_000_000;
        let last = now - i128::from(self.retention_seconds?) * per_second - 1;
        Some(i64::try_from(last).unwrap_or(i64::MIN))
    }

    /// The unit of the time column, if the table has one.
    pub fn time_unit(&self) -> Option<Unit> {
        self.columns[self.time?].column_type.time_unit()
    }
}

/// Definition of a new column.
#[derive(Clone, Debug)]
pub struct ColumnDefinition {
    /// The column's name.
    pub name: String,
    /// The type of its values.
    pub column_type: ColumnType,
    /// Whether it may be NULL.
    pub nullable: bool,
}

/// Definition of a new table.
///
/// ```
/// use fleetdb_engine::{ColumnType, TableDefinition, Unit};
/// let reads = TableDefinition::new("meter_reads")
///     .key("meter_id", ColumnType::Int64)
///     .time("ts", Unit::Nanosecond)
///     .field("usage", ColumnType::Float64);
/// assert_eq!(reads.primary_key, ["meter_id", "ts"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct TableDefinition {
    /// The table's name.
    pub name: String,
    /// The columns, in the order users see them.
    pub columns: Vec<ColumnDefinition>,
    /// The names of the primary key's columns, in key order. If the last one is a timestamp, the
    /// table is a time-series table.
    pub primary_key: Vec<String>,
    /// The width of a time partition in seconds; `None` if it depends on the data rate.
    pub partition_seconds: Option<i64>,
    /// Rows older than this many seconds are dropped; `None` keeps all.
    pub retention_seconds: Option<i64>,
    /// How rows with the same primary key are merged.
    pub merge: Merge,
}

impl TableDefinition {
    /// A definition without columns.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    fn column(mut self, name: &str, column_type: ColumnType, nullable: bool) -> Self {
        self.columns.push(ColumnDefinition { name: name.to_owned(), column_type, nullable });
        self
    }

    /// Adds a nullable key column.
    #[must_use]
    pub fn key(mut self, name: &str, column_type: ColumnType) -> Self {
        self.primary_key.push(name.to_owned());
        self.column(name, column_type, true)
    }

    /// Adds the time column, which ends the key.
    #[must_use]
    pub fn time(mut self, name: &str, unit: Unit) -> Self {
        self.primary_key.push(name.to_owned());
        self.column(name, ColumnType::Timestamp(unit), false)
    }

    /// Adds a nullable column outside the key.
    #[must_use]
    pub fn field(self, name: &str, column_type: ColumnType) -> Self {
        self.column(name, column_type, true)
    }

    /// Checks the definition and assigns ids.
    pub(crate) fn build(&self, id: TableId) -> Result<TableSchema> {
        check_name("table", &self.name)?;
        let table = &self.name;
        if self.columns.len() > MAX_COLUMNS {
            return Err(Error::new(
                Code::LimitExceeded,
                format!("table '{table}' has {} columns, but the limit is {MAX_COLUMNS}", self.columns.len()),
            ));
        }
        if self.primary_key.is_empty() {
            return Err(Error::new(
                Code::InvalidDefinition,
                format!("table '{table}' has no primary key: add PRIMARY KEY (device, time), or (id) for a collection"),
            ));
        }
        let mut columns: Vec<Column> = Vec::with_capacity(self.columns.len());
        for (number, column) in (0u32..).zip(&self.columns) {
            check_name("column", &column.name)?;
            if columns.iter().any(|c| c.name == column.name) {
                return Err(Error::new(
                    Code::DuplicateColumn,
                    format!("table '{table}': column '{}' specified more than once", column.name),
                ));
            }
            columns.push(Column {
                id: ColumnId(number),
                name: column.name.clone(),
                column_type: column.column_type,
                role: Role::Field,
                nullable: column.nullable,
            });
        }
        let (mut key, mut time) = (Vec::new(), None);
        for (place, name) in self.primary_key.iter().enumerate() {
            let index = columns.iter().position(|c| &c.name == name).ok_or_else(|| {
                Error::new(
                    Code::UndefinedColumn,
                    format!("table '{table}': column '{name}' named in key does not exist"),
                )
            })?;
            if key.contains(&index) {
                return Err(Error::invalid(format!(
                    "table '{table}': column '{name}' appears twice in the primary key"
                )));
            }
            let last = place + 1 == self.primary_key.len();
            let column = &mut columns[index];
            match column.column_type {
                column_type if last && column_type.time_unit().is_some() => {
                    column.role = Role::Time;
                    column.nullable = false;
                    time = Some(index);
                }
                ColumnType::Float32 | ColumnType::Float64 => {
                    return Err(Error::invalid(format!(
                        "key column '{name}' of table '{table}' is a float: a key must be exact; use an integer or text"
                    )));
                }
                _ => {
                    column.role = Role::Key;
                    key.push(index);
                }
            }
        }
        let next_column = columns.len() as u32;
        let (partition_width, retention_seconds) = (None, self.retention_seconds);
        let mut schema = TableSchema {
            id,
            name: table.clone(),
            columns,
            key,
            time,
            partition_width,
            retention_seconds,
            merge: self.merge,
            next_column,
            arrow: ArrowSchema::default(),
        };
        check_retention(&schema, self.retention_seconds)?;
        if schema.merges_fields() && schema.time.is_none() {
            return Err(Error::invalid(format!(
                "table '{table}' is a collection: merge requires a primary key that ends in a time; omit merge"
            )));
        }
        if let (Some(unit), Some(seconds)) = (schema.time_unit(), self.partition_seconds) {
            if seconds < 1 {
                return Err(Error::invalid(format!(
                    "table '{table}': invalid width of a time partition: {seconds} s; it must be at least 1 s"
                )));
            }
            schema.partition_width = Some(seconds.saturating_mul(unit.per_second()));
        }
        Ok(schema)
    }
}

/// Checks that a retention is valid for a table.
pub(crate) fn check_retention(schema: &TableSchema, seconds: Option<i64>) -> Result<()> {
    match seconds {
        Some(_) if schema.time.is_none() => Err(Error::invalid(format!(
            "table '{}' is a collection: without a time column it cannot have a retention",
            schema.name
        ))),
        Some(seconds) if seconds < 1 => Err(Error::invalid(format!(
            "invalid retention: {seconds} s; it must be at least 1 s; omit it to keep all rows"
        ))),
        _ => Ok(()),
    }
}

/// Checks the name of a table or column.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(Error::invalid(format!(
            "invalid {what} name: it has {} bytes, but must have 1 to {MAX_NAME_BYTES}",
            name.len()
        )));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid(format!("invalid {what} name {name:?}: it contains a control character")));
    }
    Ok(())
}
