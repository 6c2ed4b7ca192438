//! Parses intervals in PostgreSQL's text forms: `1 day 02:00:00`, `1:30`, `3 hours ago`, `P1DT2H`, or
//! `10`, which counts seconds
//! (<https://www.postgresql.org/docs/current/datatype-datetime.html#DATATYPE-INTERVAL-INPUT>).
//! Arrow, and therefore DataFusion, parses only numbers with units.

use crate::errors::query_error;
use arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr as PlanExpr, lit};
use fleetdb_engine::{Code, Error};

const NS_PER_US: i64 = 1_000;
const NS_PER_SECOND: i64 = 1_000_000_000;
const NS_PER_DAY: f64 = 86_400e9;
const DAYS_PER_MONTH: f64 = 30.0;

/// Parses a text as an interval literal.
///
/// # Errors
/// The text is not an interval.
pub fn interval_literal(text: &str) -> Result<PlanExpr> {
    let interval = interval_of_text(text);
    let interval = interval.ok_or_else(|| {
        let message = format!("invalid input syntax for type interval: '{text}'");
        query_error(Error::new(Code::InvalidTime, message))
    })?;
    Ok(lit(ScalarValue::IntervalMonthDayNano(Some(interval))))
}

/// Parses a text as an interval; `None` if it is not one.
pub fn interval_of_text(text: &str) -> Option<IntervalMonthDayNano> {
    let mut rest = Rest(text.trim());
    let mut sum = Sum::default();
    if let Some(iso) = rest.0.strip_prefix(['P', 'p']) {
        rest.0 = iso;
        sum.add_iso(&mut rest)?;
        return sum.interval();
    }
    if rest.0.is_empty() {
        return None;
    }
    loop {
        rest.skip(|c| c.is_whitespace() || c == ',' || c == '@');
        if rest.0.is_empty() {
            return sum.interval();
        }
        if rest.0.eq_ignore_ascii_case("ago") {
            return sum.negated()?.interval();
        }
        let number = rest.number()?;
        if rest.0.starts_with(':') {
            sum.add_clock(number, &mut rest)?;
            continue;
        }
        rest.skip(char::is_whitespace);
        let unit = rest.take(char::is_alphabetic).to_ascii_lowercase();
        // A number without a unit counts days before a clock time, and seconds at the end of the
        // text.
        let unit = match unit.as_str() {
            "" if rest.0.is_empty() => Unit::Second,
            "" => Unit::Day,
            name => Unit::of(name)?,
        };
        sum.add(number, unit)?;
    }
}

/// The part of a text not parsed yet.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.0.find(|c| !is_part(c)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    fn skip(&mut self, is_part: impl Fn(char) -> bool) {
        self.take(is_part);
    }

    fn number(&mut self) -> Option<Number> {
        let is_negative = self.0.starts_with('-');
        self.0 = self.0.strip_prefix(['+', '-']).unwrap_or(self.0);
        let digits = self.take(|c| c.is_ascii_digit());
        let fraction = match self.0.strip_prefix('.') {
            Some(behind) => {
                self.0 = behind;
                self.take(|c| c.is_ascii_digit())
            }
            None => "",
        };
        if digits.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        let fraction = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().ok()? };
        Some(Number { is_negative, whole, fraction })
    }
}

#[derive(Clone, Copy)]
struct Number {
    is_negative: bool,
    whole: i64,
    fraction: f64,
}

#[derive(Clone, Copy)]
enum Unit {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
}

impl Unit {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "y" | "yr" | "yrs" | "year" | "years" => Self::Year,
            "mon" | "mons" | "month" | "months" => Self::Month,
            "w" | "week" | "weeks" => Self::Week,
            "d" | "day" | "days" => Self::Day,
            "h" | "hr" | "hrs" | "hour" | "hours" => Self::Hour,
            "m" | "min" | "mins" | "minute" | "minutes" => Self::Minute,
            "s" | "sec" | "secs" | "second" | "seconds" => Self::Second,
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => Self::Millisecond,
            "us" | "usec" | "usecs" | "microsecond" | "microseconds" => Self::Microsecond,
            _ => return None,
        })
    }

    fn ns(self) -> i64 {
        match self {
            Self::Hour => 3_600 * NS_PER_SECOND,
            Self::Minute => 60 * NS_PER_SECOND,
            Self::Second => NS_PER_SECOND,
            Self::Millisecond => 1_000_000,
            _ => NS_PER_US,
        }
    }
}

#[derive(Default)]
struct Sum {
    months: i64,
    days: i64,
    ns: i64,
}

impl Sum {
    /// Fractions of months carry into days, and fractions of days into the time.
    fn add(&mut self, number: Number, unit: Unit) -> Option<()> {
        let sign = if number.is_negative { -1 } else { 1 };
        let (whole, fraction) = (number.whole.checked_mul(sign)?, number.fraction * sign as f64);
        match unit {
            Unit::Year => self.add_months(whole.checked_mul(12)?.checked_add((fraction * 12.0).round() as i64)?),
            Unit::Month => {
                self.add_months(whole)?;
                self.add_days(0, fraction * DAYS_PER_MONTH)
            }
            Unit::Week => self.add_days(whole.checked_mul(7)?, fraction * 7.0),
            Unit::Day => self.add_days(whole, fraction),
            unit => {
                let part = (fraction * unit.ns() as f64 / NS_PER_US as f64).round() as i64 * NS_PER_US;
                self.add_ns(whole.checked_mul(unit.ns())?)?;
                self.add_ns(part)
            }
        }
    }

    fn add_months(&mut self, months: i64) -> Option<()> {
        self.months = self.months.checked_add(months)?;
        Some(())
    }

    fn add_days(&mut self, whole: i64, more: f64) -> Option<()> {
        self.days = self.days.checked_add(whole)?.checked_add(more.trunc() as i64)?;
        self.add_ns((more.fract() * NS_PER_DAY / NS_PER_US as f64).round() as i64 * NS_PER_US)
    }

    fn add_ns(&mut self, ns: i64) -> Option<()> {
        self.ns = self.ns.checked_add(ns)?;
        Some(())
    }

    /// Parses `hours:minutes[:seconds]` or `minutes:seconds.fraction`, after its first number.
    fn add_clock(&mut self, first: Number, rest: &mut Rest) -> Option<()> {
        let mut numbers = vec![first];
        while let Some(behind) = rest.0.strip_prefix(':') {
            rest.0 = behind;
            if !behind.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            numbers.push(Number { is_negative: first.is_negative, ..rest.number()? });
        }
        let is_fraction = |place: usize| numbers.get(place).is_some_and(|number| number.fraction != 0.0);
        let units: &[Unit] = match numbers.len() {
            2 if is_fraction(1) => &[Unit::Minute, Unit::Second],
            2 => &[Unit::Hour, Unit::Minute],
            3 if !is_fraction(1) => &[Unit::Hour, Unit::Minute, Unit::Second],
            _ => return None,
        };
        if is_fraction(0) {
            return None;
        }
        numbers.into_iter().zip(units).try_for_each(|(number, unit)| self.add(number, *unit))
    }

    /// Parses the ISO 8601 form after its `P`: `1Y2M3DT4H5M6S`.
    fn add_iso(&mut self, rest: &mut Rest) -> Option<()> {
        let mut is_time = false;
        if rest.0.is_empty() {
            return None;
        }
        while !rest.0.is_empty() {
            if let Some(behind) = rest.0.strip_prefix(['T', 't']) {
                (rest.0, is_time) = (behind, true);
            }
            let number = rest.number()?;
            let letter = rest.0.chars().next()?;
            rest.0 = &rest.0[letter.len_utf8()..];
            let unit = match (letter.to_ascii_uppercase(), is_time) {
                ('Y', false) => Unit::Year,
                ('M', false) => Unit::Month,
                ('W', false) => Unit::Week,
                ('D', false) => Unit::Day,
                ('H', true) => Unit::Hour,
                ('M', true) => Unit::Minute,
                ('S', true) => Unit::Second,
                _ => return None,
            };
            self.add(number, unit)?;
        }
        Some(())
    }

    fn negated(self) -> Option<Self> {
        Some(Self { months: self.months.checked_neg()?, days: self.days.checked_neg()?, ns: self.ns.checked_neg()? })
    }

    fn interval(self) -> Option<IntervalMonthDayNano> {
        Some(IntervalMonthDayNano::new(self.months.try_into().ok()?, self.days.try_into().ok()?, self.ns))
    }
}

#[cfg(test)]
#[path = "intervals_tests.rs"]
mod tests;
