//! Converts rows of text cells to rows of a table.

use super::reader::CsvCell;
use fleetdb_engine::{Code, Column, ColumnType, Error, Result, Rows, TableSchema, Value};
use fleetdb_functions::values::literals::value_of_text_in;
use fleetdb_functions::values::zone::Zone;
use std::sync::Arc;

/// Converts the cells of a row to values of a table's columns, as SQL parses text.
#[derive(Debug)]
pub struct CellReader {
    schema: Arc<TableSchema>,
    /// For each cell, the index of its column in the table.
    places: Vec<usize>,
    zone: Zone,
    row: Vec<Value>,
}

impl CellReader {
    /// Creates a reader for rows with these columns; if there are none, all of the table's columns.
    ///
    /// # Errors
    /// A column is not in the table or is named twice.
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
        Ok(Self { schema, places, zone: Zone::Utc, row })
    }

    /// Creates a reader for rows below a header with column names.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn of_header(schema: Arc<TableSchema>, header: &[CsvCell]) -> Result<Self> {
        // Some programs write a leading byte order mark.
        let names: Vec<&str> = header.iter().map(|cell| cell.text.trim_start_matches('\u{feff}').trim()).collect();
        Self::new(schema, &names)
    }

    /// Reads times without a zone as local time in this zone, for columns with a zone.
    #[must_use]
    pub fn in_zone(self, zone: Zone) -> Self {
        Self { zone, ..self }
    }

    /// The table.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The index of each cell's column in the table.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// Appends a row of cells; `None` is NULL.
    ///
    /// # Errors
    /// The number of cells differs from the number of columns, or a cell is not a valid value of
    /// its column. The row is not appended then.
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
                None if !column.nullable => return Err(self.schema.null_in(column)),
                None => Value::Null,
                Some(text) if column.column_type == ColumnType::Utf8 => Value::Text(text),
                Some(text) => {
                    let value = value_of_text_in(&text, column.column_type, self.zone);
                    value.map_err(|e| e.context(format_args!("column '{}'", column.name)))?
                }
            };
        }
        self.check(&self.row)?;
        rows.push(&self.row)
    }

    /// Checks a complete row, including the columns that have no cell.
    ///
    /// # Errors
    /// A NOT NULL column is NULL.
    pub fn check(&self, row: &[Value]) -> Result<()> {
        let is_missing = |(column, value): &(&Column, &Value)| !column.nullable && **value == Value::Null;
        match self.schema.columns.iter().zip(row).find(is_missing) {
            Some((column, _)) => Err(self.schema.null_in(column)),
            None => Ok(()),
        }
    }
}
