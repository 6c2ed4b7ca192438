//! Line protocol.

use super::input::Input;
use super::{Args, BATCH_ROWS, Tally};
use crate::io_error;
use fleetdb_engine::{Database, Error, LineParser, Result};
use std::time::{SystemTime, UNIX_EPOCH};

pub fn load(db: &Database, args: &Args, mut input: Input, tally: &mut Tally) -> Result<()> {
    let precision = args.precision.into();
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let mut parser = LineParser::new(db, precision, now_ns);
    let mut line = Vec::new();
    let mut number = 0u64;
    loop {
        line.clear();
        let read = input.reader.read_until(b'\n', &mut line);
        if read.map_err(|e| io_error(format_args!("read {}", input.name), &e))? == 0 {
            break;
        }
        number += 1;
        let parsed = match str::from_utf8(&line) {
            Ok(text) => parser.parse(text).map_err(|e| e.to_string()),
            Err(e) => Err(format!("column {}: this is not UTF-8", e.valid_up_to() + 1)),
        };
        if let Err(reason) = parsed {
            let error = Error::input(format!("{}, line {number}, {reason}", input.name));
            tally.refuse(args.on_error, error)?;
        }
        if parser.rows() >= BATCH_ROWS {
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
