//! Reads JSON from its text without building a tree: values are found and checked as parts of the
//! text. So `json` values keep their spaces, duplicate keys and digits.

use datafusion::error::DataFusionError;
use fleetdb_engine::{Code, Error};
use fleetdb_functions::errors::query_error;

/// The maximum number of arrays and objects around a value. Reading recurses.
pub(super) const MAX_DEPTH: usize = 256;

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// The text is not JSON from this byte on.
    At(usize),
    /// Too many arrays and objects within others.
    TooDeep,
    /// An escape that stands for no character.
    Escape,
    /// A number with too large an exponent for `jsonb`.
    Number,
}

pub(super) type Read<T> = Result<T, Malformed>;

impl From<Malformed> for DataFusionError {
    fn from(malformed: Malformed) -> Self {
        query_error(match malformed {
            Malformed::At(byte) => Error::new(Code::InvalidText, "invalid input syntax for type json")
                .with_hint(format!("The text stops being JSON at byte {}.", byte + 1)),
            Malformed::TooDeep => {
                Error::new(Code::TooDeep, format!("json is nested too deeply: it has more than {MAX_DEPTH} levels"))
            }
            Malformed::Escape => Error::new(Code::InvalidText, "unsupported Unicode escape sequence")
                .with_hint("\\u0000 and half of a surrogate pair are no characters."),
            Malformed::Number => Error::new(Code::OutOfRange, "value overflows numeric format"),
        })
    }
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Object,
    Array,
    Text,
    Number,
    Boolean,
    Null,
}

impl Form {
    /// The name that `json_typeof` returns.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::Text => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Null => "null",
        }
    }

    pub(super) fn is_container(self) -> bool {
        matches!(self, Self::Object | Self::Array)
    }
}

/// The form of a value, judged by its first character.
pub(super) fn form_of(value: &str) -> Read<Form> {
    Reader::new(value).form()
}

/// A place in a text.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn wrong<T>(&self) -> Read<T> {
        Err(Malformed::At(self.at))
    }

    fn skip_spaces(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.at += 1;
        }
    }

    /// Moves to the next value, and tells its form.
    pub(super) fn form(&mut self) -> Read<Form> {
        self.skip_spaces();
        match self.byte() {
            Some(b'{') => Ok(Form::Object),
            Some(b'[') => Ok(Form::Array),
            Some(b'"') => Ok(Form::Text),
            Some(b'-' | b'0'..=b'9') => Ok(Form::Number),
            Some(b't' | b'f') => Ok(Form::Boolean),
            Some(b'n') => Ok(Form::Null),
            _ => self.wrong(),
        }
    }

    /// Enters the array or object at this place.
    pub(super) fn enter(&mut self) -> Read<Within> {
        let close = if self.form()? == Form::Object { b'}' } else { b']' };
        if self.depth == MAX_DEPTH {
            return Err(Malformed::TooDeep);
        }
        self.at += 1;
        self.depth += 1;
        Ok(Within { close, is_first: true })
    }

    /// Moves to the next element or key of an array or object; leaves it after the last one.
    pub(super) fn has_next(&mut self, within: &mut Within) -> Read<bool> {
        self.skip_spaces();
        let is_first = std::mem::take(&mut within.is_first);
        match self.byte() {
            Some(byte) if byte == within.close => {
                self.at += 1;
                self.depth -= 1;
                return Ok(false);
            }
            Some(b',') if !is_first => self.at += 1,
            Some(_) if is_first => {}
            _ => return self.wrong(),
        }
        Ok(true)
    }

    /// Reads a key, with its quotes, and the colon behind it.
    pub(super) fn key(&mut self) -> Read<&'a str> {
        if self.form()? != Form::Text {
            return self.wrong();
        }
        let key = self.value()?;
        self.skip_spaces();
        match self.byte() {
            Some(b':') => self.at += 1,
            _ => return self.wrong(),
        }
        Ok(key)
    }

    /// Reads a value as it is written.
    pub(super) fn value(&mut self) -> Read<&'a str> {
        let form = self.form()?;
        let from = self.at;
        match form {
            Form::Object | Form::Array => {
                let mut within = self.enter()?;
                while self.has_next(&mut within)? {
                    if form == Form::Object {
                        self.key()?;
                    }
                    self.value()?;
                }
            }
            Form::Text => self.text()?,
            Form::Number => self.number()?,
            Form::Boolean | Form::Null => self.word()?,
        }
        Ok(self.text.get(from..self.at).unwrap_or_default())
    }

    /// Checks that only spaces follow.
    pub(super) fn end(&mut self) -> Read<()> {
        self.skip_spaces();
        if self.at == self.text.len() { Ok(()) } else { self.wrong() }
    }

    fn text(&mut self) -> Read<()> {
        self.at += 1;
        loop {
            match self.byte() {
                None | Some(0..=0x1f) => return self.wrong(),
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    match self.byte() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {}
                        Some(b'u') => {
                            let digits = self.text.as_bytes().get(self.at + 1..self.at + 5);
                            if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                                return self.wrong();
                            }
                            self.at += 4;
                        }
                        _ => return self.wrong(),
                    }
                    self.at += 1;
                }
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    fn digits(&mut self) -> Read<()> {
        let from = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > from { Ok(()) } else { self.wrong() }
    }

    fn number(&mut self) -> Read<()> {
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        match self.byte() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.digits()?;
        }
        self.word_end()
    }

    fn word(&mut self) -> Read<()> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let word = ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word.as_bytes()));
        match word {
            Some(word) => self.at += word.len(),
            None => return self.wrong(),
        }
        self.word_end()
    }

    /// Checks that no letter or digit follows.
    fn word_end(&mut self) -> Read<()> {
        match self.byte() {
            Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | b'-' | b'+' | 0x80..) => {
                self.wrong()
            }
            _ => Ok(()),
        }
    }
}

/// An array or object that a [`Reader`] is in.
pub(super) struct Within {
    close: u8,
    is_first: bool,
}

/// Reads a whole text as one value, without the spaces around it.
pub(super) fn whole(text: &str) -> Read<&str> {
    let mut reader = Reader::new(text);
    let value = reader.value()?;
    reader.end()?;
    Ok(value)
}

/// The elements of an array; an empty list for anything else.
pub(super) fn elements(text: &str) -> Read<Vec<&str>> {
    let mut found = Vec::new();
    let mut reader = Reader::new(text);
    if reader.form()? == Form::Array {
        let mut within = reader.enter()?;
        while reader.has_next(&mut within)? {
            found.push(reader.value()?);
        }
    } else {
        reader.value()?;
    }
    reader.end()?;
    Ok(found)
}

/// The keys, with their quotes, and values of an object; an empty list for anything else.
pub(super) fn members(text: &str) -> Read<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    let mut reader = Reader::new(text);
    if reader.form()? == Form::Object {
        let mut within = reader.enter()?;
        while reader.has_next(&mut within)? {
            found.push((reader.key()?, reader.value()?));
        }
    } else {
        reader.value()?;
    }
    reader.end()?;
    Ok(found)
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
