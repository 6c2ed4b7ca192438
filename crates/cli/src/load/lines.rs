//! Loads line protocol.

use super::input::Input;
use super::{Args, BATCH_ROWS, Tally};
use crate::io_error;
use fleetdb_engine::{Database, Error, LineParser, LineSplitter, MAX_VALUE_BYTES, Precision, Result};
use std::time::{SystemTime, UNIX_EPOCH};

/// The share of the memory for queries at which gathered rows are written, however few they are.
const MEMORY_SHARE: usize = 4;
/// The longest line. It also limits how much an unclosed quote can swallow.
const LINE_BYTES: usize = 2 * MAX_VALUE_BYTES;

pub fn load(db: &Database, args: &Args, mut input: Input, tally: &mut Tally) -> Result<()> {
    let precision: Precision = args.precision.into();
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let most_bytes = db.query_memory().limit_bytes() / MEMORY_SHARE;
    let mut parser = LineParser::new(db, precision, now_ns);
    let mut line = Vec::new();
    // The number of the first physical line of the current line, and of the physical line just
    // read.
    let (mut number, mut text_number) = (1u64, 0u64);
    let mut ends = LineSplitter::default();
    loop {
        let before = line.len();
        let read = input.reader.read_until(b'\n', &mut line);
        let read = read.map_err(|e| io_error(format_args!("could not read {}", input.name), &e))?;
        text_number += 1;
        if read > 0 && ends.find(&line[before..]).is_none() && line.len() < LINE_BYTES {
            continue;
        }
        if line.is_empty() {
            break;
        }
        if let Err(reason) = parser.parse_bytes(&line) {
            let error = Error::invalid(format!("{}, line {number}, {reason}", input.name));
            tally.refuse(args.on_error, error)?;
        }
        line.clear();
        ends = LineSplitter::default();
        number = text_number + 1;
        parser.check()?;
        if parser.rows() >= BATCH_ROWS || parser.bytes() >= most_bytes {
            let full = std::mem::replace(&mut parser, LineParser::new(db, precision, now_ns));
            commit(full, args, tally)?;
        }
    }
    commit(parser, args, tally)?;
    input.progress.finish_and_clear();
    Ok(())
}

fn commit(parser: LineParser<'_>, args: &Args, tally: &mut Tally) -> Result<()> {
    let rows = parser.rows() as u64;
    parser.commit(args.durability)?;
    tally.loaded += rows;
    Ok(())
}
