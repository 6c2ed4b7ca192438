//! Everyday statements: what they are made of, and their tables. [`forms`](crate::forms) lists them.

use crate::table::{Column, ColumnType, Table};
use ColumnType::{Float, Int, Text, Time};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::borrow::Cow;

/// When the readings begin, in nanoseconds since 1970: 1 January 2026.
pub const START_NS: i64 = 1_767_225_600_000_000_000;
pub(crate) const MINUTE_NS: i64 = 60_000_000_000;
const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Hours of readings of each meter.
pub const HOURS: i64 = 744;
/// The number of sites, over which meters are spread.
pub const SITES: i64 = 10;

/// A value of a parameter.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Parameter {
    Int(i64),
    Float(f64),
    Text(String),
    /// In nanoseconds since 1970.
    Time(i64),
}

/// A statement with parameters.
pub struct Form {
    /// Its name in the report.
    pub name: &'static str,
    /// Its text, with `?` for each parameter, which occurs once.
    pub text: Cow<'static, str>,
    /// Its text in MariaDB's SQL, if that differs.
    pub mariadb: Option<Cow<'static, str>>,
    /// The columns of its rows; none for a write.
    pub columns: &'static [Column],
    /// Draws its parameters.
    pub draw: fn(&mut Draw) -> Vec<Parameter>,
}

impl Form {
    /// The statement with other spaces for each number below 65,536, if its text has four: its text is
    /// new to a database, which plans it.
    pub fn spaced(&self, number: u64) -> Self {
        let text = spaced(&self.text, number).into();
        Self { text, mariadb: self.mariadb.as_ref().map(|text| spaced(text, number).into()), ..*self }
    }
}

/// Appends up to 15 spaces to each of the first spaces: the number's hexadecimal digits, the lowest first.
fn spaced(text: &str, mut number: u64) -> String {
    let mut spaced = String::with_capacity(text.len() + 64);
    for letter in text.chars() {
        spaced.push(letter);
        if letter == ' ' {
            spaced.extend(std::iter::repeat_n(' ', (number % 16) as usize));
            number /= 16;
        }
    }
    spaced
}

/// Draws parameters.
pub struct Draw {
    /// The source of randomness.
    pub random: Xoshiro256PlusPlus,
    /// The number of meters.
    pub meters: i64,
}

impl Draw {
    fn meter(&mut self) -> i64 {
        self.random.random_range(0..self.meters)
    }

    pub(crate) fn id(&mut self) -> Parameter {
        Parameter::Int(self.meter())
    }

    pub(crate) fn site(&mut self) -> Parameter {
        Parameter::Text(site(self.random.random_range(0..SITES)))
    }

    /// An hour for which there are readings, as its number.
    pub(crate) fn hour(&mut self) -> i64 {
        self.random.random_range(0..HOURS)
    }

    pub(crate) fn time(&mut self) -> Parameter {
        Parameter::Time(hour_ns(self.hour()))
    }

    /// The bounds of a span of hours.
    pub(crate) fn span(&mut self, hours: i64) -> [Parameter; 2] {
        let first = self.random.random_range(0..=HOURS - hours);
        [first, first + hours].map(|hour| Parameter::Time(hour_ns(hour)))
    }

    pub(crate) fn amount(&mut self) -> Parameter {
        // Eighths are exact in binary, so sums do not depend on their order.
        Parameter::Float(f64::from(self.random.random_range(0..80)) / 8.0)
    }

    pub(crate) fn count(&mut self) -> Parameter {
        Parameter::Int(self.random.random_range(1..10))
    }
}

/// The time of an hour.
pub fn hour_ns(hour: i64) -> i64 {
    START_NS + hour * HOUR_NS
}

/// The name of a site.
pub fn site(number: i64) -> String {
    format!("site {number}")
}

/// The tables: a few meters, and the hourly readings of each.
pub fn tables() -> [Table; 2] {
    let columns = vec![("id", Int), ("site", Text), ("n", Int), ("total", Float), ("last_reading", Time)];
    let meters = Table { name: "meters", columns, key: &["id"] };
    let columns = vec![("meter", Int), ("ts", Time), ("kwh", Float), ("note", Text)];
    [meters, Table { name: "readings", columns, key: &["meter", "ts"] }]
}
