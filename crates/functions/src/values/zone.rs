//! Time zones, by IANA name or as offsets in PostgreSQL's forms (`pg_tzset` and `check_timezone` in
//! its sources). A plain number counts hours east of UTC. The POSIX forms `UTC+3` and `<+02>-02`
//! count hours west.
//!
//! A session has one time zone (`SET TIME ZONE`); the default is UTC.

use chrono::{DateTime, Datelike, LocalResult, NaiveDate, NaiveDateTime, Offset, TimeDelta, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};
use std::sync::{Arc, Mutex, PoisonError};

/// Nanoseconds in a second.
pub(crate) const NS_PER_SECOND: i128 = 1_000_000_000;
/// Nanoseconds in a day without a change of clocks.
pub(crate) const NS_PER_DAY: i128 = 86_400 * NS_PER_SECOND;
const SECONDS_PER_HOUR: i32 = 3_600;
/// UTC offsets are smaller than this.
const MAX_HOURS: i32 = 168;

/// The tables of time zones end with the year before this one. All later years repeat the rules of
/// the last years ([`within_tables`]).
const FIRST_UNLISTED_YEAR: i32 = 2100;
/// Twelve years of March 1 are on every weekday. In the years before these, a few zones change their
/// clocks for Ramadan.
const FIRST_REPEATED_YEAR: i32 = FIRST_UNLISTED_YEAR - 12;

/// IANA's aliases of UTC.
const UTC: [&str; 17] = [
    "Etc/GMT",
    "Etc/GMT+0",
    "Etc/GMT-0",
    "Etc/GMT0",
    "Etc/Greenwich",
    "Etc/UCT",
    "Etc/UTC",
    "Etc/Universal",
    "Etc/Zulu",
    "GMT",
    "GMT+0",
    "GMT-0",
    "GMT0",
    "Greenwich",
    "UCT",
    "Universal",
    "Zulu",
];

/// A time zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Zone {
    /// Coordinated universal time.
    #[default]
    Utc,
    /// A fixed UTC offset, in seconds ahead of UTC.
    Fixed(i32),
    /// An IANA time zone.
    Named(Tz),
}

impl Zone {
    /// Finds a zone by name; an error message if there is none.
    pub fn named(name: &str) -> Result<Self, String> {
        let zone = if name == "UTC" { Some(Self::Utc) } else { called(name).map(|(zone, _)| zone) };
        zone.ok_or_else(|| format!("there is no time zone '{name}': give an IANA name like 'Europe/Berlin' or 'UTC'"))
    }

    /// Parses a value of the setting `TimeZone`. Returns the zone and its name as SHOW displays it;
    /// `None` if the value names no zone.
    pub fn of_setting(text: &str) -> Option<(Self, String)> {
        let Ok(hours) = text.trim_start().parse::<f64>() else { return called(text) };
        if hours.abs() >= f64::from(MAX_HOURS) || hours.is_nan() {
            return None;
        }
        let zone = Self::fixed((hours * f64::from(SECONDS_PER_HOUR)) as i32);
        Some((zone, zone.offset_name()))
    }

    fn fixed(ahead_seconds: i32) -> Self {
        if ahead_seconds == 0 { Self::Utc } else { Self::Fixed(ahead_seconds) }
    }

    /// A name that [`named`](Self::named) accepts.
    pub fn name(self) -> String {
        match self {
            Self::Utc => "UTC".to_owned(),
            Self::Fixed(_) => self.offset_name(),
            Self::Named(zone) => zone.name().to_owned(),
        }
    }

    /// The POSIX name of the offset, such as `<+02>-02`.
    fn offset_name(self) -> String {
        let seconds = if let Self::Fixed(seconds) = self { seconds } else { 0 };
        let (sign, posix) = if seconds < 0 { ('-', '+') } else { ('+', '-') };
        let hours = clock_text(seconds.unsigned_abs());
        format!("<{sign}{hours}>{posix}{hours}")
    }

    /// The UTC offset at an instant, in seconds; `None` outside the calendar's range.
    pub(crate) fn ahead_seconds(self, instant_ns: i128) -> Option<i32> {
        Some(match self {
            Self::Utc => 0,
            Self::Fixed(seconds) => seconds,
            Self::Named(zone) => {
                let (time, _) = within_tables(naive(instant_ns)?)?;
                zone.offset_from_utc_datetime(&time).fix().local_minus_utc()
            }
        })
    }

    fn ahead_ns(self, instant_ns: i128) -> Option<i128> {
        Some(i128::from(self.ahead_seconds(instant_ns)?) * NS_PER_SECOND)
    }

    /// The local time at an instant.
    pub(crate) fn local(self, instant_ns: i128) -> Option<i128> {
        Some(instant_ns + self.ahead_ns(instant_ns)?)
    }

    /// The instant of a local time. If clocks skip the local time or show it twice, the smaller UTC
    /// offset applies, as in PostgreSQL, which gives the later instant.
    pub(crate) fn instant(self, local_ns: i128) -> Option<i128> {
        let Self::Named(zone) = self else { return Some(local_ns - self.ahead_ns(local_ns)?) };
        let (time, _) = within_tables(naive(local_ns)?)?;
        let ahead_ns = match zone.offset_from_local_datetime(&time) {
            LocalResult::Single(offset) | LocalResult::Ambiguous(_, offset) => {
                i128::from(offset.fix().local_minus_utc()) * NS_PER_SECOND
            }
            LocalResult::None => self.ahead_ns(local_ns - NS_PER_DAY)?.min(self.ahead_ns(local_ns + NS_PER_DAY)?),
        };
        Some(local_ns - ahead_ns)
    }

    /// Like [`instant`](Self::instant), in microseconds; `None` if the result is out of range.
    ///
    /// ```
    /// assert_eq!(fleetdb_query::Zone::Fixed(3_600).instant_us(0), Some(-3_600_000_000));
    /// ```
    pub fn instant_us(self, local_us: i64) -> Option<i64> {
        i64::try_from(self.instant(i128::from(local_us) * 1_000)?.div_euclid(1_000)).ok()
    }

    /// Like [`local`](Self::local), in microseconds; `None` if the result is out of range.
    ///
    /// ```
    /// assert_eq!(fleetdb_query::Zone::Fixed(3_600).local_us(0), Some(3_600_000_000));
    /// ```
    pub fn local_us(self, instant_us: i64) -> Option<i64> {
        i64::try_from(self.local(i128::from(instant_us) * 1_000)?.div_euclid(1_000)).ok()
    }

    /// The first and last instant of a local time. They are equal if clocks show it once. If clocks
    /// skip it, both are the instant of the clock change.
    pub(crate) fn instants(self, local_ns: i128) -> Option<(i128, i128)> {
        let Self::Named(zone) = self else { return self.instant(local_ns).map(|instant| (instant, instant)) };
        let rest_ns = local_ns.rem_euclid(NS_PER_SECOND);
        let (time, moved) = within_tables(naive(local_ns)?)?;
        let instant = |time: DateTime<Tz>| i128::from(time.timestamp() + moved.num_seconds()) * NS_PER_SECOND + rest_ns;
        match zone.from_local_datetime(&time) {
            LocalResult::Single(time) => Some((instant(time), instant(time))),
            LocalResult::Ambiguous(first, second) => Some((instant(first), instant(second))),
            LocalResult::None => {
                let moved = self.transition(local_ns - NS_PER_DAY, local_ns + NS_PER_DAY)?;
                Some((moved, moved))
            }
        }
    }

    /// Finds the clock change between two instants. Clocks change at whole seconds.
    pub(crate) fn transition(self, before_ns: i128, after_ns: i128) -> Option<i128> {
        let old = self.ahead_ns(before_ns)?;
        let (mut low, mut high) = (before_ns.div_euclid(NS_PER_SECOND), after_ns.div_euclid(NS_PER_SECOND) + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.ahead_ns(middle * NS_PER_SECOND)? == old { low = middle } else { high = middle }
        }
        Some(high * NS_PER_SECOND)
    }
}

/// Moves a time that the tables of time zones do not list to a listed year, where the same rules
/// apply: by whole weeks, to a year in which March 1 is the same weekday. No rule of these years
/// changes clocks before March. Returns the time and how far it was moved back.
fn within_tables(time: NaiveDateTime) -> Option<(NaiveDateTime, TimeDelta)> {
    if time.year() < FIRST_UNLISTED_YEAR {
        return Some((time, TimeDelta::zero()));
    }
    let march = |year| NaiveDate::from_ymd_opt(year, 3, 1);
    let own = march(time.year())?;
    let mut listed = (FIRST_REPEATED_YEAR..FIRST_UNLISTED_YEAR).filter_map(march);
    let moved = own - listed.find(|listed| listed.weekday() == own.weekday())?;
    Some((time.checked_sub_signed(moved)?, moved))
}

/// Formats hours, with minutes and seconds if they are not zero: `02`, `05:30`, `01:05:21`.
pub(crate) fn clock_text(seconds: u32) -> String {
    let (hours, minutes, rest) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match (minutes, rest) {
        (0, 0) => format!("{hours:02}"),
        (_, 0) => format!("{hours:02}:{minutes:02}"),
        _ => format!("{hours:02}:{minutes:02}:{rest:02}"),
    }
}

/// Finds a zone by name, ignoring case. Returns it with the name's canonical spelling.
fn called(name: &str) -> Option<(Zone, String)> {
    let known = TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name));
    let Some(&zone) = known else { return posix(name).map(|zone| (zone, name.to_ascii_uppercase())) };
    let is_utc = zone == Tz::UTC || UTC.contains(&zone.name());
    Some((if is_utc { Zone::Utc } else { Zone::Named(zone) }, zone.name().to_owned()))
}

/// Parses a POSIX zone without daylight saving time: an abbreviation and an offset to the west, as
/// in `UTC+3` or `<+02>-02:00`.
fn posix(text: &str) -> Option<Zone> {
    let behind = match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>')?.1,
        None => text.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    let (sign, digits) = match behind.strip_prefix('-') {
        Some(digits) => (1, digits),
        None => (-1, behind.strip_prefix('+').unwrap_or(behind)),
    };
    let mut seconds = 0;
    let mut unit_seconds = SECONDS_PER_HOUR;
    for part in digits.split(':') {
        let is_count = (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        let count = part.parse::<i32>().ok().filter(|_| is_count && unit_seconds > 0)?;
        let most = if unit_seconds == SECONDS_PER_HOUR { MAX_HOURS } else { 60 };
        seconds += Some(count).filter(|count| *count < most)? * unit_seconds;
        unit_seconds /= 60;
    }
    Some(Zone::fixed(sign * seconds))
}

/// A time without a zone, from nanoseconds since 1970; `None` beyond the calendar.
pub(crate) fn naive(ns: i128) -> Option<NaiveDateTime> {
    let seconds = i64::try_from(ns.div_euclid(NS_PER_SECOND)).ok()?;
    let rest = u32::try_from(ns.rem_euclid(NS_PER_SECOND)).ok()?;
    Some(DateTime::from_timestamp(seconds, rest)?.naive_utc())
}

/// Nanoseconds since 1970.
pub(crate) fn to_ns(time: NaiveDateTime) -> i128 {
    let time = time.and_utc();
    i128::from(time.timestamp()) * NS_PER_SECOND + i128::from(time.timestamp_subsec_nanos())
}

/// The session's zone for the running statement. Rules read it from here because the session's
/// settings are locked while they run.
#[derive(Clone, Debug, Default)]
pub struct CurrentZone(Arc<Mutex<Zone>>);

impl CurrentZone {
    /// Sets the zone, when a statement begins.
    pub fn set(&self, zone: Zone) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = zone;
    }

    /// The zone of the running statement.
    pub fn get(&self) -> Zone {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "zone_tests.rs"]
mod tests;
