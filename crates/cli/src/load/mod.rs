//! `fleetdb load`: loads line protocol, CSV with a header, or Parquet; plain or compressed with
//! gzip or zstd; from a file or standard input.
//!
//! Rows are written in batches, each atomic. With `--on-error stop`, the batch with the invalid
//! line is not written and the load ends; with `skip`, invalid lines are reported and left out.

mod create;
mod csv;
mod input;
mod lines;
mod parquet;

use crate::progress::{counted, thousands};
use crate::stdout::print_line;
use crate::{DEFAULT_DATA, close, open};
use fleetdb_engine::{Database, Durability, Error, Result, TableSchema, Unit};
use fleetdb_query::{NumberForms, Zone};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Rows per batch.
const BATCH_ROWS: usize = 10_000;

#[derive(clap::Args)]
pub struct Args {
    /// The file; - is standard input. Its extension selects the format: .lp, .csv or .parquet, with
    /// .gz or .zst appended if it is compressed
    file: PathBuf,
    /// The database directory; created if it is missing
    #[arg(long, default_value = DEFAULT_DATA)]
    data: PathBuf,
    /// The table to load into; not needed for line protocol, whose measurements name the tables
    #[arg(long)]
    table: Option<String>,
    /// The format, if the file name does not tell it
    #[arg(long, value_enum)]
    format: Option<input::FileFormat>,
    /// Create the table if it is missing, with types guessed from the first 10,000 rows
    #[arg(long)]
    create: bool,
    /// The columns that identify a row of the new table, separated by commas; guessed if left out
    #[arg(long, value_delimiter = ',', requires = "create")]
    key: Vec<String>,
    /// What separates the cells of CSV: one character, or tab
    #[arg(long, default_value = ",", value_parser = delimiter)]
    delimiter: u8,
    /// The unquoted text that is NULL in CSV
    #[arg(long, default_value = "")]
    null: String,
    /// Columns of the file that have other names in the table, as in Zeit=ts,Wert=kwh
    #[arg(long, value_delimiter = ',', value_parser = renamed)]
    map: Vec<(String, String)>,
    /// The time zone of times without one, for columns with a time zone
    #[arg(long, default_value = "UTC", value_parser = Zone::named)]
    zone: Zone,
    /// The unit of numbers in columns of times, counted from 1970
    #[arg(long, value_enum)]
    epoch: Option<Precision>,
    /// A comma stands before the decimals of numbers
    #[arg(long)]
    decimal_comma: bool,
    /// The unit of the timestamps in line protocol
    #[arg(long, value_enum, default_value_t = Precision::Ns)]
    precision: Precision,
    /// What to do with an invalid line
    #[arg(long, value_enum, default_value_t = OnError::Stop)]
    on_error: OnError,
    /// The durability at which a batch counts as written
    #[arg(long, default_value_t = Durability::Sync)]
    durability: Durability,
}

fn delimiter(text: &str) -> std::result::Result<u8, String> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ if ["tab", "\\t"].contains(&text) => Ok(b'\t'),
        _ => Err("give one character, or tab".to_owned()),
    }
}

fn renamed(text: &str) -> std::result::Result<(String, String), String> {
    let (from, to) = text.split_once('=').ok_or("give the file's name and the table's name, as in Zeit=ts")?;
    Ok((from.to_owned(), to.to_owned()))
}

impl Args {
    /// The table's name for a column of the file.
    fn column(&self, name: &str) -> String {
        let known = self.map.iter().find(|(from, _)| from == name);
        known.map_or_else(|| name.to_owned(), |(_, to)| to.clone())
    }

    /// How the file writes numbers.
    fn numbers(&self) -> Result<NumberForms> {
        let epoch = match self.epoch {
            None => None,
            Some(Precision::Ns) => Some(Unit::Nanosecond),
            Some(Precision::Us) => Some(Unit::Microsecond),
            Some(Precision::Ms) => Some(Unit::Millisecond),
            Some(Precision::S) => Some(Unit::Second),
            Some(Precision::M | Precision::H) => return Err(Error::invalid("--epoch is s, ms, us or ns")),
        };
        Ok(NumberForms { epoch, has_comma: self.decimal_comma })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnError {
    /// End the load without writing the batch that holds the line
    Stop,
    /// Report the line and leave it out
    Skip,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Precision {
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
    /// Milliseconds
    Ms,
    /// Seconds
    S,
    /// Minutes
    M,
    /// Hours
    H,
}

impl From<Precision> for fleetdb_engine::Precision {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Ns => Self::Nanosecond,
            Precision::Us => Self::Microsecond,
            Precision::Ms => Self::Millisecond,
            Precision::S => Self::Second,
            Precision::M => Self::Minute,
            Precision::H => Self::Hour,
        }
    }
}

/// The result of a load.
#[derive(Default)]
struct Tally {
    /// Rows written.
    loaded: u64,
    /// Lines left out.
    refused: u64,
}

impl Tally {
    /// Handles an invalid line: ends the load or counts the line.
    fn refuse(&mut self, on_error: OnError, error: Error) -> Result<()> {
        if on_error == OnError::Stop {
            return Err(error);
        }
        eprintln!("{error}");
        self.refused += 1;
        Ok(())
    }
}

pub fn run(args: &Args) -> Result<()> {
    let format = input::format_of(&args.file, args.format)?;
    let input = input::open(&args.file)?;
    let db = open(&args.data, true)?;
    let before = rows(&db)?;
    let start = Instant::now();
    let mut tally = Tally::default();
    let outcome = match format {
        input::FileFormat::Lines => lines::load(&db, args, input, &mut tally),
        input::FileFormat::Csv => csv::load(&db, args, input, &mut tally),
        input::FileFormat::Parquet => parquet::load(&db, args, input, &mut tally),
    };
    let seconds = start.elapsed().as_secs_f64();
    let added = rows(&db)?.saturating_sub(before);
    close(db)?;
    print_line!(
        "loaded {} ({} new, {} replaced), refused {}, in {seconds:.1} s: {} rows/s at {} ({})",
        counted(tally.loaded, "row"),
        thousands(added),
        thousands(tally.loaded.saturating_sub(added)),
        thousands(tally.refused),
        thousands((tally.loaded as f64 / seconds.max(1e-9)) as u64),
        args.durability,
        args.durability.tier(),
    );
    outcome
}

/// Number of rows in all tables.
fn rows(db: &Database) -> Result<u64> {
    let view = db.view();
    view.table_names().map(|name| view.table(name)?.count()).sum()
}

/// The name of the table to load CSV or Parquet into, and the table if it exists.
///
/// # Errors
/// It does not exist, and `--create` is not given.
fn target<'a>(db: &Database, args: &'a Args) -> Result<(&'a str, Option<Arc<TableSchema>>)> {
    let name = args
        .table
        .as_ref()
        .ok_or_else(|| Error::invalid("--table is required: only line protocol names the table of each row"))?;
    let table = db.tables().into_iter().find(|table| &table.name == name);
    if table.is_none() && !args.create {
        return Err(Error::invalid(format!(
            "table '{name}' does not exist: use --create, or create it with a primary key first, for example fleetdb \
             sql --data {} -c 'CREATE TABLE {name} (device TEXT, ts TIMESTAMP, value DOUBLE, PRIMARY KEY (device, ts))'",
            args.data.display()
        )));
    }
    Ok((name, table))
}
