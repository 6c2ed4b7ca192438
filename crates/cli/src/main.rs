//! The `fleetdb` command.
//!
//! One file or folder a subcommand; each has an `Args` and a `run`. Errors end the program with a message
//! on standard error and status 1; results go to standard output, progress to standard error.

mod access;
mod backup;
mod check;
mod demo;
mod export;
mod inspect;
mod load;
mod progress;
mod say;
mod serve;
mod sql;

use clap::{Parser, Subcommand};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Database, Error, Reader, Result, Settings};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// A time-series database for sensor fleets.
#[derive(Parser)]
#[command(name = "fleetdb", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate a meter fleet's year, take it in durably, and print a month's bills
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
    /// Write a table or a query's rows to a Parquet or CSV file
    Export(export::Args),
    /// Back a database up to an empty directory, or bring an older backup up to date
    Backup(backup::BackupArgs),
    /// Make a database of a backup, and verify it
    Restore(backup::RestoreArgs),
    /// Verify every checksum and invariant of a database
    Check(check::Args),
    /// Show what is in the WAL, the manifest or a segment
    Inspect(inspect::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
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
        Command::Inspect(args) => inspect::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fleetdb: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The directory that `--data` names when it is not given.
const DEFAULT_DATA: &str = "fleetdb-data";

/// Opens a database for writing; with `create` it may be new.
fn open(data: &Path, create: bool) -> Result<Arc<Database>> {
    if !create && !is_database(data) {
        return Err(Error::input(format!(
            "{} holds no FleetDB database: name one with --data DIR, or make one with 'fleetdb demo' or 'fleetdb load'",
            data.display()
        )));
    }
    Ok(Arc::new(Database::open_with(Io::files(data), Settings::default())?))
}

/// Opens a database to read it, beside a process that may write it.
fn open_reader(data: &Path) -> Result<Arc<Reader>> {
    Ok(Arc::new(Reader::open(Io::files(data), Settings::default())?))
}

/// Whether a directory holds a database.
fn is_database(data: &Path) -> bool {
    data.join("manifest").is_dir()
}

/// Closes a database that nobody else uses any more.
fn close(db: Arc<Database>) -> Result<()> {
    match Arc::into_inner(db) {
        Some(db) => db.close(),
        None => Err(Error::bug("the database is still in use when it should be closed")),
    }
}

/// An error of the operating system, with what was being done.
fn io_error(what: impl std::fmt::Display, error: &std::io::Error) -> Error {
    Error::io(what, error)
}
