//! Parses texts as times. SQL, parameters, CSV, COPY and function arguments all use it
//! (`docs/sql.md` lists the forms). Line protocol does not: its timestamps are numbers.

use crate::values::rounding::is_nearer_to_next;
use crate::values::zone::{NS_PER_SECOND, Zone, naive, to_ns};
use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::cast_utils::string_to_datetime;
use arrow::datatypes::{DataType, TimeUnit};
use chrono::{DateTime, Datelike, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use fleetdb_engine::{Code, ColumnType, Error, Unit};
use std::sync::Arc;

/// A text parsed as a time in a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeText {
    /// The number of units since 1970.
    Count(i64),
    /// Earlier than the unit's range, or `-infinity`.
    Before,
    /// Later than the unit's range, or `infinity`.
    Behind,
    /// Not a time.
    Unknown,
}

impl TimeText {
    /// The count, for comparisons. Out of range, it is the first or last count.
    pub fn bound(self) -> Option<i64> {
        match self {
            Self::Count(count) => Some(count),
            Self::Before => Some(i64::MIN),
            Self::Behind => Some(i64::MAX),
            Self::Unknown => None,
        }
    }

    /// The [`bound`](Self::bound) of a time out of range, such as `-infinity`, or `9999-12-31` in
    /// nanoseconds.
    pub fn far(self) -> Option<i64> {
        self.bound().filter(|_| matches!(self, Self::Before | Self::Behind))
    }

    /// The count as a value of a column, given the text that was parsed.
    ///
    /// # Errors
    /// The text is not a time, or is out of the column's range.
    pub fn value(self, text: &str, column_type: ColumnType) -> Result<i64, Error> {
        match self {
            Self::Count(count) => Ok(count),
            Self::Unknown => Err(unreadable(column_type.sql_name(), text)),
            Self::Before | Self::Behind => {
                Err(Error::new(Code::TimeOutOfRange, format!("timestamp out of range: \"{text}\"")))
            }
        }
    }
}

/// A text parsed as a time, in no unit yet.
enum Parsed {
    At(DateTime<Utc>),
    /// Infinite, or not a time.
    Other(TimeText),
}

impl Parsed {
    /// A text without a zone is local time in `zone`.
    fn new(text: &str, zone: Zone) -> Self {
        let text = text.trim();
        if text.eq_ignore_ascii_case("infinity") || text.eq_ignore_ascii_case("+infinity") {
            return Self::Other(TimeText::Behind);
        }
        if text.eq_ignore_ascii_case("-infinity") {
            return Self::Other(TimeText::Before);
        }
        time_of(text, zone).map_or(Self::Other(TimeText::Unknown), Self::At)
    }

    /// The nearest count of a unit, as PostgreSQL rounds a text with more digits than its type.
    fn count(&self, unit: Unit) -> TimeText {
        match self {
            Self::Other(other) => *other,
            Self::At(time) => match (nearest(*time, unit), *time < DateTime::UNIX_EPOCH) {
                (Some(count), _) => TimeText::Count(count),
                (None, true) => TimeText::Before,
                (None, false) => TimeText::Behind,
            },
        }
    }

    /// The unit, or the coarsest finer one that counts the time exactly and has it in its range.
    fn exact_unit(&self, unit: TimeUnit) -> TimeUnit {
        let Self::At(time) = self else { return unit };
        let finer = match time.timestamp_subsec_nanos() {
            0 => TimeUnit::Second,
            ns if ns.is_multiple_of(1_000_000) => TimeUnit::Millisecond,
            ns if ns.is_multiple_of(1_000) => TimeUnit::Microsecond,
            _ if time.timestamp_nanos_opt().is_none() => unit,
            _ => TimeUnit::Nanosecond,
        };
        finer.max(unit)
    }
}

/// Parses a time. A text without a zone is local time in `zone`.
pub fn read_time(text: &str, unit: Unit, zone: Zone) -> TimeText {
    Parsed::new(text, zone).count(unit)
}

/// Parses a time for a column. A text without a zone is the session's local time if the column has
/// a zone, else UTC. For other columns than timestamps, no text is a time.
pub fn read_for(text: &str, column_type: ColumnType, session: Zone) -> TimeText {
    match column_type {
        ColumnType::Timestamp(unit) => read_time(text, unit, Zone::Utc),
        ColumnType::TimestampUtc(unit) => read_time(text, unit, session),
        _ => TimeText::Unknown,
    }
}

/// Parses a time that is compared with a column of a timestamp type. If the time has more digits
/// than the column, it is read in a finer unit; returns the type with that unit.
///
/// # Errors
/// The type is no timestamp type.
pub fn read_exact(text: &str, data_type: &DataType, session: Zone) -> Result<(DataType, TimeText), Error> {
    let DataType::Timestamp(unit, of) = data_type else {
        return Err(Error::bug(format!("{data_type} is no time")));
    };
    let time = Parsed::new(text, if of.is_some() { session } else { Zone::Utc });
    let exact = DataType::Timestamp(time.exact_unit(*unit), of.clone());
    let unit = ColumnType::from_arrow(&exact)?.time_unit();
    let read = unit.map_or(TimeText::Unknown, |unit| time.count(unit));
    Ok((exact, read))
}

/// Parses texts as times of a type, in a session with this zone.
///
/// # Errors
/// A text is not a time, or is out of the type's range.
pub(crate) fn read_texts(texts: &ArrayRef, data_type: &DataType, zone: Zone) -> Result<ArrayRef, Error> {
    let column_type = ColumnType::from_arrow(data_type)?;
    let counts = texts
        .as_string::<i32>()
        .iter()
        .map(|text| text.map(|text| read_for(text, column_type, zone).value(text, column_type)).transpose());
    let counts: ArrayRef = Arc::new(counts.collect::<Result<Int64Array, Error>>()?);
    Ok(cast(&counts, data_type)?)
}

/// PostgreSQL's error for a text that names no time zone.
pub(crate) fn unknown_zone(name: &str) -> Error {
    Error::new(Code::InvalidParameter, format!("time zone \"{name}\" not recognized"))
}

/// PostgreSQL's error for a text that is not a valid value of a date or time type.
pub(crate) fn unreadable(type_name: &str, text: &str) -> Error {
    if let Some((time, zone)) = text.trim().rsplit_once(' ')
        && zone.starts_with(|c: char| c.is_ascii_alphabetic())
        && time_of(time, Zone::Utc).is_some()
    {
        return unknown_zone(zone);
    }
    let is_of_numbers = text.starts_with(|c: char| c.is_ascii_digit())
        && text.contains(['-', ':'])
        && text.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | ' ' | '+' | 'T' | 'Z'));
    match is_of_numbers {
        true => Error::new(Code::TimeOutOfRange, format!("date/time field value out of range: \"{text}\"")),
        false => Error::new(Code::InvalidTime, format!("invalid input syntax for type {type_name}: \"{text}\"")),
    }
}

/// Rewrites a time in the form that Arrow's parser accepts, in UTC; `None` if the text is not a
/// time or its year is outside 0 to 9999.
pub fn written_out(text: &str) -> Option<String> {
    let time = time_of(text.trim(), Zone::Utc)?;
    let is_near = (0..10_000).contains(&time.year());
    is_near.then(|| time.format("%Y-%m-%dT%H:%M:%S%.9f").to_string())
}

fn time_of(text: &str, zone: Zone) -> Option<DateTime<Utc>> {
    let with_seconds = with_seconds(text);
    let text = with_seconds.as_deref().unwrap_or(text);
    let Ok(time) = string_to_datetime(&Utc, text) else {
        let (time, names_zone) = far_time(text)?;
        return if names_zone { Some(time.and_utc()) } else { by_clocks(time, zone) };
    };
    // If parsing it with another offset gives another instant, the text names no zone.
    let names_zone = zone == Zone::Utc
        || FixedOffset::east_opt(1)
            .is_some_and(|east| string_to_datetime(&east, text).is_ok_and(|other| other == time));
    if names_zone { Some(time) } else { by_clocks(time.naive_utc(), zone) }
}

fn by_clocks(time: NaiveDateTime, zone: Zone) -> Option<DateTime<Utc>> {
    Some(naive(zone.instant(to_ns(time))?)?.and_utc())
}

/// Parses a date: `2026-01-01`, or one of the forms of [`far_date`].
pub(crate) fn date_of(text: &str) -> Option<NaiveDate> {
    text.parse().ok().or_else(|| far_date(text))
}

/// Parses a date whose year has a sign, more than four digits, or BC after the date, as CSV and
/// PostgreSQL write it.
fn far_date(text: &str) -> Option<NaiveDate> {
    let (text, is_before) = text.strip_suffix(" BC").map_or((text, false), |text| (text, true));
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = digits.split('-').map(|part| part.parse::<u32>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let year = sign * i32::try_from(year).ok()?;
    let date = NaiveDate::from_ymd_opt(if is_before { 1 - year } else { year }, month, day);
    date.filter(|_| parts.next().is_none())
}

/// Like [`far_date`], for a time: `10000-01-01 12:00:00+02:00`. Also returns whether the text names
/// a zone.
fn far_time(text: &str) -> Option<(NaiveDateTime, bool)> {
    let (text, era) = text.strip_suffix(" BC").map_or((text, ""), |text| (text, " BC"));
    let (date, clock) = text.split_once([' ', 'T']).unwrap_or((text, "00:00:00"));
    let (clock, ahead) = match clock.find(['Z', '+', '-']) {
        Some(at) => (&clock[..at], Some(ahead_ns(&clock[at..])?)),
        None => (clock, None),
    };
    let time = far_date(&format!("{date}{era}"))?.and_time(clock.parse::<NaiveTime>().ok()?);
    Some((naive(to_ns(time) - ahead.unwrap_or(0))?, ahead.is_some()))
}

/// Parses an offset: `Z`, `+02`, `-02:30`, `+01:05:21`.
fn ahead_ns(offset: &str) -> Option<i128> {
    let (sign, digits) = match offset.split_at_checked(1)? {
        ("Z", "") => return Some(0),
        ("+", digits) => (1, digits),
        (_, digits) => (-1, digits),
    };
    let (mut seconds, mut unit_seconds) = (0, 3_600);
    for part in digits.split(':') {
        let is_count = part.len() == 2 && unit_seconds > 0;
        seconds += part.parse::<u8>().ok().filter(|count| is_count && *count < 60).map(i128::from)? * unit_seconds;
        unit_seconds /= 60;
    }
    Some(sign * seconds * NS_PER_SECOND)
}

/// Adds the seconds to a time without them, such as `2026-01-01 12:00` or `2026-01-01T12:00+02`;
/// `None` for any other text.
fn with_seconds(text: &str) -> Option<String> {
    let (minute, zone) = text.trim().split_at_checked("2026-01-01 12:00".len())?;
    let is_minute = minute.bytes().zip("0000-00-00 00:00".bytes()).all(|(is, like)| match like {
        b'0' => is.is_ascii_digit(),
        b' ' => matches!(is, b' ' | b'T' | b't'),
        _ => is == like,
    });
    let names_place = zone.starts_with(' ') && zone.trim_start().starts_with(|c: char| c.is_ascii_alphabetic());
    let is_whole = zone.is_empty() || names_place || zone.trim_start().starts_with(['Z', 'z', '+', '-']);
    (is_minute && is_whole).then(|| format!("{minute}:00{zone}"))
}

/// The nearest number of units since 1970; `None` if it does not fit an i64.
fn nearest(time: DateTime<Utc>, unit: Unit) -> Option<i64> {
    let unit_ns = 1_000_000_000 / unit.per_second();
    let rest_ns = i64::from(time.timestamp_subsec_nanos()) % unit_ns;
    let down = count(time, unit)?;
    down.checked_add(i64::from(is_nearer_to_next(rest_ns, unit_ns, time.timestamp())))
}

/// The number of whole units since 1970; `None` if it does not fit an i64.
fn count(time: DateTime<Utc>, unit: Unit) -> Option<i64> {
    match unit {
        Unit::Second => Some(time.timestamp()),
        Unit::Millisecond => Some(time.timestamp_millis()),
        Unit::Microsecond => Some(time.timestamp_micros()),
        Unit::Nanosecond => time.timestamp_nanos_opt(),
    }
}

#[cfg(test)]
#[path = "times_tests.rs"]
mod tests;
