//! `COPY table FROM STDIN`: rows as text, CSV or in binary form, written in batches. Each batch is
//! atomic; the COPY as a whole is not.

use super::connection::Connection;
use super::values::BinaryColumn;
use super::wire::Rest;
use crate::error::{postgres_error, user_error};
use fleetdb_engine::{Batch, Code, Database, Error, Result, Rows, TableSchema, Value};
use fleetdb_query::{CellReader, CopyFormat, CopyIn, CsvReader, Zone};
use futures::{Sink, SinkExt};
use pgwire::api::ClientInfo;
use pgwire::api::copy::CopyHandler;
use pgwire::api::results::Tag;
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::{CopyData, CopyDone, CopyFail};
use std::fmt::Debug;
use std::sync::Arc;

/// Bytes of rows to gather for a batch.
const BATCH_BYTES: usize = 4 << 20;

/// The longest line.
const MAX_LINE_BYTES: usize = 16 << 20;

/// The start of the binary form: its signature, no flags, no extension.
pub(super) const BINARY_HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const BINARY_SIGNATURE_BYTES: usize = BINARY_HEAD.len() - 8;

/// A COPY FROM STDIN in progress.
pub(super) struct CopyingIn {
    copy: CopyIn,
    db: Arc<Database>,
    cells: CellReader,
    /// Data received in CSV form.
    csv: CsvReader,
    /// Data received in the other forms.
    bytes: Vec<u8>,
    /// Lines taken, including the header. In CSV it is the line where the last row begins; in the
    /// binary form it counts rows.
    lines: u64,
    /// Whether the end mark of the binary form has been read.
    is_complete: bool,
    rows: u64,
    /// Whether the rows are for a temporary table.
    is_temporary: bool,
}

impl Connection {
    /// Prepares for rows; returns the number of columns.
    pub(super) fn begin_copy(&self, copy: &CopyIn) -> PgWireResult<usize> {
        let session = self.session()?;
        session.check_may_write("COPY FROM").map_err(|e| postgres_error(&e))?;
        let temporary = session.temporary_schema(&copy.table);
        let is_temporary = temporary.is_some();
        let db = self.shared.store.writer().map_err(|e| postgres_error(&e))?;
        let table = temporary.map_or_else(|| db.table(&copy.table), Ok);
        let copying = CopyingIn::new(copy.clone(), db, table, session.zone());
        let mut copying = copying.map_err(|e| postgres_error(&e))?;
        copying.is_temporary = is_temporary;
        let columns = copying.cells.places().len();
        *self.copying.lock() = Some(copying);
        Ok(columns)
    }

    /// Writes the complete lines, or with `is_end` all data.
    async fn copy_lines(&self, is_end: bool) -> PgWireResult<u64> {
        let taken = self.copying.lock().take();
        let mut copying = taken.ok_or_else(|| user_error("08P01", "no COPY is in progress"))?;
        let parsed = self.shared.work.run(move || {
            let rows = copying.take_lines(is_end);
            (copying, rows)
        });
        let (copying, rows) = parsed.await.map_err(|e| postgres_error(&e))?;
        let rows = rows.map_err(|e| postgres_error(&e))?;
        let total = copying.rows;
        let session = self.session()?;
        if let (Some(rows), true) = (&rows, copying.is_temporary) {
            let rows = rows.clone().finish().map_err(|e| postgres_error(&e))?;
            session.insert_into_temporary(&copying.copy.table, rows).map_err(|e| postgres_error(&e))?;
        } else if let Some(rows) = rows {
            let rows = Batch::new().with_rows(rows);
            if session.is_in_transaction() {
                session.gather(rows).map_err(|e| postgres_error(&e))?;
            } else {
                self.commit(rows.with_durability(self.durability())).await?;
            }
        }
        *self.copying.lock() = Some(copying);
        Ok(total)
    }
}

impl CopyingIn {
    fn new(copy: CopyIn, db: &Arc<Database>, schema: Result<Arc<TableSchema>>, zone: Zone) -> Result<Self> {
        let names: Vec<&str> = copy.columns.iter().map(String::as_str).collect();
        let (cells, csv) = (CellReader::new(schema?, &names, zone)?, CsvReader::new(copy.form.delimiter));
        Ok(Self {
            copy,
            db: Arc::clone(db),
            cells,
            csv,
            bytes: Vec::new(),
            lines: 0,
            is_complete: false,
            rows: 0,
            is_temporary: false,
        })
    }

    fn push(&mut self, data: &[u8]) {
        match self.copy.form.format {
            CopyFormat::Csv => self.csv.push(data),
            _ => self.bytes.extend_from_slice(data),
        }
    }

    fn pending_bytes(&self) -> usize {
        self.csv.pending_bytes() + self.bytes.len()
    }

    /// The rows of the complete lines received so far.
    fn take_lines(&mut self, is_end: bool) -> Result<Option<Rows>> {
        match self.copy.form.format {
            CopyFormat::Binary => return self.take_binary(is_end),
            CopyFormat::Csv => return self.take_csv(is_end),
            CopyFormat::Text => {}
        }
        let whole_bytes = self.bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let ends = if is_end { self.bytes.len() } else { whole_bytes };
        let rest = self.bytes.split_off(ends);
        if rest.len() > MAX_LINE_BYTES {
            return Err(self.wrong(&format!("the line exceeds {MAX_LINE_BYTES} bytes")));
        }
        let lines = std::mem::replace(&mut self.bytes, rest);
        let mut rows = Rows::new(self.cells.schema());
        self.take_text(&lines, &mut rows)?;
        Ok((!rows.is_empty()).then_some(rows))
    }

    fn take_csv(&mut self, is_end: bool) -> Result<Option<Rows>> {
        let mut rows = Rows::new(self.cells.schema());
        let table = Arc::clone(self.cells.schema());
        let wrong = |line: u64, reason: &dyn std::fmt::Display| wrong(&table.name, line, reason);
        while let Some(row) = self.csv.next_row(is_end).map_err(|e| wrong(e.line, &e.reason))? {
            let is_header = self.lines == 0 && self.copy.form.header;
            let line = row.line;
            self.lines = line;
            // An empty line is a row only if the rows have a single column, which is then NULL.
            let is_row = !row.is_end_mark() && (self.cells.places().len() == 1 || !row.is_empty());
            if !is_row || is_header {
                continue;
            }
            let cells = row.cells().map_err(|e| wrong(line, &e))?.into_iter();
            let values = cells.map(|cell| cell.value(&self.copy.form.null));
            self.cells.push(&self.db, values, &mut rows).map_err(|e| e.context(at_line(&table.name, line)))?;
            self.rows += 1;
        }
        Ok((!rows.is_empty()).then_some(rows))
    }

    fn take_text(&mut self, lines: &[u8], rows: &mut Rows) -> Result<()> {
        for line in lines.split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            self.lines += 1;
            if line == b"\\." || self.lines == 1 && self.copy.form.header {
                continue;
            }
            let line = str::from_utf8(line).map_err(|_| self.wrong(&"invalid byte sequence for encoding \"UTF8\""))?;
            let cells = cells(line, char::from(self.copy.form.delimiter)).into_iter();
            let cells: Vec<_> = cells.map(|cell| (cell != self.copy.form.null).then(|| unescaped(cell))).collect();
            let pushed = self.cells.push(&self.db, cells.into_iter(), rows);
            pushed.map_err(|e| e.context(at_line(&self.cells.schema().name, self.lines)))?;
            self.rows += 1;
        }
        Ok(())
    }

    /// The complete rows received so far in binary form: a head, then for each row the number of
    /// its values and each value preceded by its length, and perhaps a count of -1 at the end.
    fn take_binary(&mut self, is_end: bool) -> Result<Option<Rows>> {
        let bytes = std::mem::take(&mut self.bytes);
        let mut rest = Rest(&bytes);
        let schema = Arc::clone(self.cells.schema());
        let mut rows = Rows::new(&schema);
        if self.lines == 0 {
            if bytes.len() < BINARY_HEAD.len() && !is_end {
                self.bytes = bytes;
                return Ok(None);
            }
            let head = rest.take(BINARY_SIGNATURE_BYTES).filter(|head| BINARY_HEAD.starts_with(head));
            // The flags, none of which matters here, and an extension that may be skipped.
            head.and_then(|_| rest.take(4))
                .and_then(|_| rest.value())
                .ok_or_else(|| self.wrong(&"invalid binary COPY header"))?;
            self.lines = 1;
        }
        let columns = self.cells.places().iter().map(|&place| BinaryColumn::new(schema.columns[place].column_type));
        let columns: Vec<BinaryColumn> = columns.collect();
        let mut row = self.cells.without_cells();
        while !self.is_complete {
            let before = rest.0;
            let Some(count) = rest.count() else { break };
            if count == usize::from(u16::MAX) {
                self.is_complete = true;
                break;
            }
            if count != self.cells.places().len() {
                return Err(self.wrong(&format!("row field count is {count}, expected {}", self.cells.places().len())));
            }
            let mut ahead = Rest(rest.0);
            if (0..count).any(|_| ahead.value().is_none()) {
                rest.0 = before;
                break;
            }
            for (&place, of_column) in self.cells.places().iter().zip(&columns) {
                match rest.value().flatten() {
                    None => row[place] = Value::Null,
                    Some(bytes) => of_column.read(bytes, &mut row[place]).ok_or_else(|| {
                        self.wrong(&format!("column '{}': invalid binary value", schema.columns[place].name))
                    })?,
                }
            }
            let pushed = self.cells.push_values(&self.db, &mut row, &mut rows);
            pushed.map_err(|e| e.context(at_line(&schema.name, self.lines)))?;
            self.lines += 1;
            self.rows += 1;
        }
        if rest.0.len() > MAX_LINE_BYTES {
            return Err(self.wrong(&format!("the row exceeds {MAX_LINE_BYTES} bytes")));
        }
        // PostgreSQL does not require the count of -1 if the client says that it is done.
        if is_end && !rest.0.is_empty() {
            return Err(self.wrong(&"the last row is incomplete, or data follows it"));
        }
        self.bytes = rest.0.to_vec();
        Ok((!rows.is_empty()).then_some(rows))
    }

    fn wrong(&self, reason: &dyn std::fmt::Display) -> Error {
        wrong(&self.cells.schema().name, self.lines, reason)
    }
}

fn wrong(table: &str, line: u64, reason: &dyn std::fmt::Display) -> Error {
    Error::new(Code::InvalidCopy, reason.to_string()).context(at_line(table, line))
}

/// The position of a COPY.
fn at_line(table: &str, line: u64) -> String {
    format!("COPY {table}, line {line}")
}

/// The cells of a line of PostgreSQL's text form. A delimiter after a backslash is part of the
/// cell.
fn cells(line: &str, delimiter: char) -> Vec<&str> {
    let (mut is_escaped, mut cells) = (false, Vec::new());
    let mut start = 0;
    for (at, c) in line.char_indices() {
        if c == delimiter && !is_escaped {
            cells.push(&line[start..at]);
            start = at + c.len_utf8();
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    cells.push(&line[start..]);
    cells
}

/// A cell of PostgreSQL's text form with its escapes resolved.
fn unescaped(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    let mut chars = cell.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.push(match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('v') => '\u{b}',
                Some(other) => other,
                None => '\\',
            }),
            other => text.push(other),
        }
    }
    text
}

#[async_trait::async_trait]
impl CopyHandler for Connection {
    async fn on_copy_data<C>(&self, _client: &mut C, data: CopyData) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        self.set_busy();
        let enough = match self.copying.lock().as_mut() {
            Some(copying) => {
                copying.push(&data.data);
                copying.pending_bytes() >= BATCH_BYTES
            }
            // The COPY has failed; skip the rest of its data.
            None => false,
        };
        if enough {
            self.copy_lines(false).await?;
        }
        Ok(())
    }

    async fn on_copy_done<C>(&self, client: &mut C, _done: CopyDone) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let rows = self.copy_lines(true).await?;
        *self.copying.lock() = None;
        let tag = Tag::new("COPY").with_rows(rows as usize);
        client.feed(PgWireBackendMessage::CommandComplete(tag.into())).await?;
        Ok(())
    }

    async fn on_copy_fail<C>(&self, _client: &mut C, fail: CopyFail) -> PgWireError
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        user_error("57014", format!("COPY from stdin failed: {}", fail.message))
    }
}
