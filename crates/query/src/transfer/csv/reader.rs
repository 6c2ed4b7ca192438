//! Reads CSV rows from bytes that arrive in pieces.

use fleetdb_engine::Error;

/// The maximum size of a row. It also bounds how far an unclosed quote is read before it is
/// reported.
const MAX_ROW_BYTES: usize = 16 << 20;

/// Reads CSV rows from bytes that arrive in pieces. A row ends with an unquoted `\n`, `\r\n` or
/// `\r`.
///
/// ```
/// let mut reader = fleetdb_query::CsvReader::new(b',');
/// reader.push(b"1,\"a\nb\"\n2,");
/// assert_eq!(reader.next_row(false).unwrap().unwrap().line, 1);
/// assert!(reader.next_row(false).unwrap().is_none(), "the second row may go on");
/// let row = reader.next_row(true).unwrap().unwrap();
/// assert_eq!((row.line, row.cells().unwrap().len()), (3, 2));
/// ```
#[derive(Debug)]
pub struct CsvReader {
    delimiter: u8,
    bytes: Vec<u8>,
    /// The offset of the next row.
    start: usize,
    /// How far the next row has been scanned.
    seen: usize,
    /// The line on which the next row begins, counted from 1.
    line: u64,
    /// The line at offset `seen`.
    seen_line: u64,
    is_quoted: bool,
    /// The lines of the next row's first and last opening quotes.
    quote_lines: Option<(u64, u64)>,
}

/// A row not yet split into cells.
#[derive(Debug)]
pub struct CsvRow<'a> {
    /// The line on which the row begins, counted from 1.
    pub line: u64,
    /// How many lines the row spans.
    pub lines: u64,
    bytes: &'a [u8],
    delimiter: u8,
}

/// A cell without its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvCell {
    /// The text, with quotes removed and doubled quotes unescaped.
    pub text: String,
    /// Whether the cell was quoted; a quoted cell is never NULL.
    pub is_quoted: bool,
}

/// An error that ends the reading, because the start of the next row cannot be determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvError {
    /// The line on which the quote was opened, counted from 1.
    pub line: u64,
    /// The cause and the remedy.
    pub reason: String,
}

impl CsvReader {
    /// Creates a reader for cells separated by `delimiter`.
    pub fn new(delimiter: u8) -> Self {
        Self {
            delimiter,
            bytes: Vec::new(),
            start: 0,
            seen: 0,
            line: 1,
            seen_line: 1,
            is_quoted: false,
            quote_lines: None,
        }
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.seen -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The number of bytes received but not yet returned as rows.
    pub fn pending_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Returns the next row, or `None` if it is not complete yet. `is_end` says that no more bytes
    /// will come.
    ///
    /// # Errors
    /// A quote is not closed, or the row is longer than the maximum.
    pub fn next_row(&mut self, is_end: bool) -> Result<Option<CsvRow<'_>>, CsvError> {
        while let Some(&byte) = self.bytes.get(self.seen) {
            match byte {
                b'"' => self.turn_quote(),
                b'\n' if self.is_quoted => self.seen_line += 1,
                b'\n' => return Ok(Some(self.take(1))),
                b'\r' if !self.is_quoted => match self.bytes.get(self.seen + 1) {
                    // This may be the first half of `\r\n`.
                    None if !is_end => break,
                    Some(b'\n') => return Ok(Some(self.take(2))),
                    _ => return Ok(Some(self.take(1))),
                },
                _ => {}
            }
            self.seen += 1;
        }
        if self.pending_bytes() > MAX_ROW_BYTES {
            let reason = format!("the row is longer than {MAX_ROW_BYTES} bytes; is a quote open?");
            return Err(CsvError { line: self.quote_lines.map_or(self.line, |(first, _)| first), reason });
        }
        if !is_end || self.pending_bytes() == 0 {
            return Ok(None);
        }
        match self.quote_lines.filter(|_| self.is_quoted) {
            Some((line, last)) => Err(CsvError { line, reason: not_closed(line, last) }),
            None => Ok(Some(self.take(0))),
        }
    }

    fn turn_quote(&mut self) {
        // A doubled quote is an escaped quote; it does not open a new quoted part.
        let is_second = self.seen > self.start && self.bytes[self.seen - 1] == b'"';
        if !self.is_quoted && !is_second {
            let first = self.quote_lines.map_or(self.seen_line, |(first, _)| first);
            self.quote_lines = Some((first, self.seen_line));
        }
        self.is_quoted = !self.is_quoted;
    }

    /// Returns the row that ends at `seen`, and skips the `end_bytes` of its line ending.
    fn take(&mut self, end_bytes: usize) -> CsvRow<'_> {
        let (line, lines) = (self.line, self.seen_line - self.line + 1);
        let from = std::mem::replace(&mut self.start, self.seen + end_bytes);
        let to = std::mem::replace(&mut self.seen, self.start);
        self.seen_line += 1;
        self.line = self.seen_line;
        self.quote_lines = None;
        CsvRow { line, lines, bytes: &self.bytes[from..to], delimiter: self.delimiter }
    }
}

fn not_closed(first: u64, last: u64) -> String {
    let hint = "close it, and write \"\" for a quote within quotes";
    if first == last {
        return format!("a quote is not closed: it begins in this line and goes on to the end; {hint}");
    }
    format!("a quote is not closed: the row has quotes from this line on, the last one begins in line {last}; {hint}")
}

impl CsvRow<'_> {
    /// Whether the line is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the row is `\.`, the end-of-data marker of older clients.
    pub fn is_end_mark(&self) -> bool {
        self.bytes == b"\\."
    }

    /// Splits the row into cells.
    ///
    /// # Errors
    /// The row is not UTF-8.
    pub fn cells(&self) -> Result<Vec<CsvCell>, Error> {
        let row = str::from_utf8(self.bytes).map_err(|_| Error::invalid("this is not UTF-8"))?;
        let (mut cells, mut text, mut has_quotes, mut is_inside) = (Vec::new(), String::new(), false, false);
        // The text from here on has not been copied yet. Quotes and delimiters are single-byte
        // characters, so all offsets are character boundaries.
        let mut from = 0;
        let bytes = row.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if byte == b'"' {
                text.push_str(row.get(from..at).unwrap_or_default());
                if is_inside && bytes.get(at + 1) == Some(&b'"') {
                    text.push('"');
                    at += 1;
                } else {
                    (is_inside, has_quotes) = (!is_inside, true);
                }
                from = at + 1;
            } else if byte == self.delimiter && !is_inside {
                text.push_str(row.get(from..at).unwrap_or_default());
                cells.push(CsvCell { text: std::mem::take(&mut text), is_quoted: std::mem::take(&mut has_quotes) });
                from = at + 1;
            }
            at += 1;
        }
        text.push_str(row.get(from..).unwrap_or_default());
        cells.push(CsvCell { text, is_quoted: has_quotes });
        Ok(cells)
    }
}

impl CsvCell {
    /// The text, or `None` if the cell is unquoted and equals the NULL text.
    pub fn value(self, null: &str) -> Option<String> {
        (self.is_quoted || self.text != null).then_some(self.text)
    }
}
