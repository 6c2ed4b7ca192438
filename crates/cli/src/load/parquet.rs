//! Loads Parquet; columns are matched by name.

use super::create::create;
use super::input::Input;
use super::{Args, BATCH_ROWS, Tally, target};
use crate::io_error;
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use fleetdb_engine::{Batch, ColumnType, Database, Error, Result};
use fleetdb_query::check_not_null;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::reader::ChunkReader;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

pub fn load(db: &Database, args: &Args, mut input: Input, tally: &mut Tally) -> Result<()> {
    if args.file.as_os_str() != "-"
        && let Ok(file) = File::open(&args.file)
        && args.file.extension().is_some_and(|ending| ending == "parquet")
    {
        return load_from(db, args, file, &input, tally);
    }
    // Reading Parquet starts at its end, so a stream must be held in memory.
    let mut bytes = Vec::new();
    input.reader.read_to_end(&mut bytes).map_err(|e| io_error(format_args!("could not read {}", input.name), &e))?;
    load_from(db, args, bytes::Bytes::from(bytes), &input, tally)
}

fn load_from(
    db: &Database,
    args: &Args,
    file: impl ChunkReader + 'static,
    input: &Input,
    tally: &mut Tally,
) -> Result<()> {
    let (name, table) = target(db, args)?;
    let wrong = |reason: String| Error::invalid(format!("{}: {reason}", input.name));
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| wrong(e.to_string()))?;
    let fields = builder.schema().fields().iter();
    let names: Vec<String> = fields.clone().map(|field| args.column(field.name())).collect();
    let schema = match table {
        Some(table) => table,
        None => {
            let types = fields.map(|field| ColumnType::of_field(field)).collect::<Result<Vec<_>>>();
            let types = types.map_err(|e| e.context(&input.name))?;
            create(db, args, name, names.iter().cloned().zip(types).collect())?
        }
    };
    input.progress.set_length(builder.metadata().file_metadata().num_rows().max(0) as u64);
    let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(|e| wrong(e.to_string()))?;
    for rows in reader {
        let rows = rows.map_err(|e| wrong(e.to_string()))?;
        let fields = rows
            .schema()
            .fields()
            .iter()
            .zip(&names)
            .map(|(field, name)| field.as_ref().clone().with_name(name))
            .collect::<Vec<_>>();
        let schema_of_file = Arc::new(Schema::new(fields));
        let rows = RecordBatch::try_new(schema_of_file, rows.columns().to_vec()).map_err(|e| wrong(e.to_string()))?;
        let count = rows.num_rows() as u64;
        check_not_null(&schema, &rows, tally.loaded).map_err(|e| e.context(&input.name))?;
        let written = db.commit(Batch::new().with(&schema.name, rows).with_durability(args.durability));
        written.map_err(|e| e.context(format_args!("{}, from row {}", input.name, tally.loaded + 1)))?;
        tally.loaded += count;
        input.progress.set_position(tally.loaded);
    }
    input.progress.finish_and_clear();
    Ok(())
}
