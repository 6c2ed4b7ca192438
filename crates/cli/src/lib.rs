//! The `fleetdb` command, as a library: [`run`] is its main function. The program `fleetdb` calls
//! it, and so does the Python package.
//!
//! Each subcommand has a file or folder with an `Args` and a `run`. An error ends the program with
//! status 1 and a message on standard error. Results go to standard output, progress to standard
//! error.

mod access;
mod backup;
mod check;
#[cfg(feature = "cluster")]
mod check_bucket;
#[cfg(feature = "cluster")]
mod cluster;
mod demo;
mod export;
mod inspect;
mod load;
mod progress;
mod serve;
#[cfg(feature = "cluster")]
mod shipped;
mod sql;
mod stdout;

use clap::{Parser, Subcommand};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Code, Database, Error, Reader, Result, Settings};
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, LazyLock};

pub use fleetdb_query::refuse_node;

/// The version, and what a published program was built from, which dist/build says.
static VERSION: LazyLock<String> = LazyLock::new(|| match option_env!("FLEETDB_BUILD") {
    Some(build) => format!("{} ({build})", env!("CARGO_PKG_VERSION")),
    None => env!("CARGO_PKG_VERSION").to_owned(),
});

/// A time-series database for sensor fleets.
#[derive(Parser)]
#[command(name = "fleetdb", version = VERSION.as_str(), about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate a year of a meter fleet, store it durably, and print a month's bills
    Demo(demo::Args),
    /// Load a file of line protocol, CSV or Parquet
    Load(load::Args),
    /// Run SQL: one statement, a file, or a shell
    Sql(sql::Args),
    /// Serve a database: line protocol and SQL over HTTP, and the PostgreSQL protocol
    Serve(Box<serve::Args>),
    /// Add, remove and list the users of a server
    User(access::UserArgs),
    /// Add, remove and list the tokens of a server
    Token(access::TokenArgs),
    /// Write the rows of a table or query as Parquet, CSV, JSON lines or line protocol
    Export(export::Args),
    /// Back up a database to an empty directory, or update an older backup
    Backup(backup::BackupArgs),
    /// Restore a database from a backup and verify it
    Restore(backup::RestoreArgs),
    /// Verify every checksum and invariant of a database
    Check(check::Args),
    /// Try whether an object store keeps the promises that FleetDB needs, and how long its writes take
    #[cfg(feature = "cluster")]
    CheckBucket(check_bucket::Args),
    /// Show the contents of the WAL, the manifest or a segment
    Inspect(inspect::Args),
}

/// Runs the command. The first argument is the program's name. Returns the exit status of the
/// process: 0, or 1 after an error, which is on standard error, or 2 if the arguments are wrong.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let command = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.command,
        // Also help and the version, which are no errors. A closed standard output is none either.
        Err(error) => {
            error.print().ok();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let outcome = match command {
        Command::Demo(args) => demo::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Sql(args) => sql::run(&args),
        Command::Serve(args) => serve::run(*args),
        Command::User(args) => access::user(&args),
        Command::Token(args) => access::token(&args),
        Command::Export(args) => export::run(&args),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Check(args) => check::run(&args),
        #[cfg(feature = "cluster")]
        Command::CheckBucket(args) => check_bucket::run(&args),
        Command::Inspect(args) => inspect::run(&args),
    };
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("fleetdb: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("HINT: {hint}");
            }
            1
        }
    }
}

/// The default of `--data`.
const DEFAULT_DATA: &str = "fleetdb-data";

/// Opens a database for writing; `create` allows a new one.
fn open(data: &Path, create: bool) -> Result<Arc<Database>> {
    refuse_bucket(data)?;
    if !create && !is_database(data) {
        return Err(Error::invalid(format!(
            "{} is not a FleetDB database: choose one with --data DIR, or create one with 'fleetdb demo' or 'fleetdb \
             load'",
            data.display()
        )));
    }
    refuse_node(data)?;
    Ok(Arc::new(Database::open_with(Io::files(data), Settings::default())?))
}

/// Opens a database for reading, while another process may write it.
fn open_reader(data: &Path) -> Result<Arc<Reader>> {
    Ok(Arc::new(Reader::open(io_to_read(data)?, Settings::default())?))
}

/// What a database is read from: a directory, or a bucket to which it is shipped.
fn io_to_read(data: &Path) -> Result<Io> {
    #[cfg(feature = "cluster")]
    if let Some(url) = shipped::url(data) {
        return shipped::io(url);
    }
    refuse_bucket(data)?;
    Ok(Io::files(data))
}

/// Whether the place of a database is the URL of a bucket.
fn is_bucket(place: &Path) -> bool {
    place.to_str().is_some_and(|place| place.starts_with("s3://") || place.starts_with("file://"))
}

/// Refuses the URL of a bucket where a directory is needed.
fn refuse_bucket(place: &Path) -> Result<()> {
    if !is_bucket(place) {
        return Ok(());
    }
    let what = if cfg!(feature = "cluster") {
        "is a bucket, which can only be read (serve --read-only) and backed up to: use a directory"
    } else {
        "is a bucket, for which this program was not built: build it with --features fleetdb/cluster"
    };
    Err(Error::new(Code::NotSupported, format!("{} {what}", place.display())))
}

/// Whether a directory holds a database.
fn is_database(data: &Path) -> bool {
    data.join("manifest").is_dir()
}

/// Closes a database that has no other users left.
fn close(db: Arc<Database>) -> Result<()> {
    match Arc::into_inner(db) {
        Some(db) => db.close(),
        None => Err(Error::bug("the database is still in use and cannot be closed")),
    }
}

/// An error of the operating system, with the operation that failed.
fn io_error(what: impl std::fmt::Display, error: &std::io::Error) -> Error {
    Error::io(what, error)
}
