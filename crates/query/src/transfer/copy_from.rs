//! `COPY table FROM 'file'`: imports a CSV file with a header, or a Parquet file. Columns are
//! matched by name.

use crate::transfer::csv::{CellReader, CsvReader};
use crate::transfer::export::FileFormat;
use crate::transfer::files::Files;
use crate::write::not_null::check_not_null;
use datafusion::sql::sqlparser::ast::{CopySource, CopyTarget, Statement};
use fleetdb_engine::{Database, Error, Result, Rows, TableSchema};
use fleetdb_functions::values::zone::Zone;
use fleetdb_plan::insert::BatchWriter;
use fleetdb_statement::names::object_name;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Number of rows read at once.
const READ_ROWS: usize = 8_192;
/// Number of CSV bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// Runs the statement; returns the number of rows written.
pub(crate) fn copy_from(db: &Database, statement: &Statement, files: &Files, zone: Zone) -> Result<u64> {
    let Statement::Copy {
        source: CopySource::Table { table_name, columns },
        to: false,
        target,
        options,
        legacy_options,
        ..
    } = statement
    else {
        return Err(Error::invalid("COPY is COPY table FROM 'file', COPY table TO 'file' or COPY (query) TO 'file'"));
    };
    let CopyTarget::File { filename } = target else {
        return Err(Error::invalid("COPY reads from a file: give its name in quotes"));
    };
    if !columns.is_empty() || !options.is_empty() || !legacy_options.is_empty() {
        return Err(Error::invalid("COPY ... FROM takes no options: columns are matched by the names in the file"));
    }
    let name = object_name(table_name)?;
    let view = db.view();
    let schema = view.table(&name)?.schema();
    let path = Path::new(filename);
    files.check(path)?;
    let wrong = |e: &dyn std::fmt::Display| Error::invalid(format!("{filename}: {e}"));
    let file = File::open(path).map_err(|e| Error::io(format!("open {filename}"), &e))?;
    let mut writer = BatchWriter::new(db, &name);
    match FileFormat::of(path)? {
        FileFormat::Csv => read_csv(db, file, filename, schema, zone, &mut writer)?,
        FileFormat::Parquet => {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| wrong(&e))?;
            let mut before = 0;
            for rows in builder.with_batch_size(READ_ROWS).build().map_err(|e| wrong(&e))? {
                let rows = rows.map_err(|e| wrong(&e))?;
                check_not_null(schema, &rows, before).map_err(|e| e.context(filename))?;
                before += rows.num_rows() as u64;
                writer.add(rows)?;
            }
        }
    }
    writer.finish()
}

/// Reads a CSV file with a header.
fn read_csv(
    db: &Database,
    mut file: File,
    filename: &str,
    schema: &Arc<TableSchema>,
    zone: Zone,
    writer: &mut BatchWriter<'_>,
) -> Result<()> {
    let wrong = |line: u64, e: &dyn std::fmt::Display| Error::invalid(format!("{filename}, line {line}: {e}"));
    let at = |line: u64| format!("{filename}, line {line}");
    let (mut reader, mut cells) = (CsvReader::new(b','), None::<CellReader>);
    let mut rows = Rows::new(schema);
    let mut piece = vec![0; READ_BYTES];
    loop {
        let count = file.read(&mut piece).map_err(|e| Error::io(format!("read {filename}"), &e))?;
        reader.push(&piece[..count]);
        while let Some(row) = reader.next_row(count == 0).map_err(|e| wrong(e.line, &e.reason))? {
            let line = row.line;
            let of_row = row.cells().map_err(|e| wrong(line, &e))?;
            let Some(cells) = &mut cells else {
                let reader = CellReader::of_header(Arc::clone(schema), &of_row, zone);
                cells = Some(reader.map_err(|e| e.context(at(line)))?);
                continue;
            };
            // With a single column, an empty line is a row with NULL.
            if row.is_empty() && cells.places().len() > 1 {
                continue;
            }
            let values = of_row.into_iter().map(|cell| cell.value(""));
            cells.push(db, values, &mut rows).map_err(|e| e.context(at(line)))?;
            if rows.len() >= READ_ROWS {
                writer.add(std::mem::replace(&mut rows, Rows::new(schema)).finish()?)?;
            }
        }
        if count == 0 {
            return writer.add(rows.finish()?);
        }
    }
}
