//! Rows as line protocol, for InfluxDB, GreptimeDB and QuestDB.

use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{Cell, cells};
use fleetdb_bench_core::table::{Column, ColumnType, Table};
use std::fmt::Write;

/// How a database reads lines.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    /// Whether integers in the key are tags.
    pub(crate) has_integer_tags: bool,
    /// The suffix of a time in a field.
    pub(crate) time_suffix: char,
}

/// Whether a column is a tag: the columns of the key, and text columns before the time.
pub(crate) fn is_tag(table: &Table, column: &Column, style: Style) -> bool {
    let place = |wanted: &dyn Fn(&Column) -> bool| table.columns.iter().position(wanted);
    let time = place(&|column| column.1 == ColumnType::Time && table.key.contains(&column.0));
    let is_before = time.is_some_and(|time| place(&|known| known == column) < Some(time));
    match column.1 {
        ColumnType::Text => is_before || table.key.contains(&column.0),
        ColumnType::Int => style.has_integer_tags && table.key.contains(&column.0),
        ColumnType::Float | ColumnType::Time | ColumnType::Json => false,
    }
}

/// Adds rows as lines. The rows of a table without a time in its key are all at 1970.
///
/// # Errors
/// None, unless writing to a string fails.
pub(crate) fn add(lines: &mut String, table: &Table, rows: &RecordBatch, style: Style) -> Outcome<()> {
    let tags: Vec<bool> = table.columns.iter().map(|column| is_tag(table, column, style)).collect();
    let escaped = |text: &str| text.replace(',', "\\,").replace('=', "\\=").replace(' ', "\\ ");
    for row in 0..rows.num_rows() {
        *lines += table.name;
        let cells: Vec<Cell<'_>> = cells(rows, row).collect();
        let columns = || table.columns.iter().zip(&cells).zip(&tags);
        for (((name, _), cell), _) in columns().filter(|(_, is_tag)| **is_tag) {
            match cell {
                Cell::Text(text) => write!(lines, ",{name}={}", escaped(text))?,
                Cell::Int(value) | Cell::Time(value) => write!(lines, ",{name}={value}")?,
                Cell::Float(value) => write!(lines, ",{name}={value}")?,
                Cell::Null => {}
            }
        }
        let (mut separator, mut time_ns) = (' ', 0);
        for (((name, _), cell), _) in columns().filter(|(_, is_tag)| !**is_tag) {
            match cell {
                Cell::Time(ns) if table.key.contains(name) => {
                    time_ns = *ns;
                    continue;
                }
                Cell::Null => continue,
                Cell::Int(value) => write!(lines, "{separator}{name}={value}i")?,
                Cell::Time(ns) => write!(lines, "{separator}{name}={ns}{}", style.time_suffix)?,
                Cell::Float(value) => write!(lines, "{separator}{name}={value}")?,
                Cell::Text(text) => {
                    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                    write!(lines, "{separator}{name}=\"{text}\"")?;
                }
            }
            separator = ',';
        }
        writeln!(lines, " {time_ns}")?;
    }
    Ok(())
}
