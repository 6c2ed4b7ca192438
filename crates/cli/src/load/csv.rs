//! CSV with a header: its names are the table's columns; an empty cell is NULL.

use super::input::Input;
use super::{Args, BATCH_ROWS, Tally, target};
use ::csv::{ReaderBuilder, StringRecord};
use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema};
use fleetdb_engine::{Batch, Database, Error, Result, TableSchema};
use std::sync::Arc;

pub fn load(db: &Database, args: &Args, input: Input, tally: &mut Tally) -> Result<()> {
    let schema = target(db, args)?;
    let mut reader = ReaderBuilder::new().flexible(true).from_reader(input.reader);
    let wrong = |line: u64, reason: String| Error::input(format!("{}, line {line}: {reason}", input.name));
    let header = reader.headers().map_err(|e| wrong(1, e.to_string()))?.clone();
    let mut columns = Vec::new();
    for name in &header {
        columns.push(schema.column_index(name.trim()).map_err(|e| wrong(1, e.to_string()))?);
    }
    let mut pending = Pending::new(columns.len());
    let mut record = StringRecord::new();
    loop {
        let more = reader.read_record(&mut record);
        let line = record.position().map_or_else(|| reader.position().line(), |position| position.line());
        match more {
            Ok(true) if record.len() != columns.len() => {
                let reason = format!("{} values, the header has {}", record.len(), columns.len());
                tally.refuse(args.on_error, wrong(line, reason))?;
            }
            Ok(true) => pending.push(&record, line),
            Ok(false) => break,
            Err(e) => tally.refuse(args.on_error, wrong(line, e.to_string()))?,
        }
        if pending.lines.len() >= BATCH_ROWS {
            let full = std::mem::replace(&mut pending, Pending::new(columns.len()));
            commit(db, &schema, args, full, &columns, &wrong, tally)?;
        }
    }
    commit(db, &schema, args, pending, &columns, &wrong, tally)?;
    input.progress.finish_and_clear();
    Ok(())
}

/// Rows read and not yet converted.
struct Pending {
    cells: Vec<StringBuilder>,
    lines: Vec<u64>,
}

impl Pending {
    fn new(columns: usize) -> Self {
        Self { cells: (0..columns).map(|_| StringBuilder::new()).collect(), lines: Vec::new() }
    }

    fn push(&mut self, record: &StringRecord, line: u64) {
        for (cells, cell) in self.cells.iter_mut().zip(record) {
            cells.append_option((!cell.is_empty()).then_some(cell));
        }
        self.lines.push(line);
    }
}

fn commit(
    db: &Database,
    schema: &TableSchema,
    args: &Args,
    pending: Pending,
    columns: &[usize],
    wrong: &dyn Fn(u64, String) -> Error,
    tally: &mut Tally,
) -> Result<()> {
    let mut keep = vec![true; pending.lines.len()];
    let (mut fields, mut arrays): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for (mut cells, &place) in pending.cells.into_iter().zip(columns) {
        let column = &schema.columns[place];
        let text: StringArray = cells.finish();
        let data_type = column.column_type.to_arrow();
        let values = cast(&text, &data_type)
            .map_err(|e| Error::input(format!("column '{}' cannot be read from CSV: {e}", column.name)))?;
        for (row, keep) in keep.iter_mut().enumerate() {
            let reason = if text.is_valid(row) && values.is_null(row) {
                format!("column '{}': '{}' is not a {}", column.name, text.value(row), column.column_type)
            } else if text.is_null(row) && !column.nullable {
                format!("column '{}' is empty and must not be NULL", column.name)
            } else {
                continue;
            };
            if std::mem::replace(keep, false) {
                tally.refuse(args.on_error, wrong(pending.lines[row], reason))?;
            }
        }
        fields.push(Field::new(&column.name, data_type, true));
        arrays.push(values);
    }
    if arrays.is_empty() || keep.is_empty() {
        return Ok(());
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|e| Error::bug(format!("CSV rows do not make a batch: {e}")))?;
    let batch = arrow::compute::filter_record_batch(&batch, &keep.into())
        .map_err(|e| Error::bug(format!("leaving bad rows out: {e}")))?;
    let rows = batch.num_rows() as u64;
    db.commit_with(Batch::new().with(&schema.name, batch), args.durability)?;
    tally.loaded += rows;
    Ok(())
}
