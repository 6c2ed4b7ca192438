//! `fleetdb export`: writes the rows of a table or query as Parquet, CSV, JSON or line protocol, plain or
//! compressed, to a file or standard output.

mod lines;

use crate::progress::{bar, counted};
use crate::stdout::print_line;
use crate::{DEFAULT_DATA, close, io_error, is_bucket, open, open_reader};
use arrow::array::RecordBatch;
use flate2::write::GzEncoder;
use fleetdb_engine::{Error, Result, View};
use fleetdb_postgres::Postgres;
use fleetdb_query::{Answer, FileFormat, Session, distinct_names, json_lines, with_names, write_rows};
use lines::LineWriter;
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
    /// .parquet, .csv, .ndjson or .lp, with .gz or .zst appended to compress it
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
    /// Line protocol, with times in nanoseconds; needs --table, whose key columns are the tags
    Lp,
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
        Some("lp" | "line" | "lines" | "influx") => Some(Format::Lp),
        _ => None,
    };
    let format = args.format.or(named).ok_or_else(|| {
        let known = "known are .parquet, .csv, .ndjson and .lp";
        Error::invalid(format!("{name}: unknown file extension ({known}): use --format"))
    })?;
    Ok((format, compression))
}

/// What writes the rows.
enum Writer {
    File(FileFormat),
    Json,
    Lines(LineWriter),
}

impl Writer {
    fn of(format: Format, table: Option<&str>, view: impl FnOnce() -> View) -> Result<Self> {
        Ok(match (format, table) {
            (Format::Parquet, _) => Self::File(FileFormat::Parquet),
            (Format::Csv, _) => Self::File(FileFormat::Csv),
            (Format::Ndjson, _) => Self::Json,
            (Format::Lp, Some(table)) => Self::Lines(LineWriter::of(view().table(table)?.schema())?),
            (Format::Lp, None) => {
                let reason = "line protocol needs --table, whose key columns are the tags and whose others the fields";
                return Err(Error::invalid(reason));
            }
        })
    }
}

pub fn run(args: &Args) -> Result<()> {
    let query = match (&args.table, &args.sql) {
        (Some(table), _) => format!("SELECT * FROM \"{}\"", table.replace('"', "\"\"")),
        (None, Some(sql)) => sql.clone(),
        (None, None) => return Err(Error::invalid("use --table or --sql to say what to export")),
    };
    let (format, compression) = form_of(args)?;
    let table = args.table.as_deref();
    let export = |session: &Session, writer: &Writer| export(session.sql(&query)?, &args.file, writer, compression);
    let rows = if args.read_only || is_bucket(&args.data) {
        let reader = open_reader(&args.data)?;
        let writer = Writer::of(format, table, || reader.view())?;
        export(&Session::read_only(reader, Postgres::new())?, &writer)?
    } else {
        let db = open(&args.data, false)?;
        let written = Writer::of(format, table, || db.view()).and_then(|writer| {
            let session = Session::new(Arc::clone(&db), Postgres::new())?;
            export(&session, &writer)
        });
        close(db)?;
        written?
    };
    if rows.left_out > 0 {
        let left_out = counted(rows.left_out, "row");
        eprintln!("left out {left_out} without a field that is not NULL, because a line needs one");
    }
    if args.file.as_os_str() != "-" {
        print_line!("exported {} to {}", counted(rows.written, "row"), args.file.display());
    }
    Ok(())
}

/// The result of an export.
#[derive(Clone, Copy, Default)]
struct Tally {
    written: u64,
    /// Rows that the format cannot carry.
    left_out: u64,
}

/// Writes an answer's rows. On error, no file is left behind.
fn export(answer: Answer, path: &Path, writer: &Writer, compression: Compression) -> Result<Tally> {
    if path.as_os_str() == "-" {
        return compressed(answer, std::io::stdout(), "standard output", writer, compression);
    }
    let name = path.display().to_string();
    let file = File::create_new(path).map_err(|e| io_error(format_args!("could not create {name}"), &e))?;
    let written = compressed(answer, file, &name, writer, compression);
    if written.is_err() {
        std::fs::remove_file(path).map_err(|e| io_error(format_args!("could not remove {name}"), &e))?;
    }
    written
}

fn compressed(
    answer: Answer,
    out: impl Write + Send,
    name: &str,
    writer: &Writer,
    compression: Compression,
) -> Result<Tally> {
    let failed = |e: &std::io::Error| io_error(format_args!("could not write {name}"), e);
    match compression {
        Compression::None => write(answer, out, name, writer),
        Compression::Gzip => {
            let mut out = GzEncoder::new(out, flate2::Compression::default());
            let rows = write(answer, &mut out, name, writer)?;
            out.finish().and_then(|mut out| out.flush()).map_err(|e| failed(&e))?;
            Ok(rows)
        }
        Compression::Zstd => {
            let mut out = zstd::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(|e| failed(&e))?;
            let rows = write(answer, &mut out, name, writer)?;
            out.finish().and_then(|mut out| out.flush()).map_err(|e| failed(&e))?;
            Ok(rows)
        }
    }
}

fn write(answer: Answer, out: impl Write + Send, name: &str, writer: &Writer) -> Result<Tally> {
    let progress = bar(0, "exporting", "rows");
    let what = format!("write {name}");
    let count = |rows| progress.inc(rows);
    let rows = match writer {
        Writer::File(format) => {
            write_rows(answer, out, *format, &what, count).map(|written| Tally { written, left_out: 0 })
        }
        Writer::Json => {
            let schema = answer.schema().ok_or_else(|| Error::invalid("the statement gives no rows to write"))?;
            let schema = distinct_names(&schema);
            let append = |batch: RecordBatch, text: &mut Vec<u8>| {
                let batch = with_names(batch, &schema)?;
                json_lines(&batch, true, text).map_err(|e| Error::invalid(format!("{what}: {e}")))?;
                Ok(0)
            };
            write_batches(answer, out, &what, append, count)
        }
        Writer::Lines(lines) => write_batches(answer, out, &what, |batch, text| lines.append(&batch, text), count),
    };
    progress.finish_and_clear();
    rows
}

/// Writes the text that `append` makes of each batch. `append` returns how many rows it left out.
fn write_batches(
    answer: Answer,
    mut out: impl Write,
    what: &str,
    append: impl Fn(RecordBatch, &mut Vec<u8>) -> Result<u64>,
    progress: impl Fn(u64),
) -> Result<Tally> {
    let failed = |e: &dyn std::fmt::Display| Error::invalid(format!("{what}: {e}"));
    let (mut text, mut rows) = (Vec::new(), Tally::default());
    for batch in answer {
        let batch = batch?;
        let count = batch.num_rows() as u64;
        let left_out = append(batch, &mut text)?;
        out.write_all(&text).map_err(|e| failed(&e))?;
        text.clear();
        rows.written += count - left_out;
        rows.left_out += left_out;
        progress(count);
    }
    out.flush().map_err(|e| failed(&e))?;
    Ok(rows)
}
