//! `fleetdb export`: writes the rows of a table or query to a Parquet or CSV file.

use crate::progress::{bar, counted};
use crate::stdout::print_line;
use crate::{DEFAULT_DATA, close, open, open_reader};
use fleetdb_engine::{Error, Result};
use fleetdb_postgres::Postgres;
use fleetdb_query::{FileFormat, Session, write_file};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("rows").required(true)))]
pub struct Args {
    /// The database directory
    #[arg(long, default_value = DEFAULT_DATA)]
    data: PathBuf,
    /// The table to export
    #[arg(long, group = "rows")]
    table: Option<String>,
    /// The query whose rows are exported
    #[arg(long, group = "rows")]
    sql: Option<String>,
    /// Read only; another process may have the database open
    #[arg(long)]
    read_only: bool,
    /// The file to write, which must not exist; its extension, .parquet or .csv, selects the format
    file: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let query = match (&args.table, &args.sql) {
        (Some(table), _) => format!("SELECT * FROM \"{}\"", table.replace('"', "\"\"")),
        (None, Some(sql)) => sql.clone(),
        (None, None) => return Err(Error::invalid("use --table or --sql to say what to export")),
    };
    let format = FileFormat::of(&args.file)?;
    let rows = if args.read_only {
        export(&Session::read_only(open_reader(&args.data)?, Postgres::new())?, &query, &args.file, format)?
    } else {
        let db = open(&args.data, false)?;
        let session = Session::new(Arc::clone(&db), Postgres::new())?;
        let outcome = export(&session, &query, &args.file, format);
        drop(session);
        close(db)?;
        outcome?
    };
    print_line!("exported {} to {}", counted(rows, "row"), args.file.display());
    Ok(())
}

fn export(session: &Session, query: &str, path: &Path, format: FileFormat) -> Result<u64> {
    let answer = session.sql(query)?;
    let progress = bar(0, "exporting", "rows");
    let rows = write_file(answer, path, format, |rows| progress.inc(rows));
    progress.finish_and_clear();
    rows
}
