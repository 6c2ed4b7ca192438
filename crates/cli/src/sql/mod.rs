//! `fleetdb sql`: runs a statement (`-c`), a file (`-f`), or an interactive shell.

pub mod output;
mod shell;

use crate::{DEFAULT_DATA, close, io_error, is_bucket, is_database, open, open_reader};
use fleetdb_engine::{Error, Result, TextPosition};
use fleetdb_postgres::Postgres;
use fleetdb_query::Session;
use output::Format;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(clap::Args)]
pub struct Args {
    /// The database directory. With the feature cluster also a bucket, s3://BUCKET/PREFIX, which is read
    #[arg(long, default_value = DEFAULT_DATA)]
    data: PathBuf,
    /// Run this text and exit; may be given several times
    #[arg(short, long)]
    command: Vec<String>,
    /// Run this file and exit; - is standard input
    #[arg(short, long, conflicts_with = "command")]
    file: Option<PathBuf>,
    /// Create the database if the directory holds none
    #[arg(long, conflicts_with = "read_only")]
    create: bool,
    /// Read only; another process may have the database open
    #[arg(long)]
    read_only: bool,
    /// Output format of the rows
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub fn run(args: &Args) -> Result<()> {
    if args.read_only || is_bucket(&args.data) {
        return run_in(&Session::read_only(open_reader(&args.data)?, Postgres::new())?, args);
    }
    if !args.create && !is_database(&args.data) {
        return Err(Error::invalid(format!(
            "{} is not a FleetDB database: choose one with --data DIR, or create an empty one there with --create",
            args.data.display()
        )));
    }
    let db = open(&args.data, true)?;
    let session = Session::new(Arc::clone(&db), Postgres::new())?;
    let outcome = run_in(&session, args);
    drop(session);
    outcome.and(close(db))
}

fn run_in(session: &Session, args: &Args) -> Result<()> {
    if !args.command.is_empty() {
        return args.command.iter().try_for_each(|text| run_text(session, text, args.format));
    }
    let mut text = String::new();
    match &args.file {
        Some(file) if file.as_os_str() != "-" => {
            text = std::fs::read_to_string(file)
                .map_err(|e| io_error(format_args!("could not read {}", file.display()), &e))?;
        }
        None if std::io::stdin().is_terminal() => return shell::run(session, args.format),
        _ => {
            std::io::stdin().read_to_string(&mut text).map_err(|e| io_error("could not read standard input", &e))?;
        }
    }
    run_text(session, &text, args.format)
}

/// Runs all statements of a text, one after another, and shows their results.
fn run_text(session: &Session, text: &str, format: Format) -> Result<()> {
    run_all(session, text, format).map_err(|error| explained(error, text))
}

/// An error with the line of the text where it is, as psql shows it.
fn explained(error: Error, text: &str) -> Error {
    let line_of = |number: u64| text.lines().nth(usize::try_from(number).ok()?.checked_sub(1)?);
    let marked = error.position().and_then(|place| match place {
        TextPosition::At { line, column } => {
            let head = format!("LINE {line}: ");
            let mark = head.chars().count() + usize::try_from(column).ok()?;
            // A line of very many characters is no help.
            let of_line = line_of(line).filter(|of_line| of_line.chars().count() <= MAX_SHOWN)?;
            Some(format!("\n{head}{of_line}\n{:>mark$}", '^'))
        }
        TextPosition::End => None,
    });
    error.map_message(|message| format!("{message}{}", marked.unwrap_or_default()))
}

/// Characters of a line that is shown with an error.
const MAX_SHOWN: usize = 200;

fn run_all(session: &Session, text: &str, format: Format) -> Result<()> {
    let mut out = crate::stdout::output();
    for statement in session.parse(text)? {
        let answer = session.execute(statement)?;
        output::show(answer, format, &mut out)?;
    }
    out.flush().map_err(|e| io_error("could not write to standard output", &e))
}
