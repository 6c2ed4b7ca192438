//! CSV as PostgreSQL defines it: an unquoted empty cell is NULL, `""` is the empty text, and quotes
//! may stand anywhere in a cell. All CSV in FleetDB is read and written here: `COPY` from and to
//! files, COPY over PostgreSQL's protocol, HTTP answers, and `fleetdb load`, `export` and `sql`.

mod cells;
mod reader;
mod writer;

pub use cells::{CellReader, NumberForms};
pub use reader::{CsvCell, CsvError, CsvReader, CsvRow};
pub use writer::{csv_cell, csv_header, csv_rows};

#[cfg(test)]
#[path = "csv_tests.rs"]
mod tests;
