//! Shows rows to people and programs: as an aligned table, as CSV with a header, or as one JSON
//! object per row.

use crate::io_error;
use arrow::util::pretty::pretty_format_batches_with_schema;
use fleetdb_engine::{Error, Result};
use fleetdb_query::{
    Answer, csv_header, csv_rows, distinct_names, json_lines, rows_with_texts, schema_with_texts, with_array_texts,
    with_names,
};
use std::io::Write;

/// Output format of rows.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Format {
    /// An aligned table
    Table,
    /// CSV with a header
    Csv,
    /// One JSON object per row
    Json,
}

/// Shows the result of one statement.
pub fn show(answer: Answer, format: Format, out: &mut dyn Write) -> Result<()> {
    if let Some(warning) = answer.warning() {
        eprintln!("WARNING: {warning}");
    }
    let failed = |e: &dyn std::fmt::Display| Error::invalid(format!("the rows cannot be written in this format: {e}"));
    // Programs that read CSV or JSON get only rows.
    let tag =
        answer.tag().filter(|_| matches!(format, Format::Table)).map(|tag| format!("{tag}\n")).unwrap_or_default();
    let Some(schema) = answer.schema() else {
        return out.write_all(tag.as_bytes()).map_err(|e| io_error("could not write the output", &e));
    };
    match format {
        Format::Table => {
            // Alignment requires all rows.
            let texts = |rows| with_array_texts(&rows_with_texts(rows)).map_err(|e| failed(&e));
            let batches = answer.collect()?.iter().map(texts).collect::<Result<Vec<_>>>()?;
            let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
            let table =
                pretty_format_batches_with_schema(schema_with_texts(&schema), &batches).map_err(|e| failed(&e))?;
            writeln!(out, "{table}").map_err(|e| io_error("could not write the output", &e))?;
            let word = if rows == 1 { "row" } else { "rows" };
            write!(out, "({rows} {word})\n{tag}").map_err(|e| io_error("could not write the output", &e))
        }
        Format::Csv => {
            let mut lines = Vec::new();
            csv_header(&distinct_names(&schema), &mut lines);
            for batch in answer {
                csv_rows(&batch?, &mut lines).map_err(|e| failed(&e))?;
                out.write_all(&lines).map_err(|e| io_error("could not write the output", &e))?;
                lines.clear();
            }
            out.write_all(&lines).map_err(|e| io_error("could not write the output", &e))
        }
        Format::Json => {
            let (schema, mut lines) = (distinct_names(&schema), Vec::new());
            for batch in answer {
                json_lines(&with_names(batch?, &schema)?, false, &mut lines).map_err(|e| failed(&e))?;
                out.write_all(&lines).map_err(|e| io_error("could not write the output", &e))?;
                lines.clear();
            }
            Ok(())
        }
    }
}
