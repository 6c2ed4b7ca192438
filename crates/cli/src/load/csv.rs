//! CSV with a header that names the table's columns. An unquoted empty cell is NULL.

use super::create::{SAMPLED_ROWS, create, type_of};
use super::input::Input;
use super::{Args, BATCH_ROWS, OnError, Tally, target};
use crate::io_error;
use fleetdb_engine::{Batch, Database, Error, Result, Rows, TableSchema};
use fleetdb_query::{CellReader, CsvReader};
use std::io::Read;
use std::sync::Arc;

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

pub fn load(db: &Database, args: &Args, mut input: Input, tally: &mut Tally) -> Result<()> {
    let (table, schema) = target(db, args)?;
    let mut load =
        Load { db, args, table, file: input.name.clone(), tally, schema, names: None, first: Vec::new(), into: None };
    let mut reader = CsvReader::new(args.delimiter);
    let mut piece = vec![0; READ_BYTES];
    loop {
        let count = input.reader.read(&mut piece);
        let count = count.map_err(|e| io_error(format_args!("could not read {}", load.file), &e))?;
        reader.push(&piece[..count]);
        loop {
            match reader.next_row(count == 0) {
                Ok(Some(row)) => {
                    let (line, lines, is_empty) = (row.line, row.lines, row.is_empty());
                    let cells = row.cells().map(|cells| cells.into_iter().map(|cell| cell.value(&args.null)).collect());
                    load.row(Row { line, lines, is_empty, cells })?;
                }
                Ok(None) => break,
                // After an open quote the start of the next row is uncertain, so no row can be
                // skipped to.
                Err(e) => {
                    if args.on_error == OnError::Skip {
                        load.finish()?;
                    }
                    return Err(load.wrong(e.line, &e.reason));
                }
            }
        }
        if count == 0 {
            break;
        }
    }
    load.finish()?;
    input.progress.finish_and_clear();
    Ok(())
}

/// A row of the file.
struct Row {
    line: u64,
    /// How many lines it spans.
    lines: u64,
    is_empty: bool,
    cells: Result<Vec<Option<String>>>,
}

/// A load in progress.
struct Load<'a> {
    db: &'a Database,
    args: &'a Args,
    table: &'a str,
    file: String,
    tally: &'a mut Tally,
    /// `None` until the table is created.
    schema: Option<Arc<TableSchema>>,
    /// The table's names of the file's columns; `None` before the header.
    names: Option<Vec<String>>,
    /// The first rows, if the table is to be created from them.
    first: Vec<Row>,
    into: Option<(CellReader, Rows)>,
}

impl Load<'_> {
    fn wrong(&self, line: u64, reason: &dyn std::fmt::Display) -> Error {
        Error::invalid(format!("{}, line {line}: {reason}", self.file))
    }

    fn row(&mut self, row: Row) -> Result<()> {
        if self.names.is_none() {
            let header = row.cells.map_err(|e| self.wrong(row.line, &e))?;
            // Some programs write a leading byte order mark.
            let name =
                |cell: Option<String>| self.args.column(cell.unwrap_or_default().trim_start_matches('\u{feff}').trim());
            self.names = Some(header.into_iter().map(name).collect());
            return if self.schema.is_some() { self.begin(row.line) } else { Ok(()) };
        }
        if self.into.is_none() {
            self.first.push(row);
            return if self.first.len() < SAMPLED_ROWS { Ok(()) } else { self.write_first() };
        }
        self.write(row)
    }

    /// Creates the table from the first rows, and writes them.
    fn write_first(&mut self) -> Result<()> {
        let Some(names) = &self.names else { return Ok(()) };
        let column = |(place, name): (usize, &String)| {
            let cells = self.first.iter().filter_map(|row| row.cells.as_ref().ok()?.get(place)?.as_deref());
            (name.clone(), type_of(name, cells, self.args.epoch.is_some(), self.args.decimal_comma))
        };
        let columns = names.iter().enumerate().map(column).collect();
        self.schema = Some(create(self.db, self.args, self.table, columns)?);
        self.begin(1)?;
        std::mem::take(&mut self.first).into_iter().try_for_each(|row| self.write(row))
    }

    /// Begins to write rows to the table.
    fn begin(&mut self, header: u64) -> Result<()> {
        let (Some(schema), Some(names)) = (&self.schema, &self.names) else { return Ok(()) };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let cells = CellReader::new(Arc::clone(schema), &names, self.args.zone).map_err(|e| self.wrong(header, &e))?;
        self.into = Some((cells.with_numbers(self.args.numbers()?), Rows::new(schema)));
        Ok(())
    }

    fn write(&mut self, row: Row) -> Result<()> {
        let Some((cells, rows)) = &mut self.into else { return Ok(()) };
        // An empty line is a row only if the rows have a single column, which is then NULL.
        if row.is_empty && cells.places().len() > 1 {
            return Ok(());
        }
        if let Err(e) = row.cells.and_then(|row| cells.push(self.db, row.into_iter(), rows)) {
            let end = match row.lines {
                1 => String::new(),
                lines => format!(" (the row continues to line {})", row.line + lines - 1),
            };
            let error = self.wrong(row.line, &format!("{e}{end}"));
            return self.tally.refuse(self.args.on_error, error);
        }
        if rows.len() >= BATCH_ROWS { self.commit() } else { Ok(()) }
    }

    /// Writes what is left.
    fn finish(&mut self) -> Result<()> {
        if self.into.is_none() && self.names.is_some() {
            self.write_first()?;
        }
        self.commit()
    }

    fn commit(&mut self) -> Result<()> {
        let Some((cells, rows)) = &mut self.into else { return Ok(()) };
        let rows = std::mem::replace(rows, Rows::new(cells.schema()));
        let count = rows.len() as u64;
        if count > 0 {
            self.db.commit(Batch::new().with_rows(rows).with_durability(self.args.durability))?;
            self.tally.loaded += count;
        }
        Ok(())
    }
}
