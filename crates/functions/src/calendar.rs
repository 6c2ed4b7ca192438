//! Time buckets: fixed widths, days and months, in UTC or in the local time of a zone.
//!
//! 1. An instant is converted to local time ([`Zone::local`]). There, the start of the bucket is
//!    found by floor division from an origin, so it is correct before 1970 as well.
//! 2. The start is converted back to an instant. A local time skipped by a clock change becomes the
//!    instant of the change. A local time that occurs twice becomes the first occurrence for
//!    buckets longer than the repeated period (a day starts once); otherwise it becomes the last
//!    occurrence not after the instant (a repeated hour is two buckets).
//!
//! All arithmetic uses 128-bit nanoseconds, in which no instant of any unit overflows.

use arrow::datatypes::IntervalMonthDayNano;
use chrono::{Datelike, Months};
use std::ops::Range;

pub(crate) use crate::values::zone::{NS_PER_DAY, NS_PER_SECOND, Zone, naive, to_ns};

/// 2000-01-03, a Monday: weeks begin on Mondays, as in TimescaleDB.
const ORIGIN_NS: i128 = 10_959 * NS_PER_DAY;
/// 2000-01-01, the origin of month buckets.
const MONTH_ORIGIN_NS: i128 = 10_957 * NS_PER_DAY;

/// The width of a bucket: months, or a span of nanoseconds (a day is 24 hours of local time).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Months(i64),
    Span(i128),
}

impl Width {
    /// Converts an interval to a width; an error message if it cannot be one.
    pub(crate) fn new(interval: IntervalMonthDayNano) -> Result<Self, String> {
        let span_ns = i128::from(interval.days) * NS_PER_DAY + i128::from(interval.nanoseconds);
        match (interval.months, span_ns) {
            (months, 0) if months > 0 => Ok(Self::Months(i64::from(months))),
            (0, span_ns) if span_ns > 0 => Ok(Self::Span(span_ns)),
            (0, _) => Err("a bucket's width must be positive".to_owned()),
            _ => Err("a bucket's width is months and years, or days and time, not both, and it is positive".to_owned()),
        }
    }
}

/// Buckets of one width, counted from an origin in the local time of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    width: Width,
    zone: Zone,
    /// The local time at which a bucket begins.
    origin_ns: i128,
}

impl Buckets {
    /// `origin_ns` is an instant. By default, weeks begin on Mondays and months on their first day.
    pub(crate) fn new(width: Width, zone: Zone, origin_ns: Option<i128>) -> Option<Self> {
        let origin_ns = match (origin_ns, width) {
            (Some(origin_ns), _) => zone.local(origin_ns)?,
            (None, Width::Months(_)) => MONTH_ORIGIN_NS,
            (None, Width::Span(_)) => ORIGIN_NS,
        };
        Some(Self { width, zone, origin_ns })
    }

    /// The same buckets in a unit in which their bounds are integers; `None` if clock changes or
    /// months make them uneven.
    pub(crate) fn even(&self, unit_ns: i128) -> Option<EvenBuckets> {
        let Width::Span(span_ns) = self.width else { return None };
        if self.zone != Zone::Utc || span_ns % unit_ns != 0 || self.origin_ns % unit_ns != 0 {
            return None;
        }
        let width = i64::try_from(span_ns / unit_ns).ok()?;
        Some(EvenBuckets { width, origin: i64::try_from(self.origin_ns / unit_ns).ok()? })
    }

    /// The start of the bucket that contains an instant, and a later instant up to which all
    /// instants are in the bucket. `None` outside the calendar's range.
    pub fn span(&self, instant_ns: i128) -> Option<(i128, i128)> {
        let mut number = self.number(self.zone.local(instant_ns)?)?;
        let (mut first, mut second) = self.zone.instants(self.local_start(number)?)?;
        loop {
            let next = self.zone.instants(self.local_start(number + 1)?)?;
            if self.comes_twice(first, second) {
                // Clocks go back between the two, so the buckets in between repeat.
                return Some(if second <= instant_ns {
                    (second, next.0.max(next.1))
                } else {
                    (first, next.0.min(self.zone.transition(first, second)?))
                });
            }
            if self.comes_twice(next.0, next.1) || instant_ns < next.0 {
                return Some((first, next.0));
            }
            // Clocks went back from the next bucket into this one, so the next one has already
            // begun and continues.
            (number, (first, second)) = (number + 1, next);
        }
    }

    /// Whether a bucket is two buckets, given the two instants of its local start.
    fn comes_twice(&self, first: i128, second: i128) -> bool {
        first < second && matches!(self.width, Width::Span(span_ns) if span_ns <= second - first)
    }

    fn number(&self, local_ns: i128) -> Option<i128> {
        match self.width {
            Width::Span(span_ns) => Some((local_ns - self.origin_ns).div_euclid(span_ns)),
            Width::Months(months) => {
                let month = |ns| naive(ns).map(|time| i64::from(time.year()) * 12 + i64::from(time.month0()));
                let number = i128::from((month(local_ns)? - month(self.origin_ns)?).div_euclid(months));
                // The origin may be in the middle of a month.
                Some(if self.local_start(number)? > local_ns { number - 1 } else { number })
            }
        }
    }

    fn local_start(&self, number: i128) -> Option<i128> {
        match self.width {
            Width::Span(span_ns) => Some(self.origin_ns + number * span_ns),
            Width::Months(months) => {
                let months = i64::try_from(number).ok()?.checked_mul(months)?;
                let count = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
                let origin = naive(self.origin_ns)?;
                let start =
                    if months < 0 { origin.checked_sub_months(count) } else { origin.checked_add_months(count) };
                start.map(to_ns)
            }
        }
    }
}

/// Buckets of equal length in UTC, in a unit in which their bounds are integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvenBuckets {
    width: i64,
    origin: i64,
}

impl EvenBuckets {
    /// The bucket that begins at a time.
    pub(crate) fn following(&self, start: i64) -> Option<Range<i64>> {
        Some(start..start.checked_add(self.width)?)
    }

    /// The bucket that contains a time; `None` on overflow.
    pub(crate) fn span(&self, time: i64) -> Option<Range<i64>> {
        self.following(time.checked_sub(time.checked_sub(self.origin)?.rem_euclid(self.width))?)
    }
}

#[cfg(test)]
#[path = "calendar_tests.rs"]
mod tests;
