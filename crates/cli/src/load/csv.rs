//! CSV with a header that names the table's columns. An unquoted empty cell is NULL.

use super::input::Input;
use super::{Args, BATCH_ROWS, OnError, Tally, target};
use crate::io_error;
use fleetdb_engine::{Batch, Database, Error, Result, Rows};
use fleetdb_query::{CellReader, CsvReader, CsvRow, Zone};
use std::io::Read;
use std::sync::Arc;

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

pub fn load(db: &Database, args: &Args, mut input: Input, tally: &mut Tally) -> Result<()> {
    let schema = target(db, args)?;
    let name = input.name.clone();
    let wrong = |line: u64, reason: &dyn std::fmt::Display| Error::invalid(format!("{name}, line {line}: {reason}"));
    let (mut reader, mut cells) = (CsvReader::new(b','), None::<CellReader>);
    let mut rows = Rows::new(&schema);
    let mut piece = vec![0; READ_BYTES];
    loop {
        let count = input.reader.read(&mut piece).map_err(|e| io_error(format_args!("could not read {name}"), &e))?;
        reader.push(&piece[..count]);
        loop {
            let row = match reader.next_row(count == 0) {
                Ok(Some(row)) => row,
                Ok(None) => break,
                // After an open quote the start of the next row is uncertain, so no row can be
                // skipped to.
                Err(e) => {
                    if args.on_error == OnError::Skip {
                        commit(db, args, rows, tally)?;
                    }
                    return Err(wrong(e.line, &e.reason));
                }
            };
            let line = row.line;
            let Some(cells) = &mut cells else {
                let header =
                    row.cells().and_then(|header| CellReader::of_header(Arc::clone(&schema), &header, Zone::Utc));
                cells = Some(header.map_err(|e| wrong(line, &e))?);
                continue;
            };
            if let Err(e) = take(db, &row, cells, &mut rows) {
                let end = match row.lines {
                    1 => String::new(),
                    lines => format!(" (the row continues to line {})", line + lines - 1),
                };
                tally.refuse(args.on_error, wrong(line, &format!("{e}{end}")))?;
            }
            if rows.len() >= BATCH_ROWS {
                commit(db, args, std::mem::replace(&mut rows, Rows::new(&schema)), tally)?;
            }
        }
        if count == 0 {
            break;
        }
    }
    commit(db, args, rows, tally)?;
    input.progress.finish_and_clear();
    Ok(())
}

fn take(db: &Database, row: &CsvRow<'_>, cells: &mut CellReader, rows: &mut Rows) -> Result<()> {
    // An empty line is a row only if the rows have a single column, which is then NULL.
    if row.is_empty() && cells.places().len() > 1 {
        return Ok(());
    }
    cells.push(db, row.cells()?.into_iter().map(|cell| cell.value("")), rows)
}

fn commit(db: &Database, args: &Args, rows: Rows, tally: &mut Tally) -> Result<()> {
    let count = rows.len() as u64;
    if count > 0 {
        db.commit(Batch::new().with_rows(rows).with_durability(args.durability))?;
        tally.loaded += count;
    }
    Ok(())
}
