//! `fleetdb export`: a table's or a query's rows as a Parquet or CSV file.

use crate::progress::{bar, thousands};
use crate::{DEFAULT_DATA, close, io_error, open, open_reader};
use arrow::csv::WriterBuilder;
use fleetdb_engine::{Error, Result};
use fleetdb_query::Session;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("rows").required(true)))]
pub struct Args {
    /// The database's directory
    #[arg(long, default_value = DEFAULT_DATA)]
    data: PathBuf,
    /// The table to export
    #[arg(long, group = "rows")]
    table: Option<String>,
    /// The query whose rows to export
    #[arg(long, group = "rows")]
    sql: Option<String>,
    /// Only read, beside a process that has the database open
    #[arg(long)]
    read_only: bool,
    /// The file to write; its ending (.parquet or .csv) says the format. It must not exist
    file: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let query = match (&args.table, &args.sql) {
        (Some(table), _) => format!("SELECT * FROM \"{}\"", table.replace('"', "\"\"")),
        (None, Some(sql)) => sql.clone(),
        (None, None) => return Err(Error::input("name what to export with --table or --sql")),
    };
    let csv = match args.file.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => true,
        Some("parquet") => false,
        _ => return Err(Error::input(format!("{}: the file must end in .parquet or .csv", args.file.display()))),
    };
    let rows = if args.read_only {
        export(&Session::read_only(open_reader(&args.data)?)?, &query, &args.file, csv)?
    } else {
        let db = open(&args.data, false)?;
        let session = Session::new(Arc::clone(&db))?;
        let outcome = export(&session, &query, &args.file, csv);
        drop(session);
        close(db)?;
        outcome?
    };
    println!("{} rows to {}", thousands(rows), args.file.display());
    Ok(())
}

fn export(session: &Session, query: &str, path: &Path, csv: bool) -> Result<u64> {
    let answer = session.sql(query)?;
    let schema = answer.schema().ok_or_else(|| Error::input("the statement gives no rows to export"))?;
    let failed = |e: &dyn std::fmt::Display| Error::input(format!("write {}: {e}", path.display()));
    let file = File::create_new(path).map_err(|e| io_error(format_args!("create {}", path.display()), &e))?;
    let out = BufWriter::new(file);
    let progress = bar(0, "exporting", "rows");
    let mut rows = 0;
    if csv {
        let mut writer = WriterBuilder::new().with_header(true).build(out);
        for batch in answer {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            progress.inc(batch.num_rows() as u64);
            writer.write(&batch).map_err(|e| failed(&e))?;
        }
    } else {
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
        let mut writer = ArrowWriter::try_new(out, schema, Some(properties)).map_err(|e| failed(&e))?;
        for batch in answer {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            progress.inc(batch.num_rows() as u64);
            writer.write(&batch).map_err(|e| failed(&e))?;
        }
        writer.close().map_err(|e| failed(&e))?;
    }
    progress.finish_and_clear();
    Ok(rows)
}
