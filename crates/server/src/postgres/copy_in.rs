//! `COPY table FROM STDIN`: rows as text, as CSV or in binary form, written in batches; each batch is atomic, the whole is
//! not.

use super::connection::Connection;
use super::values;
use super::wire::Rest;
use crate::error::{postgres_error, user_error};
use fleetdb_engine::{Batch, Code, ColumnType, Error, Result, Rows, TableSchema, Value};
use fleetdb_query::{CopyFormat, CopyIn, value_of_text};
use futures::{Sink, SinkExt};
use pgwire::api::ClientInfo;
use pgwire::api::copy::CopyHandler;
use pgwire::api::results::Tag;
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::{CopyData, CopyDone, CopyFail};
use std::fmt::Debug;
use std::sync::Arc;

/// Bytes of rows that are gathered for a batch.
const BATCH_BYTES: usize = 4 << 20;

/// The longest line.
const MOST_LINE_BYTES: usize = 16 << 20;

/// What the binary form begins with: its signature, no flags, and nothing more.
pub(super) const BINARY_HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const BINARY_SIGNATURE_BYTES: usize = BINARY_HEAD.len() - 8;

/// Rows on their way in.
pub(super) struct CopyingIn {
    copy: CopyIn,
    schema: Arc<TableSchema>,
    /// For each value of a line the column's place in the table.
    places: Vec<usize>,
    bytes: Vec<u8>,
    /// Lines that were taken, the header's too; in the binary form rows.
    lines: u64,
    /// Whether the end of the binary form has come.
    is_complete: bool,
    rows: u64,
}

impl Connection {
    /// Gets ready for rows; gives the number of columns.
    pub(super) fn begin_copy(&self, copy: &CopyIn) -> PgWireResult<usize> {
        self.session()?.check_may_write("COPY FROM").map_err(|e| postgres_error(&e))?;
        let copying =
            CopyingIn::new(copy.clone(), self.shared.db.table(&copy.table)).map_err(|e| postgres_error(&e))?;
        let columns = copying.places.len();
        *self.copying.lock() = Some(copying);
        Ok(columns)
    }

    /// Writes the lines that are whole; with `is_end` all of them.
    async fn copy_lines(&self, is_end: bool) -> PgWireResult<u64> {
        let taken = self.copying.lock().take();
        let mut copying = taken.ok_or_else(|| user_error("08P01", "there is no COPY that rows could be for"))?;
        let parsed = self.shared.work.run(move || {
            let rows = copying.take_lines(is_end);
            (copying, rows)
        });
        let (copying, rows) = parsed.await.map_err(|e| postgres_error(&e))?;
        let rows = rows.map_err(|e| postgres_error(&e))?;
        let total = copying.rows;
        if let Some(rows) = rows {
            let session = self.session()?;
            let rows = Batch::new().with_rows(rows);
            if session.is_in_transaction() {
                session.gather(rows).map_err(|e| postgres_error(&e))?;
            } else {
                self.commit(rows).await?;
            }
        }
        *self.copying.lock() = Some(copying);
        Ok(total)
    }
}

impl CopyingIn {
    fn new(copy: CopyIn, schema: Result<Arc<TableSchema>>) -> Result<Self> {
        let schema = schema?;
        let places = if copy.columns.is_empty() {
            (0..schema.columns.len()).collect()
        } else {
            copy.columns.iter().map(|name| schema.column_index(name)).collect::<Result<_>>()?
        };
        Ok(Self { copy, schema, places, bytes: Vec::new(), lines: 0, is_complete: false, rows: 0 })
    }

    /// The rows of the whole lines that are there.
    fn take_lines(&mut self, is_end: bool) -> Result<Option<Rows>> {
        if self.copy.form.format == CopyFormat::Binary {
            return self.take_binary(is_end);
        }
        let ends = if is_end { self.bytes.len() } else { self.whole_bytes() };
        let rest = self.bytes.split_off(ends);
        if rest.len() > MOST_LINE_BYTES {
            return Err(self.wrong(&format!("the line is longer than {MOST_LINE_BYTES} bytes; is a quote open?")));
        }
        let lines = std::mem::replace(&mut self.bytes, rest);
        let mut rows = Rows::new(&self.schema);
        match self.copy.form.format {
            CopyFormat::Csv => self.take_csv(&lines, &mut rows)?,
            _ => self.take_text(&lines, &mut rows)?,
        }
        Ok((!rows.is_empty()).then_some(rows))
    }

    /// The bytes up to the end of the last whole row: in CSV a line break may stand inside of quotes.
    fn whole_bytes(&self) -> usize {
        let (mut ends, mut is_quoted) = (0, false);
        for (at, &byte) in self.bytes.iter().enumerate() {
            match byte {
                b'"' if self.copy.form.format == CopyFormat::Csv => is_quoted = !is_quoted,
                b'\n' if !is_quoted => ends = at + 1,
                _ => {}
            }
        }
        ends
    }

    fn take_csv(&mut self, lines: &[u8], rows: &mut Rows) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut is_quoted = false;
        let ends = |&byte: &u8| {
            is_quoted ^= byte == b'"';
            byte == b'\n' && !is_quoted
        };
        for line in lines.strip_suffix(b"\n").unwrap_or(lines).split(ends) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.lines += 1;
            // An empty line is a row of one column that is NULL.
            let is_row = line != b"\\." && (self.places.len() == 1 || !line.is_empty());
            if !is_row || self.lines == 1 && self.copy.form.header {
                continue;
            }
            let line = str::from_utf8(line).map_err(|_| self.wrong(&"this is not UTF-8"))?;
            let cells = csv_cells(line, char::from(self.copy.form.delimiter));
            let cells = cells.ok_or_else(|| self.wrong(&"a quote is not closed"))?.into_iter();
            let is_value = |(cell, has_quotes): &(String, bool)| *has_quotes || *cell != self.copy.form.null;
            let cells = cells.map(|cell| is_value(&cell).then_some(cell.0)).collect();
            self.add(cells, rows)?;
        }
        Ok(())
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
            let line = str::from_utf8(line).map_err(|_| self.wrong(&"this is not UTF-8"))?;
            let cells = cells(line, char::from(self.copy.form.delimiter)).into_iter();
            let cells = cells.map(|cell| (cell != self.copy.form.null).then(|| unescaped(cell))).collect();
            self.add(cells, rows)?;
        }
        Ok(())
    }

    /// The rows of the binary form that are there as a whole: a head, for each row the count of its values and each with
    /// its length in front, and perhaps a count of -1 at the end.
    fn take_binary(&mut self, is_end: bool) -> Result<Option<Rows>> {
        let bytes = std::mem::take(&mut self.bytes);
        let mut rest = Rest(&bytes);
        let mut rows = Rows::new(&self.schema);
        if self.lines == 0 {
            if bytes.len() < BINARY_HEAD.len() && !is_end {
                self.bytes = bytes;
                return Ok(None);
            }
            let head = rest.take(BINARY_SIGNATURE_BYTES).filter(|head| BINARY_HEAD.starts_with(head));
            // Flags, of which none is known that changes anything here, and more that may be passed over.
            head.and_then(|_| rest.take(4))
                .and_then(|_| rest.value())
                .ok_or_else(|| self.wrong(&"this is not the binary form"))?;
            self.lines = 1;
        }
        let mut row = vec![Value::Null; self.schema.columns.len()];
        while !self.is_complete {
            let before = rest.0;
            let Some(count) = rest.count() else { break };
            if count == usize::from(u16::MAX) {
                self.is_complete = true;
                break;
            }
            if count != self.places.len() {
                return Err(self.wrong(&format!("{count} values for {} columns", self.places.len())));
            }
            let Some(values) = (0..count).map(|_| rest.value()).collect::<Option<Vec<_>>>() else {
                rest.0 = before;
                break;
            };
            self.lines += 1;
            for (value, &place) in values.into_iter().zip(&self.places) {
                let column = &self.schema.columns[place];
                row[place] = match value {
                    None => Value::Null,
                    Some(bytes) => values::binary_of_column(bytes, column.column_type)
                        .ok_or_else(|| self.wrong(&format!("column '{}': these are not its bytes", column.name)))?,
                };
            }
            self.rows += 1;
            rows.push(&row)?;
        }
        if rest.0.len() > MOST_LINE_BYTES {
            return Err(self.wrong(&format!("the row is longer than {MOST_LINE_BYTES} bytes")));
        }
        // As PostgreSQL, which does without the count of -1 if the client says that it is done.
        if is_end && !rest.0.is_empty() {
            return Err(self.wrong(&"the last row is cut off, or something follows it"));
        }
        self.bytes = rest.0.to_vec();
        Ok((!rows.is_empty()).then_some(rows))
    }

    fn add(&mut self, cells: Vec<Option<String>>, rows: &mut Rows) -> Result<()> {
        if cells.len() != self.places.len() {
            let text = format!("{} values for {} columns", cells.len(), self.places.len());
            return Err(self.wrong(&text));
        }
        let mut row = vec![Value::Null; self.schema.columns.len()];
        for (cell, &place) in cells.into_iter().zip(&self.places) {
            let column = &self.schema.columns[place];
            row[place] = match cell {
                None => Value::Null,
                Some(text) if column.column_type == ColumnType::Utf8 => Value::Text(text),
                Some(text) => value_of_text(&text, column.column_type)
                    .map_err(|e| e.context(format_args!("column '{}'", column.name)).context(self.line()))?,
            };
        }
        self.rows += 1;
        rows.push(&row)
    }

    fn wrong(&self, reason: &dyn std::fmt::Display) -> Error {
        Error::coded(Code::InvalidCopy, format!("{}: {reason}", self.line()))
    }

    /// Where the COPY is.
    fn line(&self) -> String {
        format!("COPY {}, line {}", self.schema.name, self.lines)
    }
}

/// The cells of a row of CSV, and whether they have quotes, which no NULL has; `None` if a quote is not closed. As in
/// PostgreSQL, quotes may stand anywhere in a cell.
fn csv_cells(row: &str, delimiter: char) -> Option<Vec<(String, bool)>> {
    let (mut cells, mut cell, mut has_quotes, mut is_inside) = (Vec::new(), String::new(), false, false);
    let mut chars = row.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_inside && chars.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => (is_inside, has_quotes) = (!is_inside, true),
            c if c == delimiter && !is_inside => {
                cells.push((std::mem::take(&mut cell), std::mem::take(&mut has_quotes)));
            }
            c => cell.push(c),
        }
    }
    cells.push((cell, has_quotes));
    (!is_inside).then_some(cells)
}

/// The cells of a line of PostgreSQL's text form: a delimiter behind a backslash is one of the cell's own.
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

/// A cell of PostgreSQL's text form without its backslashes.
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
                copying.bytes.extend_from_slice(&data.data);
                copying.bytes.len() >= BATCH_BYTES
            }
            // The COPY has failed; what still comes of it is passed over.
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
        user_error("57014", format!("COPY was ended by the client: {}", fail.message))
    }
}

#[cfg(test)]
#[path = "copy_in_tests.rs"]
mod tests;
