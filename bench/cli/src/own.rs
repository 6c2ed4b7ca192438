//! Reads a user's own rows from a file, for `run own`.

use arrow::array::RecordBatch;
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::experiment::own::Scale;
use fleetdb_bench_core::workload::own::{Mapping, Own, Unit};
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, LineParser, Settings};
use fleetdb_postgres::Postgres;
use fleetdb_query::Session;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::Path;
use std::sync::Arc;

/// Lines of line protocol to read at a time.
const LINES: usize = 10_000;
/// Rows of a CSV file from which the types of its columns are inferred.
const TOLD_BY_ROWS: usize = 10_000;

/// Reads the given files; an error names the file.
pub fn read(scale: &Scale) -> Outcome<Own> {
    let of = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&scale.mapping).map_err(|e| of(&scale.mapping, &e))?;
    let mapping: Mapping = toml::from_str(&text).map_err(|e| of(&scale.mapping, &e))?;
    let batches = match scale.data.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => csv(&scale.data),
        Some("parquet") => parquet(&scale.data),
        _ => lines(&scale.data, &mapping),
    };
    let own = batches.and_then(|batches| Own::new(&mapping, &batches)).map_err(|e| of(&scale.data, &e))?;
    if own.left_out > 0 {
        eprintln!("{}: skipping {} rows without a key or a time", scale.data.display(), own.left_out);
    }
    Ok(own)
}

fn csv(path: &Path) -> Outcome<Vec<RecordBatch>> {
    let mut file = File::open(path)?;
    let (schema, _) = Format::default().with_header(true).infer_schema(&mut file, Some(TOLD_BY_ROWS))?;
    file.rewind()?;
    Ok(ReaderBuilder::new(Arc::new(schema)).with_header(true).build(file)?.collect::<Result<_, _>>()?)
}

fn parquet(path: &Path) -> Outcome<Vec<RecordBatch>> {
    Ok(ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.build()?.collect::<Result<_, _>>()?)
}

/// Parses lines in portions with in-memory FleetDB databases, so FleetDB's own parser decides what
/// a line means.
fn lines(path: &Path, mapping: &Mapping) -> Outcome<Vec<RecordBatch>> {
    let measurement = mapping.measurement.as_ref().ok_or("line protocol requires a `measurement` in the mapping")?;
    let precision = match mapping.time_unit {
        None | Some(Unit::Ns) => fleetdb_engine::Unit::Nanosecond,
        Some(Unit::Us) => fleetdb_engine::Unit::Microsecond,
        Some(Unit::Ms) => fleetdb_engine::Unit::Millisecond,
        Some(Unit::S) => fleetdb_engine::Unit::Second,
    };
    let mut lines = BufReader::new(File::open(path)?).lines().enumerate().peekable();
    let mut batches = Vec::new();
    while lines.peek().is_some() {
        let db = Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default())?);
        let mut parser = LineParser::new(&db, precision, 0);
        for (number, line) in lines.by_ref().take(LINES) {
            parser.parse(&line?).map_err(|e| format!("line {}: {e}", number + 1))?;
        }
        parser.commit(fleetdb_engine::Durability::Os)?;
        if db.table(measurement).is_ok() {
            let rows = format!("SELECT * FROM \"{}\"", measurement.replace('"', "\"\""));
            batches.extend(Session::new(Arc::clone(&db), Postgres::new())?.sql(&rows)?.collect()?);
        }
    }
    Ok(batches)
}
