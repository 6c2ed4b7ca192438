//! `to_char(time, template)` with PostgreSQL's templates, such as `YYYY-MM-DD HH24:MI:SS`.
//! DataFusion's function of this name takes strftime formats such as `%Y-%m-%d` and returns a
//! format without `%` unchanged. It still handles formats that contain `%`.
//! <https://www.postgresql.org/docs/current/functions-formatting.html#FUNCTIONS-FORMATTING-DATETIME-TABLE>

use crate::arguments::misuse;
use crate::expressions::are_constant;
use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::datetime;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use std::fmt::Write;
use std::sync::Arc;

/// The `to_char` function. See the module documentation.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ToChar {
    /// DataFusion's `to_char`.
    of_strftime: Arc<ScalarUDF>,
    aliases: Vec<String>,
}

impl Default for ToChar {
    fn default() -> Self {
        let of_strftime = datetime::to_char();
        let aliases = of_strftime.aliases().to_vec();
        Self { of_strftime, aliases }
    }
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        "to_char"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        self.of_strftime.signature()
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [times, templates] = args.args.as_slice() else { return Err(misuse("use to_char(time, template)".into())) };
        let is_constant = are_constant(&args.args);
        let templates = templates.to_array(if is_constant { 1 } else { args.number_rows })?;
        let is_of_strftime = templates.as_string::<i32>().iter().flatten().any(|template| template.contains('%'));
        if is_of_strftime || !matches!(times.data_type(), DataType::Timestamp(..) | DataType::Date32 | DataType::Date64)
        {
            return self.of_strftime.invoke_with_args(args);
        }
        let texts = texts(&times.to_array(templates.len())?, &templates)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?),
            false => ColumnarValue::Array(texts),
        })
    }
}

/// Formats each time with the template in the same row.
fn texts(times: &ArrayRef, templates: &ArrayRef) -> Result<ArrayRef> {
    let is_zoned = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
    let times = cast(times, &DataType::Timestamp(TimeUnit::Nanosecond, None))?;
    let (times, templates) = (times.as_primitive::<TimestampNanosecondType>(), templates.as_string::<i32>());
    let mut texts = StringBuilder::new();
    let mut known: Option<(&str, Vec<Part>)> = None;
    for (time, template) in times.iter().zip(templates) {
        // As in PostgreSQL, an empty template gives NULL.
        let (Some(time), Some(template)) = (time, template.filter(|template| !template.is_empty())) else {
            texts.append_null();
            continue;
        };
        if known.as_ref().is_none_or(|(of, _)| *of != template) {
            known = Some((template, parts(template)?));
        }
        let time = DateTime::from_timestamp_nanos(time).naive_utc();
        for part in known.iter().flat_map(|(_, parts)| parts) {
            // Writing to a string builder cannot fail.
            part.write(time, is_zoned, &mut texts).ok();
        }
        texts.append_value("");
    }
    Ok(Arc::new(texts.finish()))
}

/// The letter case of a field.
#[derive(Clone, Copy, Debug)]
enum Case {
    Upper,
    Capital,
    Lower,
}

impl Case {
    fn of(field: &str) -> Self {
        let mut letters = field.chars().filter(char::is_ascii_alphabetic).map(|c| c.is_ascii_uppercase());
        match (letters.next(), letters.next()) {
            (Some(true), Some(false)) => Self::Capital,
            (Some(true), _) => Self::Upper,
            _ => Self::Lower,
        }
    }

    fn write(self, text: &str, out: &mut impl Write) -> std::fmt::Result {
        match self {
            Self::Upper => out.write_str(&text.to_ascii_uppercase()),
            Self::Capital => out.write_str(text),
            Self::Lower => out.write_str(&text.to_ascii_lowercase()),
        }
    }
}

/// Extracts a number from a time.
type NumberOf = fn(NaiveDateTime) -> i64;

#[derive(Debug)]
enum Part {
    Text(String),
    /// Padded with zeros to a minimum number of digits; 0 means no padding.
    Number(NumberOf, usize),
    /// The last digits, as many as given.
    Digits(NumberOf, usize),
    /// A name padded with blanks to a minimum width.
    Name(fn(NaiveDateTime) -> &'static str, Case, usize),
    /// The zone, UTC, of times that have one.
    Zone(Case),
}

impl Part {
    fn write(&self, time: NaiveDateTime, is_zoned: bool, out: &mut impl Write) -> std::fmt::Result {
        match self {
            Self::Text(text) => out.write_str(text),
            Self::Number(of, digits) => write!(out, "{:0digits$}", of(time), digits = *digits),
            Self::Digits(of, digits) => {
                let last = 10i64.pow(*digits as u32);
                write!(out, "{:0digits$}", of(time).rem_euclid(last), digits = *digits)
            }
            Self::Name(of, case, letters) => {
                let name = of(time);
                case.write(name, out)?;
                write!(out, "{:blanks$}", "", blanks = letters.saturating_sub(name.len()))
            }
            Self::Zone(case) => case.write(if is_zoned { "UTC" } else { "" }, out),
        }
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
/// The length of the longest month or day name.
const LONGEST_NAME: usize = 9;

fn month(time: NaiveDateTime) -> &'static str {
    MONTHS[time.month0() as usize]
}

fn day(time: NaiveDateTime) -> &'static str {
    DAYS[time.weekday().num_days_from_monday() as usize]
}

fn half(time: NaiveDateTime) -> &'static str {
    if time.hour() < 12 { "AM" } else { "PM" }
}

fn half_with_dots(time: NaiveDateTime) -> &'static str {
    if time.hour() < 12 { "A.M." } else { "P.M." }
}

/// Fields in capitals, the number each stands for, and its number of digits. A longer field
/// precedes its own prefixes.
const FIELDS: [(&str, NumberOf, usize); 29] = [
    ("SSSSS", |time| i64::from(time.num_seconds_from_midnight()), 0),
    ("SSSS", |time| i64::from(time.num_seconds_from_midnight()), 0),
    ("IYYY", |time| i64::from(time.iso_week().year()), 4),
    ("IDDD", |time| i64::from(time.iso_week().week0() * 7 + time.weekday().number_from_monday()), 3),
    ("YYYY", |time| i64::from(time.year()), 4),
    ("HH24", |time| i64::from(time.hour()), 2),
    ("HH12", |time| i64::from(time.hour12().1), 2),
    ("DDD", |time| i64::from(time.ordinal()), 3),
    ("FF1", |time| i64::from(time.nanosecond() / 100_000_000), 1),
    ("FF2", |time| i64::from(time.nanosecond() / 10_000_000), 2),
    ("FF3", |time| i64::from(time.nanosecond() / 1_000_000), 3),
    ("FF4", |time| i64::from(time.nanosecond() / 100_000), 4),
    ("FF5", |time| i64::from(time.nanosecond() / 10_000), 5),
    ("FF6", |time| i64::from(time.nanosecond() / 1_000), 6),
    ("CC", |time| i64::from((time.year() - 1).div_euclid(100) + 1), 2),
    ("DD", |time| i64::from(time.day()), 2),
    ("HH", |time| i64::from(time.hour12().1), 2),
    ("ID", |time| i64::from(time.weekday().number_from_monday()), 1),
    ("IW", |time| i64::from(time.iso_week().week()), 2),
    ("MI", |time| i64::from(time.minute()), 2),
    ("MM", |time| i64::from(time.month()), 2),
    ("MS", |time| i64::from(time.nanosecond() / 1_000_000), 3),
    ("SS", |time| i64::from(time.second()), 2),
    ("US", |time| i64::from(time.nanosecond() / 1_000), 6),
    ("WW", |time| i64::from(time.ordinal0() / 7 + 1), 2),
    ("D", |time| i64::from(time.weekday().number_from_sunday()), 1),
    ("J", |time| i64::from(time.num_days_from_ce()) + 1_721_425, 0),
    ("Q", |time| i64::from(time.month0() / 3 + 1), 1),
    ("W", |time| i64::from(time.day0() / 7 + 1), 1),
];

/// Unsupported PostgreSQL fields, which would otherwise be taken for text or for other fields.
const UNKNOWN: [&str; 8] = ["Y,YYY", "RM", "TM", "FX", "BC", "AD", "B.C.", "A.D."];

/// Splits a template into fields and the text between them. Text in double quotes is not a field.
fn parts(template: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, behind) = quoted.split_once('"').unwrap_or((quoted, ""));
            add_text(&mut parts, text);
            rest = behind;
            continue;
        }
        if let Some(other) = UNKNOWN.iter().find(|of| strip(rest, of).is_some()) {
            return Err(wrong(template, other));
        }
        // `FM` suppresses blanks and zeros.
        let (is_filled, field) = match strip(rest, "FM") {
            Some(field) => (false, field),
            None => (true, rest),
        };
        match part(field, is_filled) {
            Some((part, length)) => {
                rest = &field[length..];
                if matches!(part, Part::Number(..) | Part::Digits(..)) && strip(rest, "TH").is_some() {
                    return Err(wrong(template, "TH"));
                }
                parts.push(part);
            }
            None if field.starts_with('"') => rest = field,
            // After FM, anything that is not a field is text, even another FM.
            None => {
                let end = field.chars().next().map_or(0, char::len_utf8);
                let (text, behind) = field.split_at(end);
                add_text(&mut parts, text);
                rest = behind;
            }
        }
    }
    Ok(parts)
}

fn wrong(template: &str, field: &str) -> DataFusionError {
    misuse(format!(
        "to_char: {field} in '{template}' is not supported; letters that are no field stand in double quotes"
    ))
}

fn add_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        Some(Part::Text(before)) => before.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

/// The rest of the text after a word in all capitals or all lower case.
fn strip<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (start, behind) = text.split_at_checked(word.len())?;
    let is_small = || start.bytes().eq(word.bytes().map(|letter| letter.to_ascii_lowercase()));
    (start == word || is_small()).then_some(behind)
}

/// Whether a text begins with a word in capitals, in lower case, or with only its first letter
/// capitalized.
fn begins_as_name(text: &str, word: &str) -> bool {
    let is_capital = || text.starts_with(&word[..1]) && strip(&text[1..], &word[1..]).is_some();
    strip(text, word).is_some() || is_capital()
}

/// The field at the beginning of a text, and the length of its name.
fn part(text: &str, is_filled: bool) -> Option<(Part, usize)> {
    let begins = |word: &str| strip(text, word).is_some();
    let case = |length: usize| Case::of(&text[..length]);
    let letters = if is_filled { LONGEST_NAME } else { 0 };
    let name =
        |of: fn(NaiveDateTime) -> &'static str, length, letters| Some((Part::Name(of, case(length), letters), length));
    let digits = |digits| if is_filled { digits } else { 0 };
    if begins_as_name(text, "MONTH") {
        return name(month, 5, letters);
    }
    if begins_as_name(text, "MON") {
        return name(|time| &month(time)[..3], 3, 0);
    }
    if begins_as_name(text, "DAY") {
        return name(day, 3, letters);
    }
    if begins_as_name(text, "DY") {
        return name(|time| &day(time)[..3], 2, 0);
    }
    if begins("A.M.") || begins("P.M.") {
        return name(half_with_dots, 4, 0);
    }
    if begins("AM") || begins("PM") {
        return name(half, 2, 0);
    }
    if begins("TZH") || begins("TZM") || begins("OF") {
        let (text, length) = if begins("OF") {
            (if is_filled { "+00" } else { "+0" }, 2)
        } else if begins("TZH") {
            ("+00", 3)
        } else {
            ("00", 3)
        };
        return Some((Part::Text(text.to_owned()), length));
    }
    if begins("TZ") {
        return Some((Part::Zone(case(2)), 2));
    }
    if let Some((word, of, width)) = FIELDS.iter().find(|(word, ..)| begins(word)) {
        return Some((Part::Number(*of, digits(*width)), word.len()));
    }
    // The last digits of the year, or of the ISO year; all letters in the same case.
    let digits = |text: &str, letter: char| text.chars().take(3).take_while(|c| *c == letter).count();
    let of_week = match text.chars().next()? {
        'I' => Some('Y'),
        'i' => Some('y'),
        _ => None,
    };
    match of_week {
        Some(letter) => {
            let count = digits(&text[1..], letter) + 1;
            Some((Part::Digits(|time| i64::from(time.iso_week().year()), count), count))
        }
        None => {
            let count = digits(text, 'Y').max(digits(text, 'y'));
            (count > 0).then_some((Part::Digits(|time| i64::from(time.year()), count), count))
        }
    }
}

#[cfg(test)]
#[path = "to_char_tests.rs"]
mod tests;
