//! Rows of CSV from bytes that come in pieces.

use fleetdb_engine::Error;

/// The most bytes of a row. An open quote is noticed at the latest when so many bytes have come.
const MAX_ROW_BYTES: usize = 16 << 20;

/// Reads rows of CSV from bytes that come in pieces. A row ends with `\n`, `\r\n` or `\r` outside of quotes.
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
    /// Where the next row begins.
    start: usize,
    /// How far the next row has been looked through.
    seen: usize,
    /// The line in which the next row begins, counted from 1.
    line: u64,
    /// The line at `seen`.
    seen_line: u64,
    is_quoted: bool,
    /// The lines of the first and of the last quote of the next row that were opened.
    quote_lines: Option<(u64, u64)>,
}

/// A row, not yet split.
#[derive(Debug)]
pub struct CsvRow<'a> {
    /// The line in which it begins, counted from 1.
    pub line: u64,
    /// How many lines it has.
    pub lines: u64,
    bytes: &'a [u8],
    delimiter: u8,
}

/// A cell without its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvCell {
    /// What it says.
    pub text: String,
    /// Whether there were quotes: then it is never NULL.
    pub is_quoted: bool,
}

/// What ends the reading: nobody knows where the next row begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvError {
    /// The line in which the quote was opened, counted from 1.
    pub line: u64,
    /// Why, and what to do.
    pub reason: String,
}

impl CsvReader {
    /// A reader of cells with this between them.
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

    /// More bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.seen -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that have come and are of no row yet that was given out.
    pub fn pending_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The next row; `None` if it has not come as a whole. With `is_end` no more bytes come.
    ///
    /// # Errors
    /// A quote is not closed, or the row is longer than a row may be.
    pub fn next_row(&mut self, is_end: bool) -> Result<Option<CsvRow<'_>>, CsvError> {
        while let Some(&byte) = self.bytes.get(self.seen) {
            match byte {
                b'"' => self.turn_quote(),
                b'\n' if self.is_quoted => self.seen_line += 1,
                b'\n' => return Ok(Some(self.take(1))),
                b'\r' if !self.is_quoted => match self.bytes.get(self.seen + 1) {
                    // It may be the first half of \r\n.
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
        // Two quotes are one of the cell's own, and open nothing.
        let is_second = self.seen > self.start && self.bytes[self.seen - 1] == b'"';
        if !self.is_quoted && !is_second {
            let first = self.quote_lines.map_or(self.seen_line, |(first, _)| first);
            self.quote_lines = Some((first, self.seen_line));
        }
        self.is_quoted = !self.is_quoted;
    }

    /// The row up to `seen`, with so many bytes of a line's end behind it.
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
    /// Whether nothing stands in the line.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether it is `\.`, by which old clients say that no more rows come.
    pub fn is_end_mark(&self) -> bool {
        self.bytes == b"\\."
    }

    /// Its cells.
    ///
    /// # Errors
    /// The row is not UTF-8.
    pub fn cells(&self) -> Result<Vec<CsvCell>, Error> {
        let row = str::from_utf8(self.bytes).map_err(|_| Error::invalid("this is not UTF-8"))?;
        let (mut cells, mut text, mut has_quotes, mut is_inside) = (Vec::new(), String::new(), false, false);
        // What stands from here on has not been added to the text. All that is looked for is ASCII or a byte of its own, so
        // that the places are ends of characters.
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
    /// The text; `None` for a cell without quotes that says what stands for NULL.
    pub fn value(self, null: &str) -> Option<String> {
        (self.is_quoted || self.text != null).then_some(self.text)
    }
}
