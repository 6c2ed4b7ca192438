//! Tables and columns: what a row looks like and which columns identify it.
//!
//! A table's primary key ends in a timestamp (a time-series table) or contains none (a collection).
//! The part of the key before the time identifies a container. The engine keeps each value as a raw
//! 64-bit number ([`crate::lane`]); [`ColumnType`] says how to interpret it.

use crate::check::{Check, Condition};
use crate::column_type::{ColumnType, Unit};
use crate::constraints::{CheckDefinition, DefaultValue, ForeignKey, ForeignKeyDefinition};
use crate::error::{Code, Error, Result, listed};
use crate::ids::{ColumnId, TableId};
use arrow::array::Int64Array;
use arrow::compute::cast;
use arrow::datatypes::{Fields, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// The maximum number of columns in a table.
pub const MAX_COLUMNS: usize = 4_096;
/// The maximum length of a table or column name, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

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
    /// Its value in a row that does not give one; `None` for NULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<DefaultValue>,
}

impl Column {
    /// Whether the column can change to this type and keep its stored values. Fields can widen;
    /// times can gain or lose a zone.
    pub(crate) fn may_become(&self, to: ColumnType) -> bool {
        self.column_type.same_values(to) || (self.role == Role::Field && self.column_type.widens_to(to))
    }

    /// Whether its values are the table's own numbers.
    pub(crate) fn is_numbered(&self) -> bool {
        matches!(self.default, Some(DefaultValue::Number { .. }))
    }

    /// Whether its values are the table's own numbers, and rows must not give them.
    pub fn is_always_numbered(&self) -> bool {
        matches!(self.default, Some(DefaultValue::Number { always: true }))
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
    /// The conditions that each row meets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// References to other tables, which are not enforced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<ForeignKey>,
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
    /// The error for a NULL in a column that must not be NULL: [`Code::NotNull`].
    pub fn null_in(&self, column: &Column) -> Error {
        let message = format!(
            "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
            column.name, self.name
        );
        Error::new(Code::NotNull, message)
    }

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

    /// The column whose values are the table's own numbers, as an index into `columns`.
    pub fn numbered(&self) -> Option<usize> {
        self.columns.iter().position(Column::is_numbered)
    }

    /// The columns with these numbers, by name; those that were dropped are left out.
    pub fn names_of(&self, ids: &[ColumnId]) -> Vec<&str> {
        let column = |id: &ColumnId| self.columns.iter().find(|column| column.id == *id);
        ids.iter().filter_map(column).map(|column| column.name.as_str()).collect()
    }

    /// A condition of the table in SQL.
    pub fn sql_of(&self, condition: &Condition) -> String {
        let column = |id: ColumnId| self.columns.iter().find(|column| column.id == id);
        let name = |id| column(id).map_or_else(String::new, |column| sql_identifier(&column.name));
        let constant = |id, value: i64| match column(id).map(|column| column.column_type) {
            Some(column_type) if column_type.is_numeric() => value.to_string(),
            Some(column_type) => {
                let values = cast(&Int64Array::from(vec![value]), &column_type.to_arrow());
                let text = values.and_then(|values| array_value_to_string(&values, 0));
                text.map_or_else(|_| value.to_string(), |text| format!("'{text}'"))
            }
            None => value.to_string(),
        };
        condition.to_sql(&name, &constant)
    }

    /// Removes the checks and foreign keys that name a column.
    pub(crate) fn remove_constraints_on(&mut self, column: ColumnId) {
        self.checks.retain(|check| !check.condition.columns().contains(&column));
        self.foreign_keys.retain(|key| !key.columns.contains(&column));
    }

    /// The schema as segments have it: any field may be NULL there, also in a table that no longer takes
    /// NULL. A row that was replaced may hold one, and so may one of several that are merged.
    pub(crate) fn with_nullable_fields(&self) -> Self {
        let mut schema = self.clone();
        schema.columns.iter_mut().for_each(|column| column.nullable |= column.role == Role::Field);
        schema
    }

    /// The Arrow schema of this table's batches.
    pub fn to_arrow(&self) -> SchemaRef {
        let schema = self.arrow.0.get_or_init(|| {
            let field = |column: &Column| column.column_type.to_field(&column.name, column.nullable);
            Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
        });
        Arc::clone(schema)
    }

    /// The Arrow schema of rows that have not been validated: every column is nullable.
    pub fn to_nullable_arrow(&self) -> SchemaRef {
        let fields = self.to_arrow();
        let fields = fields.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
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
    /// Its value in a row that does not give one; `None` for NULL.
    pub default: Option<DefaultValue>,
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
    /// The conditions that each row meets.
    pub checks: Vec<CheckDefinition>,
    /// References to other tables.
    pub foreign_keys: Vec<ForeignKeyDefinition>,
    /// The first of the table's own numbers, if a column has them; `None` for 1.
    pub first_number: Option<i64>,
}

impl TableDefinition {
    /// A definition without columns.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    fn column(mut self, name: &str, column_type: ColumnType, nullable: bool) -> Self {
        self.columns.push(ColumnDefinition { name: name.to_owned(), column_type, nullable, default: None });
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

    /// The columns that probably identify a row: the first that may identify a device, and the first time.
    pub fn likely_key(&self) -> Vec<String> {
        let is_time = |column: &&ColumnDefinition| column.column_type.time_unit().is_some();
        let is_device = |column: &&ColumnDefinition| {
            !is_time(column) && !column.column_type.is_float() && column.column_type != ColumnType::Boolean
        };
        let found = [self.columns.iter().find(is_device), self.columns.iter().find(is_time)];
        found.into_iter().flatten().map(|column| column.name.clone()).collect()
    }

    /// What to add to a definition without a primary key.
    fn missing_key(&self) -> String {
        match self.likely_key().as_slice() {
            [device, time] => {
                format!("PRIMARY KEY ({device}, {time}) for a row at each time, or ({device}) for the newest alone")
            }
            [one] => format!("PRIMARY KEY ({one})"),
            _ => "PRIMARY KEY (device, time), or (id) for a collection".to_owned(),
        }
    }

    /// Checks the table's name and the number of its columns.
    pub(crate) fn check_size(&self) -> Result<()> {
        check_name("table", &self.name)?;
        let table = &self.name;
        if self.columns.len() > MAX_COLUMNS {
            return Err(Error::new(
                Code::LimitExceeded,
                format!("table '{table}' has {} columns, but the limit is {MAX_COLUMNS}", self.columns.len()),
            ));
        }
        Ok(())
    }

    /// The columns with their ids, all of them fields.
    ///
    /// # Errors
    /// A name is not valid, or two columns have one name.
    pub(crate) fn new_columns(&self) -> Result<Vec<Column>> {
        let table = &self.name;
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
                default: column.default.clone(),
            });
        }
        Ok(columns)
    }

    /// Checks the definition and assigns ids. Checks and foreign keys are added later.
    pub(crate) fn build(&self, id: TableId) -> Result<TableSchema> {
        self.check_size()?;
        let table = &self.name;
        if self.primary_key.is_empty() {
            let message = format!("table '{table}' has no primary key: add {}", self.missing_key());
            return Err(Error::new(Code::InvalidDefinition, message));
        }
        let mut columns = self.new_columns()?;
        check_numbered(table, &columns)?;
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
                ColumnType::Array(_) => {
                    return Err(Error::invalid(format!(
                        "key column '{name}' of table '{table}' is an array: use a column of a type with single values"
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
            checks: Vec::new(),
            foreign_keys: Vec::new(),
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

/// Checks that at most one column has the table's own numbers, and that it can hold them.
pub(crate) fn check_numbered(table: &str, columns: &[Column]) -> Result<()> {
    let mut numbered = columns.iter().filter(|column| column.is_numbered());
    let (Some(first), second) = (numbered.next(), numbered.next()) else { return Ok(()) };
    let reason = match second {
        Some(second) => format!("column '{}' already is; a table numbers its rows once", second.name),
        None if !first.column_type.is_integer() => format!("it is of type {}, not an integer", first.column_type),
        None => return Ok(()),
    };
    let message = format!("column '{}' of table '{table}' cannot be numbered: {reason}", first.name);
    Err(Error::new(Code::InvalidDefinition, message))
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

/// Words that are no names in SQL without quotes.
const RESERVED: [&str; 40] = [
    "all",
    "and",
    "any",
    "as",
    "asc",
    "between",
    "both",
    "case",
    "cast",
    "check",
    "column",
    "constraint",
    "default",
    "desc",
    "distinct",
    "else",
    "end",
    "false",
    "for",
    "foreign",
    "from",
    "group",
    "having",
    "in",
    "is",
    "limit",
    "not",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "primary",
    "select",
    "table",
    "then",
    "true",
    "user",
    "when",
    "where",
];

/// A name as an identifier of SQL, in quotes if it needs them.
///
/// ```
/// use fleetdb_engine::sql_identifier;
/// assert_eq!(sql_identifier("site_1"), "site_1");
/// assert_eq!(sql_identifier("order"), "\"order\"");
/// assert_eq!(sql_identifier("a \"b\""), "\"a \"\"b\"\"\"");
/// ```
pub fn sql_identifier(name: &str) -> String {
    let is_plain = |(place, letter): (usize, char)| {
        letter.is_ascii_lowercase() || letter == '_' || place > 0 && letter.is_ascii_digit()
    };
    match name.chars().enumerate().all(is_plain) && !RESERVED.contains(&name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}
