//! Rows of texts as rows of a table.

use super::reader::CsvCell;
use crate::values::value_of_text;
use fleetdb_engine::{Code, ColumnType, Error, Result, Rows, TableSchema, Value};
use std::sync::Arc;

/// Reads the cells of a row as values of a table's columns, as SQL reads texts.
#[derive(Debug)]
pub struct CellReader {
    schema: Arc<TableSchema>,
    /// For each cell the column's place in the table.
    places: Vec<usize>,
    row: Vec<Value>,
}

impl CellReader {
    /// A reader of rows with these columns, all of the table's without any.
    ///
    /// # Errors
    /// A column is not in the table, or stands there twice.
    pub fn new(schema: Arc<TableSchema>, names: &[&str]) -> Result<Self> {
        let mut places = Vec::with_capacity(names.len());
        for name in names {
            let place = schema.column_index(name)?;
            if places.contains(&place) {
                return Err(Error::invalid(format!("column '{name}' stands there twice")));
            }
            places.push(place);
        }
        if names.is_empty() {
            places = (0..schema.columns.len()).collect();
        }
        let row = vec![Value::Null; schema.columns.len()];
        Ok(Self { schema, places, row })
    }

    /// A reader of rows under a header, which has the columns' names.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_header(schema: Arc<TableSchema>, header: &[CsvCell]) -> Result<Self> {
        // Some programs write a byte order mark in front.
        let names: Vec<&str> = header.iter().map(|cell| cell.text.trim_start_matches('\u{feff}').trim()).collect();
        Self::new(schema, &names)
    }

    /// The table.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// For each cell the column's place in the table.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// Adds a row of cells; `None` is NULL.
    ///
    /// # Errors
    /// There are more or fewer cells than columns, or a cell is no value of its column; the row is not added then.
    pub fn push(&mut self, cells: impl ExactSizeIterator<Item = Option<String>>, rows: &mut Rows) -> Result<()> {
        if cells.len() != self.places.len() {
            return Err(Error::new(
                Code::InvalidCopy,
                format!("{} values for {} columns", cells.len(), self.places.len()),
            ));
        }
        for (cell, &place) in cells.zip(&self.places) {
            let column = &self.schema.columns[place];
            self.row[place] = match cell {
                None if !column.nullable => {
                    return Err(Error::new(Code::NotNull, format!("column '{}': it must not be NULL", column.name)));
                }
                None => Value::Null,
                Some(text) if column.column_type == ColumnType::Utf8 => Value::Text(text),
                Some(text) => {
                    let value = value_of_text(&text, column.column_type);
                    value.map_err(|e| e.context(format_args!("column '{}'", column.name)))?
                }
            };
        }
        rows.push(&self.row)
    }
}
