//! `format('%s of %I', 7, 'meters')`: values put into a text (`text_format` in PostgreSQL's `varlena.c`).
//! `%s` is a text, `%I` a name and `%L` a literal of SQL. Each may have the number of its argument (`%2$s`)
//! and a width (`%-10s`, `%*s`).
//!
//! A width may be large, so the call counts the bytes of its output before it makes it.

use crate::arguments::misuse;
use crate::conversions::letters;
use crate::expressions::are_constant;
use crate::function_memory::{FunctionMemory, check_text_bytes};
use crate::quoting::{literal, texts_of};
use arrow::array::{Array, AsArray, StringArray, StringBuilder};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use fleetdb_engine::sql_identifier;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The `format` function.
#[derive(Debug)]
pub(crate) struct Format {
    made: Arc<FunctionMemory>,
    signature: Signature,
}

impl Format {
    pub(crate) fn new(made: &Arc<FunctionMemory>) -> Self {
        Self { made: Arc::clone(made), signature: Signature::new(TypeSignature::VariadicAny, Volatility::Immutable) }
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.signature == other.signature
    }
}

impl Eq for Format {}

impl Hash for Format {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.signature.hash(state);
    }
}

impl ScalarUDFImpl for Format {
    fn name(&self) -> &'static str {
        "format"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = are_constant(&args.args);
        let rows = if is_constant { 1 } else { args.number_rows };
        let column = |arg: &ColumnarValue| {
            let values = arg.to_array(rows)?;
            match values.as_boolean_opt() {
                Some(values) => Ok(letters(values)),
                None => texts_of(&values),
            }
        };
        let columns = args.args.iter().map(column).collect::<Result<Vec<_>>>()?;
        let [templates, values @ ..] = columns.as_slice() else {
            return Err(misuse("use format(template, values)".to_owned()));
        };
        let put = |row: usize, out: &mut dyn Write| match templates.is_valid(row) {
            true => Template { rest: templates.value(row), values, row, next: 0 }.put(out).map(|()| true),
            false => Ok(false),
        };
        let mut bytes = Counted(0.0);
        for row in 0..rows {
            put(row, &mut bytes)?;
        }
        check_text_bytes(self.name(), bytes.0)?;
        self.made.call(self.name(), args, bytes.0, |_| {
            let mut texts = StringBuilder::with_capacity(rows, bytes.0 as usize);
            for row in 0..rows {
                match put(row, &mut texts)? {
                    true => texts.append_value(""),
                    false => texts.append_null(),
                }
            }
            let texts = texts.finish();
            Ok(match is_constant {
                true => ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?),
                false => ColumnarValue::Array(Arc::new(texts)),
            })
        })
    }
}

/// Counts bytes instead of writing them.
struct Counted(f64);

impl Write for Counted {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 += text.len() as f64;
        // More is refused anyway; a large width is not counted to its end.
        if self.0 > crate::function_memory::MAX_TEXT_BYTES { Err(std::fmt::Error) } else { Ok(()) }
    }
}

/// The rest of a template, with the values of a row.
struct Template<'a> {
    rest: &'a str,
    values: &'a [StringArray],
    row: usize,
    /// The argument after the last one that was used.
    next: usize,
}

impl<'a> Template<'a> {
    fn put(mut self, out: &mut dyn Write) -> Result<()> {
        let too_long = |_| check_text_bytes("format", f64::INFINITY).err().unwrap_or_else(unfinished);
        while let Some((plain, behind)) = self.rest.split_once('%') {
            out.write_str(plain).map_err(too_long)?;
            self.rest = behind;
            if let Some(behind) = self.rest.strip_prefix('%') {
                out.write_char('%').map_err(too_long)?;
                self.rest = behind;
                continue;
            }
            let (text, width, is_left) = self.value()?;
            let missing = width.saturating_sub(text.chars().count());
            let (before, behind) = if is_left { (0, missing) } else { (missing, 0) };
            put_blanks(before, out).map_err(too_long)?;
            out.write_str(&text).map_err(too_long)?;
            put_blanks(behind, out).map_err(too_long)?;
        }
        out.write_str(self.rest).map_err(too_long)
    }

    /// Reads what stands behind a `%`: the value's text, its width, and whether it stands at the left.
    fn value(&mut self) -> Result<(String, usize, bool)> {
        let position = self.position()?;
        let mut is_left = false;
        while let Some(behind) = self.rest.strip_prefix('-') {
            (self.rest, is_left) = (behind, true);
        }
        let mut width = self.number()?;
        if let Some(behind) = self.rest.strip_prefix('*') {
            self.rest = behind;
            let position = self.position()?;
            let of_argument = self.argument(position)?.map_or(Ok(0), str::parse::<i64>);
            let of_argument = of_argument.map_err(|_| misuse("format: a width is a whole number".to_owned()))?;
            is_left |= of_argument < 0;
            width = usize::try_from(of_argument.unsigned_abs()).ok();
        }
        let mut behind = self.rest.chars();
        let kind = behind.next().ok_or_else(unfinished)?;
        self.rest = behind.as_str();
        let value = self.argument(position)?;
        let text = match (kind, value) {
            ('s', value) => value.unwrap_or_default().to_owned(),
            ('I', Some(name)) => sql_identifier(name),
            ('I', None) => return Err(misuse("null values cannot be formatted as an SQL identifier".to_owned())),
            ('L', value) => value.map_or_else(|| "NULL".to_owned(), literal),
            (other, _) => return Err(misuse(format!("unrecognized format() type specifier \"{other}\""))),
        };
        Ok((text, width.unwrap_or_default(), is_left))
    }

    /// The number of an argument in front of `$`.
    fn position(&mut self) -> Result<Option<usize>> {
        let before = self.rest;
        let number = self.number()?;
        match self.rest.strip_prefix('$') {
            Some(behind) => {
                self.rest = behind;
                number
                    .filter(|number| *number > 0)
                    .map(Some)
                    .ok_or_else(|| misuse("format specifies argument 0, but arguments are numbered from 1".to_owned()))
            }
            None => {
                self.rest = before;
                Ok(None)
            }
        }
    }

    fn number(&mut self) -> Result<Option<usize>> {
        let digits = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, behind) = self.rest.split_at(digits);
        self.rest = behind;
        match number {
            "" => Ok(None),
            number => number.parse().map(Some).map_err(|_| misuse("format: number is out of range".to_owned())),
        }
    }

    /// The value of an argument, counted from 1, or else of the next one; `None` if it is NULL.
    fn argument(&mut self, position: Option<usize>) -> Result<Option<&'a str>> {
        let place = position.map_or(self.next, |position| position - 1);
        self.next = place + 1;
        let values = self.values;
        let values = values.get(place).ok_or_else(|| misuse("too few arguments for format()".to_owned()))?;
        Ok(values.is_valid(self.row).then(|| values.value(self.row)))
    }
}

/// Writes blanks, many at a time.
fn put_blanks(count: usize, out: &mut dyn Write) -> std::fmt::Result {
    const BLANKS: &str = match str::from_utf8(&[b' '; 4_096]) {
        Ok(blanks) => blanks,
        Err(_) => " ",
    };
    let mut left = count;
    while left > 0 {
        let now = left.min(BLANKS.len());
        out.write_str(&BLANKS[..now])?;
        left -= now;
    }
    Ok(())
}

fn unfinished() -> datafusion::error::DataFusionError {
    misuse("unterminated format() type specifier".to_owned())
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
