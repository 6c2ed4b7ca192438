//! Writes the rows of a table as line protocol, one line for each row: the table is the measurement, the
//! key columns are tags, the others fields. `fleetdb load` and InfluxDB read the lines.
//!
//! 1. [`LineWriter::of`] refuses tables whose columns line protocol cannot carry.
//! 2. [`LineWriter::append`] leaves out NULL. It leaves out a row without any field, because a line needs
//!    one, and counts it.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use fleetdb_engine::{ColumnType, Error, Result, Role, TableSchema};
use fleetdb_query::text_form;

/// The only name of the time in line protocol, which no tag or field can have.
const TIME: &str = "time";

/// Writes the rows of one table.
pub struct LineWriter {
    table: String,
    measurement: Vec<u8>,
    /// Tags, then fields, as places in the table's columns.
    tags: Vec<Part>,
    fields: Vec<Part>,
    time: usize,
}

/// A tag or a field.
struct Part {
    place: usize,
    name: String,
    /// The name as it stands in a line, with the equals sign.
    written: Vec<u8>,
    form: Form,
}

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Tag,
    Boolean,
    Quoted,
    /// A number with this ending.
    Number(&'static str),
}

/// The values of a part in a batch.
enum Values {
    Boolean(BooleanArray),
    Text(StringArray),
}

impl Values {
    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Boolean(values) => values.is_null(row),
            Self::Text(values) => values.is_null(row),
        }
    }
}

impl LineWriter {
    /// The writer for a table.
    ///
    /// # Errors
    /// The table has no time column, or a name or type that line protocol lacks.
    pub fn of(table: &TableSchema) -> Result<Self> {
        let refused = |reason: &str| Error::invalid(format!("table '{}': {reason}", table.name));
        let time = table.time.ok_or_else(|| refused("line protocol needs a time column: write CSV or Parquet"))?;
        if table.name.starts_with('#') {
            return Err(refused("a line that begins with # is a comment: rename the table"));
        }
        let mut measurement = Vec::new();
        put_name(&table.name, &mut measurement).map_err(refused)?;
        let (mut tags, mut fields) = (Vec::new(), Vec::new());
        for (place, column) in table.columns.iter().enumerate().filter(|(place, _)| *place != time) {
            let refused = |reason: &str| refused(&format!("column '{}': {reason}", column.name));
            if column.name == TIME {
                return Err(refused("line protocol has this name for the time: rename the column"));
            }
            let mut written = Vec::new();
            put_name(&column.name, &mut written).map_err(refused)?;
            written.push(b'=');
            let is_tag = column.role == Role::Key;
            let form = form_of(column.column_type, is_tag).ok_or_else(|| {
                let name = column.column_type.sql_name();
                refused(&format!("line protocol has no values of type {name}: write CSV or Parquet"))
            })?;
            let parts = if is_tag { &mut tags } else { &mut fields };
            parts.push(Part { place, name: column.name.clone(), written, form });
        }
        if fields.is_empty() {
            return Err(refused("a line needs a field, but all columns are part of the primary key"));
        }
        Ok(Self { table: table.name.clone(), measurement, tags, fields, time })
    }

    /// Appends the lines of rows that have the table's columns. Returns the number of rows left out.
    ///
    /// # Errors
    /// A value that line protocol cannot carry.
    pub fn append(&self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<u64> {
        let values = |parts: &[Part]| parts.iter().map(|part| values_of(rows, part)).collect::<Result<Vec<_>>>();
        let (tags, fields, times) = (values(&self.tags)?, values(&self.fields)?, self.times(rows)?);
        let mut left_out = 0;
        for row in 0..rows.num_rows() {
            if fields.iter().all(|values| values.is_null(row)) {
                left_out += 1;
                continue;
            }
            out.extend_from_slice(&self.measurement);
            for (part, values) in self.tags.iter().zip(&tags).filter(|(_, values)| !values.is_null(row)) {
                out.push(b',');
                out.extend_from_slice(&part.written);
                part.put(values, row, out).map_err(|reason| self.refused(part, reason))?;
            }
            let mut separator = b' ';
            for (part, values) in self.fields.iter().zip(&fields).filter(|(_, values)| !values.is_null(row)) {
                out.push(separator);
                out.extend_from_slice(&part.written);
                part.put(values, row, out).map_err(|reason| self.refused(part, reason))?;
                separator = b',';
            }
            out.extend_from_slice(format!(" {}\n", times.value(row)).as_bytes());
        }
        Ok(left_out)
    }

    fn refused(&self, part: &Part, reason: &str) -> Error {
        Error::invalid(format!("table '{}', column '{}': {reason}", self.table, part.name))
    }

    /// The times in nanoseconds.
    fn times(&self, rows: &RecordBatch) -> Result<TimestampNanosecondArray> {
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let ns = cast_with_options(rows.column(self.time), &DataType::Timestamp(TimeUnit::Nanosecond, None), &strict);
        let ns = ns.map_err(|_| {
            let reason = "a time is outside the years 1678 to 2261, which line protocol can express in nanoseconds";
            Error::invalid(format!("table '{}': {reason}", self.table))
        })?;
        Ok(ns.as_primitive::<TimestampNanosecondType>().clone())
    }
}

impl Part {
    /// Appends a value that is not NULL.
    fn put(&self, values: &Values, row: usize, out: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
        let text = match values {
            Values::Boolean(values) => {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" });
                return Ok(());
            }
            Values::Text(values) => values.value(row),
        };
        match self.form {
            Form::Tag => return put_tag(text, out),
            Form::Quoted => put_quoted(text, out),
            Form::Boolean => out.extend_from_slice(text.as_bytes()),
            Form::Number(ending) => {
                if !text.ends_with(|last: char| last.is_ascii_digit()) {
                    return Err(
                        "line protocol has neither NaN nor infinity: leave these rows out, or write CSV or Parquet",
                    );
                }
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(ending.as_bytes());
            }
        }
        Ok(())
    }
}

/// How values of a type are written; `None` if line protocol cannot carry them.
fn form_of(column_type: ColumnType, is_tag: bool) -> Option<Form> {
    use ColumnType::{
        Binary, Boolean, Date32, Decimal, Float32, Float64, Int8, Int16, Int32, Int64, Json, Jsonb, Time, Timestamp,
        TimestampUtc, UInt8, UInt16, UInt32, UInt64, Utf8, Uuid,
    };
    Some(match column_type {
        Binary | ColumnType::Array(_) => return None,
        _ if is_tag => Form::Tag,
        Date32 | Time | Timestamp(_) | TimestampUtc(_) => return None,
        Boolean => Form::Boolean,
        Int8 | Int16 | Int32 | Int64 => Form::Number("i"),
        UInt8 | UInt16 | UInt32 | UInt64 => Form::Number("u"),
        Float32 | Float64 | Decimal { .. } => Form::Number(""),
        Utf8 | Json | Jsonb | Uuid => Form::Quoted,
    })
}

fn values_of(rows: &RecordBatch, part: &Part) -> Result<Values> {
    let column = rows.column(part.place);
    let failed = |e| Error::bug(format!("column '{}' is not written: {e}", part.name));
    if let (Form::Boolean, Some(values)) = (part.form, column.as_boolean_opt()) {
        return Ok(Values::Boolean(values.clone()));
    }
    let texts: ArrayRef = match column.data_type() {
        // PostgreSQL's form of a time ends at microseconds; a tag must tell all keys apart.
        DataType::Timestamp(..) => cast(column, &DataType::Utf8).map_err(failed)?,
        _ => match text_form(column).map_err(failed)? {
            Some(texts) => texts,
            None => cast(column, &DataType::Utf8).map_err(failed)?,
        },
    };
    Ok(Values::Text(texts.as_string::<i32>().clone()))
}

/// Appends the name of a measurement, tag or field. A backslash escapes commas, blanks and equals signs,
/// but no backslash, so some names cannot be written.
fn put_name(name: &str, out: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
    put_escaped(name, &[',', ' ', '=', '"'], out).ok_or(
        "line protocol cannot write a name with a backslash at its end or before a comma, blank, equals sign or quote",
    )
}

fn put_tag(text: &str, out: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
    if text.is_empty() {
        return Err("line protocol has no empty tags: write CSV or Parquet");
    }
    if text.contains('\n') {
        return Err("line protocol has no tags with line breaks: write CSV or Parquet");
    }
    put_escaped(text, &[',', ' ', '='], out)
        .ok_or("line protocol cannot write a tag with a backslash at its end or before a comma, blank or equals sign")
}

/// Escapes commas, blanks and equals signs; `None` if a backslash stands before a `special` character or at
/// the end.
fn put_escaped(text: &str, special: &[char], out: &mut Vec<u8>) -> Option<()> {
    let mut is_behind_backslash = false;
    for character in text.chars() {
        if is_behind_backslash && special.contains(&character) {
            return None;
        }
        if matches!(character, ',' | ' ' | '=') {
            out.push(b'\\');
        }
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        is_behind_backslash = character == '\\';
    }
    (!is_behind_backslash).then_some(())
}

/// Appends a text field. Line breaks may stand in it.
fn put_quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
