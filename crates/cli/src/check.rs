//! `fleetdb check`: verifies every checksum and invariant of a database that is not open elsewhere.

use crate::progress::{counted, thousands, with_bytes_bar};
use crate::stdout::print_line;
use crate::{DEFAULT_DATA, io_to_read, is_bucket, is_database};
use fleetdb_engine::inspect::check;
use fleetdb_engine::{Error, Result, accept_loss};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// The database directory
    #[arg(long, default_value = DEFAULT_DATA)]
    data: PathBuf,
    /// Give up batches whose log files are lost; use this only if the files cannot be recovered
    #[arg(long)]
    accept_loss: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let io = io_to_read(&args.data)?;
    if !is_bucket(&args.data) && !is_database(&args.data) {
        return Err(Error::invalid(format!("{} is not a FleetDB database", args.data.display())));
    }
    if args.accept_loss && is_bucket(&args.data) {
        return Err(Error::invalid("--accept-loss is for a directory: a bucket has no log"));
    }
    if args.accept_loss && accept_loss(&io)? {
        print_line!("gave up the lost part of the log");
    }
    let report = with_bytes_bar("checking", |progress| check(&io, progress))?;
    print_line!(
        "{}, {}, {}, {}, {} WAL {}",
        counted(report.tables as u64, "table"),
        counted(report.segments as u64, "segment"),
        counted(report.rows, "row"),
        counted(report.pages, "page"),
        thousands(report.wal_batches),
        if report.wal_batches == 1 { "batch" } else { "batches" }
    );
    if report.torn_bytes > 0 {
        print_line!(
            "{} behind the last batch of the WAL, left by a crash (a torn batch, or reserved space): they are dropped \
             when the database is opened",
            counted(report.torn_bytes, "byte")
        );
    }
    if report.problems.is_empty() {
        print_line!("clean");
        return Ok(());
    }
    for problem in &report.problems {
        eprintln!("{problem}");
    }
    Err(Error::damaged(counted(report.problems.len() as u64, "problem")))
}
