//! SQL values as JSON: numbers and booleans as they are, JSON as it is written, arrays and rows as
//! arrays and objects, and anything else as a text (`datum_to_json` in PostgreSQL's `json.c`).

use crate::kind::{kind_of, kind_within, with_kind};
use crate::texts::put_quoted;
use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, ListArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use fleetdb_engine::{Code, ColumnType, Error};
use fleetdb_functions::errors::query_error;
use fleetdb_functions::values::texts::text_form;
use std::fmt::Write;
use std::sync::Arc;

/// The values of an argument.
pub(super) struct Values {
    column: Column,
    is_one: bool,
}

impl Values {
    pub(super) fn of(arg: &ColumnarValue, field: &Field) -> Result<Self> {
        Ok(match arg {
            ColumnarValue::Array(values) => Self { column: Column::of(values, field)?, is_one: false },
            ColumnarValue::Scalar(value) => Self { column: Column::of(&value.to_array()?, field)?, is_one: true },
        })
    }

    fn row(&self, row: usize) -> usize {
        if self.is_one { 0 } else { row }
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.column.is_null(self.row(row))
    }

    /// Writes the value of a row; NULL as `null`.
    pub(super) fn put(&self, row: usize, out: &mut String) {
        self.column.put(self.row(row), out);
    }

    /// Whether the value can be the key of an object.
    pub(super) fn is_scalar(&self) -> bool {
        !matches!(self.column, Column::Json(_) | Column::List { .. } | Column::Row { .. })
    }

    /// Writes the value of a row as the key of an object.
    pub(super) fn put_key(&self, row: usize, out: &mut String) {
        match &self.column {
            Column::Plain(texts) => put_quoted(texts.value(self.row(row)), out),
            other => other.put(self.row(row), out),
        }
    }
}

enum Column {
    Null,
    /// Written as it is.
    Json(StringArray),
    /// Numbers and booleans.
    Plain(StringArray),
    /// Written in quotes.
    Quoted(StringArray),
    List {
        lists: ListArray,
        elements: Box<Column>,
    },
    Row {
        rows: ArrayRef,
        columns: Vec<(String, Column)>,
    },
}

impl Column {
    fn of(values: &ArrayRef, field: &Field) -> Result<Self> {
        let texts = strings;
        Ok(match values.data_type() {
            DataType::Null => Self::Null,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if kind_of(field).is_some() => {
                Self::Json(texts(values)?)
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Quoted(texts(values)?),
            DataType::Boolean => Self::Plain(texts(values)?),
            of if of.is_numeric() => Self::Plain(match text_form(values)? {
                Some(written) => texts(&written)?,
                None => texts(values)?,
            }),
            DataType::Timestamp(_, zone) => {
                let has_zone = zone.is_some();
                let written = texts(&text_form(values)?.unwrap_or_else(|| values.clone()))?;
                Self::Quoted(written.iter().map(|time| time.map(|time| iso(time, has_zone))).collect())
            }
            DataType::Date32 | DataType::Date64 => Self::Quoted(texts(values)?),
            &ColumnType::UUID => Self::Quoted(texts(&text_form(values)?.unwrap_or_else(|| values.clone()))?),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                let bytes = cast(values, &DataType::Binary)?;
                Self::Quoted(bytes.as_binary::<i32>().iter().map(|bytes| bytes.map(hex)).collect())
            }
            DataType::FixedSizeBinary(_) => match values.as_any().downcast_ref::<FixedSizeBinaryArray>() {
                Some(bytes) => Self::Quoted(bytes.iter().map(|bytes| bytes.map(hex)).collect()),
                None => Self::Null,
            },
            DataType::Dictionary(_, of) => {
                Self::of(&cast(values, of)?, &field.clone().with_data_type(of.as_ref().clone()))?
            }
            DataType::List(element) => {
                let lists = values.as_list::<i32>().clone();
                let element = match kind_within(field) {
                    Some(kind) => &Arc::new(with_kind(element.as_ref().clone(), kind)),
                    None => element,
                };
                let elements = Box::new(Self::of(lists.values(), element)?);
                Self::List { lists, elements }
            }
            DataType::Struct(fields) => {
                // The columns of a row without names are c0, c1 and so on here, and f1, f2 in PostgreSQL.
                let is_named = fields.iter().enumerate().any(|(place, field)| *field.name() != format!("c{place}"));
                let columns = fields.iter().zip(values.as_struct().columns()).enumerate();
                let columns = columns.map(|(place, (field, values))| {
                    let name = if is_named { field.name().clone() } else { format!("f{}", place + 1) };
                    Ok((name, Self::of(values, field)?))
                });
                Self::Row { rows: values.clone(), columns: columns.collect::<Result<_>>()? }
            }
            of => match text_form(values)? {
                Some(written) => Self::Quoted(texts(&written)?),
                None => {
                    let message = format!(
                        "a value of type {} cannot be written in JSON",
                        fleetdb_functions::errors::sql_name(of)
                    );
                    return Err(query_error(Error::new(Code::NotSupported, message)));
                }
            },
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Null => true,
            Self::Json(texts) | Self::Plain(texts) | Self::Quoted(texts) => texts.is_null(row),
            Self::List { lists, .. } => lists.is_null(row),
            Self::Row { rows, .. } => rows.is_null(row),
        }
    }

    fn put(&self, row: usize, out: &mut String) {
        if self.is_null(row) {
            out.push_str("null");
            return;
        }
        match self {
            Self::Null => {}
            Self::Json(texts) => out.push_str(texts.value(row)),
            Self::Plain(texts) => match texts.value(row) {
                // JSON has no such numbers.
                text @ ("NaN" | "Infinity" | "-Infinity") => put_quoted(text, out),
                text => out.push_str(text),
            },
            Self::Quoted(texts) => put_quoted(texts.value(row), out),
            Self::List { lists, elements } => {
                let offsets = lists.value_offsets();
                let place = |row: usize| offsets.get(row).map_or(0, |offset| *offset as usize);
                out.push('[');
                for element in place(row)..place(row + 1) {
                    if element > place(row) {
                        out.push(',');
                    }
                    elements.put(element, out);
                }
                out.push(']');
            }
            Self::Row { columns, .. } => {
                out.push('{');
                for (place, (name, column)) in columns.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    put_quoted(name, out);
                    out.push(':');
                    column.put(row, out);
                }
                out.push('}');
            }
        }
    }
}

fn strings(values: &ArrayRef) -> Result<StringArray> {
    Ok(cast(values, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// PostgreSQL's text of a time in the form of ISO 8601: `2026-01-01T00:00:00+02:00`.
pub(super) fn iso(time: &str, has_zone: bool) -> String {
    let (time, era) = time.strip_suffix(" BC").map_or((time, ""), |time| (time, " BC"));
    let zone = time.rfind(['+', '-']).map_or("", |sign| time.get(sign + 1..).unwrap_or_default());
    let minutes = if has_zone && !zone.contains(':') { ":00" } else { "" };
    format!("{}{minutes}{era}", time.replacen(' ', "T", 1))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("\\x");
    for byte in bytes {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
