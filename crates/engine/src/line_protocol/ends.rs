//! Finds where a line of line protocol ends: at a line break outside quoted text.
//!
//! All code that splits lines uses [`LineSplitter`], so that it finds the same lines. The rule is
//! that of InfluxDB 1 (`scanLine`): after the first blank, a quote opens a text if more equals
//! signs than commas precede it, and a backslash escapes the next byte. Only comments differ: a
//! comment ends with its line even if it contains quotes, whereas InfluxDB loses the lines after
//! it.

/// Finds the ends of lines in bytes, which may arrive in pieces.
///
/// ```
/// use fleetdb_engine::LineSplitter;
/// let mut ends = LineSplitter::default();
/// assert_eq!(ends.find(b"m v=\"two\nlines\" 1\nm v=2"), Some(18));
/// assert_eq!(ends.find(b"m v=2"), None);
/// assert_eq!(ends.find(b" 2\n"), Some(3));
/// ```
#[derive(Clone, Debug, Default)]
pub struct LineSplitter {
    place: Place,
    is_escaped: bool,
    /// Equals signs and commas after the first blank, outside texts.
    equals: usize,
    commas: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// No byte of the line yet, or only tabs.
    #[default]
    Start,
    /// Only blanks so far, perhaps with tabs.
    Blanks,
    Comment,
    /// No blank so far: the measurement and its tags.
    Tags,
    Fields,
    Text,
}

impl LineSplitter {
    /// The offset after the byte that ends the line; `None` if `bytes` do not end it and the line
    /// continues in the next piece.
    pub fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.place == Place::Start {
            // Most lines have no quotes or backslashes and end at their first line break.
            let special = bytes.iter().position(|byte| matches!(byte, b'\n' | b'"' | b'\\'));
            if let Some(at) = special.filter(|&at| bytes[at] == b'\n') {
                return Some(at + 1);
            }
        }
        let at = bytes.iter().position(|&byte| self.ends_with(byte))?;
        *self = Self::default();
        Some(at + 1)
    }

    /// Whether the bytes since the last line's end break off inside a text.
    pub fn is_in_text(&self) -> bool {
        self.place == Place::Text
    }

    /// Consumes a byte and tells whether the line ends with it.
    fn ends_with(&mut self, byte: u8) -> bool {
        if std::mem::take(&mut self.is_escaped) {
            return false;
        }
        self.place = match (self.place, byte) {
            (Place::Text, b'\n') => Place::Text,
            (_, b'\n') => return true,
            (Place::Start | Place::Blanks, b'#') => Place::Comment,
            // In front of a line, a blank begins the fields, but a tab does not.
            (Place::Start, b'\t' | 0) => Place::Start,
            (Place::Start | Place::Blanks, b' ' | b'\t' | 0) => Place::Blanks,
            (Place::Start, _) => Place::Tags,
            (Place::Blanks, _) | (Place::Tags, b' ') => Place::Fields,
            (Place::Fields, b'"') if self.equals > self.commas => Place::Text,
            (Place::Text, b'"') => Place::Fields,
            (place, _) => place,
        };
        self.is_escaped = byte == b'\\' && self.place != Place::Comment;
        if self.place == Place::Fields {
            self.equals += usize::from(byte == b'=');
            self.commas += usize::from(byte == b',');
        }
        false
    }
}

/// A line of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLine<'a> {
    /// The number of its first text line, counted from 1.
    pub number: usize,
    /// The line, including its line break.
    pub bytes: &'a [u8],
}

/// The lines of a request body. The last one may lack a line break.
pub fn body_lines(body: &[u8]) -> impl Iterator<Item = BodyLine<'_>> {
    let (mut rest, mut number) = (body, 1);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (bytes, after) = rest.split_at(LineSplitter::default().find(rest).unwrap_or(rest.len()));
        rest = after;
        let line = BodyLine { number, bytes };
        number += 1;
        if bytes.len() > 1 {
            // Line breaks before the last byte are part of a text.
            number += bytes[..bytes.len() - 1].iter().filter(|&&byte| byte == b'\n').count();
        }
        Some(line)
    })
}

#[cfg(test)]
#[path = "ends_tests.rs"]
mod tests;
