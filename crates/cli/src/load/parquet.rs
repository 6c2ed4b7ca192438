//! Loads Parquet; columns are matched by name.

use super::input::Input;
use super::{Args, BATCH_ROWS, Tally, target};
use crate::io_error;
use fleetdb_engine::{Batch, Database, Error, Result};
use fleetdb_query::check_not_null;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::reader::ChunkReader;
use std::fs::File;
use std::io::Read;

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
    let schema = target(db, args)?;
    let wrong = |reason: String| Error::invalid(format!("{}: {reason}", input.name));
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| wrong(e.to_string()))?;
    input.progress.set_length(builder.metadata().file_metadata().num_rows().max(0) as u64);
    let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(|e| wrong(e.to_string()))?;
    for rows in reader {
        let rows = rows.map_err(|e| wrong(e.to_string()))?;
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
