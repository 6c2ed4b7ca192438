//! `COPY table FROM 'file'`: rows of a CSV file with a header, or of a Parquet file; columns are matched by name.

use crate::ddl::object_name;
use crate::export::FileFormat;
use crate::insert::Gather;
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use arrow::datatypes::{Field, Schema};
use datafusion::sql::sqlparser::ast::{CopySource, CopyTarget, Statement};
use fleetdb_engine::{Database, Error, Result, TableSchema};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::io::Seek;
use std::path::Path;
use std::sync::Arc;

/// Rows that are read at once.
const READ_ROWS: usize = 8_192;

/// Runs the statement. Gives how many rows were written.
pub(crate) fn copy_from(db: &Database, statement: &Statement) -> Result<u64> {
    let Statement::Copy {
        source: CopySource::Table { table_name, columns },
        to: false,
        target,
        options,
        legacy_options,
        ..
    } = statement
    else {
        return Err(Error::input("COPY is COPY table FROM 'file', COPY table TO 'file' or COPY (query) TO 'file'"));
    };
    let CopyTarget::File { filename } = target else {
        return Err(Error::input("COPY reads from a file: give its name in quotes"));
    };
    if !columns.is_empty() || !options.is_empty() || !legacy_options.is_empty() {
        return Err(Error::input("COPY ... FROM takes no options: columns are matched by the names in the file"));
    }
    let name = object_name(table_name)?;
    let view = db.view();
    let schema = view.table(&name)?.schema();
    let path = Path::new(filename);
    let wrong = |e: &dyn std::fmt::Display| Error::input(format!("{filename}: {e}"));
    let mut file = File::open(path).map_err(|e| Error::io(format!("open {filename}"), &e))?;
    let mut gather = Gather::new(db, &name);
    match FileFormat::of(path)? {
        FileFormat::Csv => {
            let (found, _) =
                Format::default().with_header(true).infer_schema(&mut file, Some(0)).map_err(|e| wrong(&e))?;
            file.rewind().map_err(|e| Error::io(format!("read {filename}"), &e))?;
            let fields = header(schema, &found).map_err(|e| e.context(filename))?;
            let reader = ReaderBuilder::new(Arc::new(fields)).with_header(true).with_batch_size(READ_ROWS);
            for rows in reader.build(file).map_err(|e| wrong(&e))? {
                gather.add(rows.map_err(|e| wrong(&e))?)?;
            }
        }
        FileFormat::Parquet => {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| wrong(&e))?;
            for rows in builder.with_batch_size(READ_ROWS).build().map_err(|e| wrong(&e))? {
                gather.add(rows.map_err(|e| wrong(&e))?)?;
            }
        }
    }
    gather.finish()
}

/// A CSV file's columns with the types that the table gives them.
fn header(schema: &TableSchema, found: &Schema) -> Result<Schema> {
    let field = |field: &Arc<Field>| {
        let column = &schema.columns[schema.column_index(field.name().trim())?];
        Ok(Field::new(&column.name, column.column_type.to_arrow(), true))
    };
    Ok(Schema::new(found.fields().iter().map(field).collect::<Result<Vec<_>>>()?))
}
