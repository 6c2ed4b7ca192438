//! `fleetdb export`: writes the rows of a table or query as Parquet, CSV or JSON, plain or compressed,
//! to a file or standard output.

use crate::progress::{bar, counted};
use crate::stdout::print_line;
use crate::{DEFAULT_DATA, close, io_error, open, open_reader};
use flate2::write::GzEncoder;
use fleetdb_engine::{Error, Result};
use fleetdb_postgres::Postgres;
use fleetdb_query::{Answer, FileFormat, Session, distinct_names, json_lines, with_names, write_rows};
use std::fs::File;
use std::io::Write;
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
    /// The format, if the file name does not tell it
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The file to write, which must not exist; - is standard output. Its extension selects the format:
    /// .parquet, .csv or .ndjson, with .gz or .zst appended to compress it
    file: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Parquet
    Parquet,
    /// CSV with a header
    Csv,
    /// A JSON object for each row, each on its own line
    Ndjson,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

/// What the arguments say of the file.
fn form_of(args: &Args) -> Result<(Format, Compression)> {
    let name = args.file.to_string_lossy();
    let (plain, compression) = match (name.strip_suffix(".gz"), name.strip_suffix(".zst")) {
        (Some(plain), _) => (plain, Compression::Gzip),
        (None, Some(plain)) => (plain, Compression::Zstd),
        (None, None) => (name.as_ref(), Compression::None),
    };
    let named = match plain.rsplit_once('.').map(|(_, ending)| ending) {
        Some("parquet") => Some(Format::Parquet),
        Some("csv") => Some(Format::Csv),
        Some("ndjson" | "jsonl" | "json") => Some(Format::Ndjson),
        _ => None,
    };
    let format = args.format.or(named).ok_or_else(|| {
        Error::invalid(format!("{name}: unknown file extension (known are .parquet, .csv and .ndjson): use --format"))
    })?;
    Ok((format, compression))
}

pub fn run(args: &Args) -> Result<()> {
    let query = match (&args.table, &args.sql) {
        (Some(table), _) => format!("SELECT * FROM \"{}\"", table.replace('"', "\"\"")),
        (None, Some(sql)) => sql.clone(),
        (None, None) => return Err(Error::invalid("use --table or --sql to say what to export")),
    };
    let (format, compression) = form_of(args)?;
    let export = |session: &Session| export(session.sql(&query)?, &args.file, format, compression);
    let rows = if args.read_only {
        export(&Session::read_only(open_reader(&args.data)?, Postgres::new())?)?
    } else {
        let db = open(&args.data, false)?;
        let session = Session::new(Arc::clone(&db), Postgres::new())?;
        let outcome = export(&session);
        drop(session);
        close(db)?;
        outcome?
    };
    if args.file.as_os_str() != "-" {
        print_line!("exported {} to {}", counted(rows, "row"), args.file.display());
    }
    Ok(())
}

/// Writes an answer's rows. On error, no file is left behind.
fn export(answer: Answer, path: &Path, format: Format, compression: Compression) -> Result<u64> {
    if path.as_os_str() == "-" {
        return compressed(answer, std::io::stdout(), "standard output", format, compression);
    }
    let name = path.display().to_string();
    let file = File::create_new(path).map_err(|e| io_error(format_args!("could not create {name}"), &e))?;
    let written = compressed(answer, file, &name, format, compression);
    if written.is_err() {
        std::fs::remove_file(path).map_err(|e| io_error(format_args!("could not remove {name}"), &e))?;
    }
    written
}

fn compressed(
    answer: Answer,
    out: impl Write + Send,
    name: &str,
    format: Format,
    compression: Compression,
) -> Result<u64> {
    let failed = |e: &std::io::Error| io_error(format_args!("could not write {name}"), e);
    match compression {
        Compression::None => write(answer, out, name, format),
        Compression::Gzip => {
            let mut out = GzEncoder::new(out, flate2::Compression::default());
            let rows = write(answer, &mut out, name, format)?;
            out.finish().and_then(|mut out| out.flush()).map_err(|e| failed(&e))?;
            Ok(rows)
        }
        Compression::Zstd => {
            let mut out = zstd::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(|e| failed(&e))?;
            let rows = write(answer, &mut out, name, format)?;
            out.finish().and_then(|mut out| out.flush()).map_err(|e| failed(&e))?;
            Ok(rows)
        }
    }
}

fn write(answer: Answer, mut out: impl Write + Send, name: &str, format: Format) -> Result<u64> {
    let progress = bar(0, "exporting", "rows");
    let what = format!("write {name}");
    let rows = match format {
        Format::Parquet => write_rows(answer, out, FileFormat::Parquet, &what, |rows| progress.inc(rows)),
        Format::Csv => write_rows(answer, out, FileFormat::Csv, &what, |rows| progress.inc(rows)),
        Format::Ndjson => {
            let failed = |e: &dyn std::fmt::Display| Error::invalid(format!("{what}: {e}"));
            let schema = answer.schema().ok_or_else(|| Error::invalid("the statement gives no rows to write"))?;
            let schema = distinct_names(&schema);
            let (mut lines, mut rows) = (Vec::new(), 0);
            for batch in answer {
                let batch = with_names(batch?, &schema)?;
                json_lines(&batch, true, &mut lines).map_err(|e| failed(&e))?;
                out.write_all(&lines).map_err(|e| failed(&e))?;
                lines.clear();
                rows += batch.num_rows() as u64;
                progress.inc(batch.num_rows() as u64);
            }
            out.flush().map_err(|e| failed(&e))?;
            Ok(rows)
        }
    };
    progress.finish_and_clear();
    rows
}
