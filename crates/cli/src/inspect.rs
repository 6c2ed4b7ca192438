//! `fleetdb inspect`: shows the contents of the WAL, the manifest or a segment.

use crate::DEFAULT_DATA;
use crate::stdout::print_line;
use fleetdb_engine::inspect::{read_manifest, read_segment_facts, read_wal, segment_file};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Error, Result};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// The database directory
    #[arg(long, default_value = DEFAULT_DATA, global = true)]
    data: PathBuf,
}

#[derive(clap::Subcommand)]
enum What {
    /// The batches in the WAL files
    Wal,
    /// The tables and segments, and the edits since the last fold
    Manifest,
    /// The footer of a segment; without a number, one line for each segment
    Segment {
        /// The number of the segment
        number: Option<u64>,
    },
}

pub fn run(args: &Args) -> Result<()> {
    let io = Io::files(&args.data);
    match args.what {
        What::Wal => {
            print_line!(
                "{:<28} {:>12} {:>12} {:>12} {:>10}  table:rows",
                "file",
                "offset",
                "batch",
                "durable",
                "bytes"
            );
            for frame in read_wal(&io)? {
                let sections: Vec<_> = frame.sections.iter().map(|(table, rows)| format!("{table}:{rows}")).collect();
                print_line!(
                    "{:<28} {:>12} {:>12} {:>12} {:>10}  {}",
                    frame.file,
                    frame.offset,
                    frame.sequence,
                    frame.durable,
                    frame.bytes,
                    sections.join(" ")
                );
            }
        }
        What::Manifest => {
            let (edits, state) = read_manifest(&io)?;
            print_line!("{}", json(&state)?);
            for edit in &edits {
                print_line!("{}", json(edit)?);
            }
        }
        What::Segment { number: None } => {
            let (_, state) = read_manifest(&io)?;
            print_line!("{:>8} {:<24} {:>12} {:>12}  file", "segment", "table", "rows", "bytes");
            for entry in state.segments.values() {
                let table = &state.tables[&entry.table].name;
                print_line!(
                    "{:>8} {table:<24} {:>12} {:>12}  {}",
                    entry.id,
                    entry.rows,
                    entry.bytes,
                    segment_file(entry)
                );
            }
        }
        What::Segment { number: Some(number) } => {
            let (_, state) = read_manifest(&io)?;
            let entry = state
                .segments
                .values()
                .find(|entry| entry.id.0 == number)
                .ok_or_else(|| Error::invalid(format!("segment {number} does not exist")))?;
            print_line!("{}", json(&read_segment_facts(&io, &segment_file(entry))?)?);
        }
    }
    Ok(())
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string_pretty(value).map_err(|e| Error::bug(format!("could not serialize: {e}")))
}
