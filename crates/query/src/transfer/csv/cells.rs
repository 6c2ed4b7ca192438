//! Converts rows of text cells to rows of a table.

use super::reader::CsvCell;
use fleetdb_direct::cells::{Cell, Generated, KnownDefault, canonical, default_of};
use fleetdb_engine::{Code, Column, ColumnType, Database, Decimal, Error, Result, Rows, TableSchema, Unit, Value};
use fleetdb_functions::values::literals::{value_of_text, value_of_text_in};
use fleetdb_functions::values::zone::Zone;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

/// How a file writes numbers, where that is not as SQL does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumberForms {
    /// The unit of numbers that stand for times since 1970.
    pub epoch: Option<Unit>,
    /// Whether a comma stands before the decimals.
    pub has_comma: bool,
}

impl NumberForms {
    /// A cell's value if it is a number in such a form.
    fn read(self, text: &str, column_type: ColumnType) -> Option<Result<Value>> {
        let with_point = || if self.has_comma { Cow::Owned(text.replace(',', ".")) } else { Cow::Borrowed(text) };
        if let (Some(unit), Some(to)) = (self.epoch, column_type.time_unit()) {
            let number = Decimal::read(&with_point())?;
            // Exact, and then rounded towards the past.
            let count = i128::from(number.unscaled) * i128::from(to.per_second());
            let count = count.div_euclid(i128::from(unit.per_second()) * 10i128.pow(number.scale.into()));
            let beyond = |_| Error::new(Code::TimeOutOfRange, format!("time {text} is out of range"));
            return Some(i64::try_from(count).map(Value::Int).map_err(beyond));
        }
        (self.has_comma && column_type.is_numeric()).then(|| value_of_text(&with_point(), column_type))
    }
}

/// Converts the cells of a row to values of a table's columns, as SQL parses text.
#[derive(Debug)]
pub struct CellReader {
    schema: Arc<TableSchema>,
    /// For each cell, the index of its column in the table.
    places: Vec<usize>,
    /// The indexes of the columns with a cell whose texts are stored in a canonical form.
    jsonb: Vec<usize>,
    /// The values of columns without a cell that each row gets anew.
    generated: Vec<(usize, Generated)>,
    zone: Zone,
    numbers: NumberForms,
    /// The time of all rows.
    now: SystemTime,
    /// The last row, with the constant defaults of columns without a cell.
    row: Vec<Value>,
}

impl CellReader {
    /// Creates a reader for rows with these columns; if there are none, all of the table's columns. Times
    /// without a zone are local times of the zone, for columns with a zone.
    ///
    /// # Errors
    /// A column is not in the table or is named twice, or the default of another must be planned.
    pub fn new(schema: Arc<TableSchema>, names: &[&str], zone: Zone) -> Result<Self> {
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
        let (mut row, mut generated) = (vec![Value::Null; schema.columns.len()], Vec::new());
        for (place, column) in schema.columns.iter().enumerate().filter(|(place, _)| !places.contains(place)) {
            match default_of(column, zone) {
                Some(KnownDefault::Cell(Cell::Value(value))) => row[place] = value,
                Some(KnownDefault::Generated(value)) => generated.push((place, value)),
                _ => {
                    let message =
                        format!("the default of column \"{}\" must be computed: give its values", column.name);
                    return Err(Error::new(Code::NotSupported, message));
                }
            }
        }
        let is_jsonb = |place: &usize| schema.columns[*place].column_type == ColumnType::Jsonb;
        let jsonb = places.iter().copied().filter(is_jsonb).collect();
        let (numbers, now) = (NumberForms::default(), SystemTime::now());
        Ok(Self { schema, places, jsonb, generated, zone, numbers, now, row })
    }

    /// Creates a reader for rows below a header with column names.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn of_header(schema: Arc<TableSchema>, header: &[CsvCell], zone: Zone) -> Result<Self> {
        // Some programs write a leading byte order mark.
        let names: Vec<&str> = header.iter().map(|cell| cell.text.trim_start_matches('\u{feff}').trim()).collect();
        Self::new(schema, &names, zone)
    }

    /// Reads numbers in these forms.
    #[must_use]
    pub fn with_numbers(self, numbers: NumberForms) -> Self {
        Self { numbers, ..self }
    }

    /// The table.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The index of each cell's column in the table.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// Appends a row of cells; `None` is NULL. The database numbers the row if it needs that.
    ///
    /// # Errors
    /// The number of cells differs from the number of columns, or a cell is not a valid value of
    /// its column. The row is not appended then.
    pub fn push(
        &mut self,
        db: &Database,
        cells: impl ExactSizeIterator<Item = Option<String>>,
        rows: &mut Rows,
    ) -> Result<()> {
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
                    let number = self.numbers.read(&text, column.column_type);
                    let value = number.unwrap_or_else(|| value_of_text_in(&text, column.column_type, self.zone));
                    value.map_err(|e| e.context(format_args!("column '{}'", column.name)))?
                }
            };
        }
        let mut row = std::mem::take(&mut self.row);
        let pushed = self.push_values(db, &mut row, rows);
        self.row = row;
        pushed
    }

    /// A row with the defaults of the columns that have no cell.
    pub fn without_cells(&self) -> Vec<Value> {
        self.row.clone()
    }

    /// Appends a row that has a value for each cell, and [defaults](Self::without_cells) for the other
    /// columns. It is changed to the row that is stored.
    ///
    /// # Errors
    /// A NOT NULL column is NULL, a value does not fit its column, or the database has no more numbers.
    /// The row is not appended then.
    pub fn push_values(&self, db: &Database, row: &mut [Value], rows: &mut Rows) -> Result<()> {
        for &place in &self.jsonb {
            let (column, value) = (&self.schema.columns[place], std::mem::replace(&mut row[place], Value::Null));
            let value = canonical(value, column.column_type);
            row[place] = value.map_err(|e| e.context(format_args!("column '{}'", column.name)))?;
        }
        for (place, generated) in &self.generated {
            row[*place] = generated.value(db, &self.schema, self.now)?;
        }
        let is_missing = |(column, value): &(&Column, &Value)| !column.nullable && **value == Value::Null;
        match self.schema.columns.iter().zip(row.iter()).find(is_missing) {
            Some((column, _)) => Err(self.schema.null_in(column)),
            None => rows.push(&*row),
        }
    }
}
