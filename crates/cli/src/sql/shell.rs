//! The shell: history, statements of several lines, and psql's backslash commands.

use super::output::Format;
use crate::stdout::print_line;
use fleetdb_engine::{Error, Result, Role, TableView};
use fleetdb_query::Session;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::path::PathBuf;

const HELP: &str = "\\d          list tables\n\\d TABLE    show a table's columns\n\\q          quit\nA statement ends \
                    with a semicolon and may span several lines.";

/// Reads and runs statements until the input ends.
pub fn run(session: &Session, format: Format) -> Result<()> {
    let broken = |e: ReadlineError| Error::invalid(format!("terminal error: {e}"));
    let mut editor = DefaultEditor::new().map_err(broken)?;
    let history = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".fleetdb_history"));
    if let Some(history) = &history {
        // There is no history at the first start.
        editor.load_history(history).ok();
    }
    print_line!("fleetdb {} - type \\? for help", env!("CARGO_PKG_VERSION"));
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() { "fleetdb=> " } else { "fleetdb-> " };
        let line = match editor.readline(prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(broken(error)),
        };
        if text.is_empty() && line.trim_start().starts_with('\\') {
            editor.add_history_entry(&line).map_err(broken)?;
            if !command(session, line.trim()) {
                break;
            }
            continue;
        }
        text.push_str(&line);
        text.push('\n');
        if !line.trim_end().ends_with(';') {
            if text.trim().is_empty() {
                text.clear();
            }
            continue;
        }
        editor.add_history_entry(text.trim_end()).map_err(broken)?;
        if let Err(error) = super::run_text(session, &text, format) {
            eprintln!("ERROR: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("HINT: {hint}");
            }
        }
        text.clear();
    }
    if let Some(history) = &history
        && let Err(error) = editor.save_history(history)
    {
        eprintln!("fleetdb: could not save the history to {}: {error}", history.display());
    }
    Ok(())
}

/// Runs a backslash command; `false` ends the shell.
fn command(session: &Session, line: &str) -> bool {
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["\\q"] => return false,
        ["\\?"] => print_line!("{HELP}"),
        ["\\d" | "\\dt"] => {
            for table in session.view().tables().map(TableView::schema) {
                let kind = if table.time.is_some() { "time-series table" } else { "collection" };
                print_line!("{} ({kind}, {} columns)", table.name, table.columns.len());
            }
        }
        ["\\d", name] => match session.view().table(name) {
            Err(error) => eprintln!("ERROR: {error}"),
            Ok(table) => {
                for column in &table.schema().columns {
                    let role = match column.role {
                        Role::Key => " key",
                        Role::Time => " time",
                        Role::Field => "",
                    };
                    let null = if column.nullable { "" } else { " not null" };
                    print_line!("{:<32} {}{null}{role}", column.name, column.column_type);
                }
            }
        },
        _ => eprintln!("ERROR: unknown command {line}; type \\? for help"),
    }
    true
}
