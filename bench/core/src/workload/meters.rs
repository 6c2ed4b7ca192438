//! E1's meters and their hourly readings.
//!
//! A meter's total is a function of the seed, the meter and the hour, so any reading can be
//! generated anywhere, and a bill is the difference of two totals. The average is one thousand to
//! two thousand watt-hours per hour, spread by a hash; the total never falls.

use super::mix;
use crate::Outcome;
use crate::table::{ColumnType, Table};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use chrono::{DateTime, Datelike, TimeZone, Utc};
use chrono_tz::Europe::Berlin;
use std::ops::Range;
use std::sync::Arc;

const HOUR_S: i64 = 3_600;
const SECOND_NS: i64 = 1_000_000_000;
/// 2026-01-01 in Berlin, the first hour that is read.
const START_S: i64 = 1_767_222_000;
/// Hours in a year.
pub const YEAR_HOURS: i64 = 8_760;
/// The text columns of a meter.
const TEXTS: [&str; 7] = ["contact_name", "email", "phone_number", "description", "address", "city", "state_province"];
/// The counters of a reading: usage since the last reading; in the hour, day, week, month and year
/// so far; and in total.
const USAGES: [&str; 7] = [
    "usage_since_read",
    "usage_this_hour",
    "usage_this_day",
    "usage_this_week",
    "usage_this_month",
    "usage_this_year",
    "all_time_usage",
];

/// E1's two tables. METER_READS has the key that the publication left out for MariaDB.
pub fn tables() -> [Table; 2] {
    let mut meters = vec![("id", ColumnType::Int)];
    meters.extend(TEXTS.map(|name| (name, ColumnType::Text)));
    meters.extend([
        ("last_reading", ColumnType::Time),
        ("latitude", ColumnType::Float),
        ("longitude", ColumnType::Float),
    ]);
    let mut reads = vec![("meter_id", ColumnType::Int), ("ts", ColumnType::Time)];
    reads.extend(USAGES.map(|name| (name, ColumnType::Float)));
    reads.extend([("error_code_1", ColumnType::Int), ("error_code_2", ColumnType::Int)]);
    [
        Table { name: "meters", columns: meters, key: &["id"] },
        Table { name: "meter_reads", columns: reads, key: &["meter_id", "ts"] },
    ]
}

/// A month in local time, as hours since the start, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Month {
    /// For example `2026-03`.
    pub name: String,
    /// Its hours: 743 of them in March, 745 in October.
    pub hours: Range<i64>,
}

/// The months in Berlin that lie wholly within the first `hours` hours.
pub fn months(hours: i64) -> Vec<Month> {
    let start = |month: u32| {
        let (year, month) = (2026 + (month / 12) as i32, month % 12 + 1);
        let start = Berlin.with_ymd_and_hms(year, month, 1, 0, 0, 0).earliest().map(|time| time.timestamp());
        (start.unwrap_or(START_S) - START_S) / HOUR_S
    };
    let all =
        (0..12).map(|month| Month { name: format!("2026-{:02}", month + 1), hours: start(month)..start(month + 1) });
    all.filter(|month| month.hours.end <= hours).collect()
}

/// The time of an hour's reading.
pub fn time_ns(hour: i64) -> i64 {
    (START_S + hour * HOUR_S) * SECOND_NS
}

/// The hour of the reading at a time; the inverse of [`time_ns`].
pub fn hour(time_ns: i64) -> i64 {
    (time_ns / SECOND_NS - START_S) / HOUR_S
}

/// The meters of a seed.
#[derive(Clone, Copy)]
pub struct Meters {
    seed: u64,
}

impl Meters {
    /// The meters of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// A meter's usage in a range of hours, in kWh; the oracle's bill.
    pub fn usage(self, meter: i64, hours: Range<i64>) -> f64 {
        (self.total_wh(meter, hours.end) - self.total_wh(meter, hours.start)) as f64 / 1e3
    }

    /// A meter's usage before an hour. The hash adds less than an average hour, so the total never
    /// falls.
    fn total_wh(self, meter: i64, hour: i64) -> i64 {
        let average_wh = 1_000 + (mix(self.seed ^ mix(meter as u64)) % 1_000) as i64;
        let spread_wh = (mix(self.seed ^ mix((meter as u64) << 24 ^ hour as u64)) % 1_000) as i64;
        hour * average_wh + spread_wh
    }

    /// A meter's readings of some hours.
    ///
    /// # Errors
    /// None, unless the columns differ in length.
    pub fn readings(self, meter: i64, hours: Range<i64>) -> Outcome<RecordBatch> {
        let mut usages: [Vec<f64>; 7] = std::array::from_fn(|_| Vec::with_capacity(hours.clone().count()));
        for hour in hours.clone() {
            let since = begins(hour);
            let total = self.total_wh(meter, hour + 1);
            let used =
                [hour, hour, since.day, since.week, since.month, 0].map(|from| total - self.total_wh(meter, from));
            for (column, wh) in usages.iter_mut().zip(used.into_iter().chain([total])) {
                column.push(wh as f64 / 1e3);
            }
        }
        let count = usages[0].len();
        let errors = || Arc::new(Int64Array::from_value(0, count)) as ArrayRef;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_value(meter, count)),
            Arc::new(TimestampNanosecondArray::from_iter_values(hours.map(time_ns))),
        ];
        columns.extend(usages.into_iter().map(|values| Arc::new(Float64Array::from(values)) as ArrayRef));
        columns.extend([errors(), errors()]);
        let [_, reads] = tables();
        Ok(RecordBatch::try_new(reads.schema(), columns)?)
    }

    /// A meter's row as of each of some hours.
    ///
    /// # Errors
    /// As [`readings`](Self::readings).
    pub fn rows(self, meter: i64, hours: Range<i64>) -> Outcome<RecordBatch> {
        let count = hours.clone().count();
        let place = mix(self.seed ^ meter as u64);
        let degrees = |bits: u64, range: f64| (bits % 10_000) as f64 / 10_000.0 * range;
        let texts = [
            format!("Customer {meter}"),
            format!("customer{meter}@example.com"),
            format!("+49 30 {:07}", place % 10_000_000),
            format!("Meter of household {meter}, third floor"),
            format!("Street {}, No. {}", place % 997, place % 89),
            format!("City {}", place % 211),
            format!("State {}", place % 16),
        ];
        let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_value(meter, count))];
        columns.extend(texts.map(|text| Arc::new(StringArray::from(vec![text; count])) as ArrayRef));
        columns.push(Arc::new(TimestampNanosecondArray::from_iter_values(hours.map(time_ns))));
        for value in [47.0 + degrees(place >> 16, 8.0), 6.0 + degrees(place >> 32, 9.0)] {
            columns.push(Arc::new(Float64Array::from_value(value, count)));
        }
        let [meters, _] = tables();
        Ok(RecordBatch::try_new(meters.schema(), columns)?)
    }
}

/// The hours in which the day, week and month of an hour began, but not before the first reading.
struct Begins {
    day: i64,
    week: i64,
    month: i64,
}

fn begins(hour: i64) -> Begins {
    let time = DateTime::<Utc>::from_timestamp(START_S + hour * HOUR_S, 0).unwrap_or_default().with_timezone(&Berlin);
    let midnight = |days_back: u32| {
        let date = time.date_naive() - chrono::Days::new(u64::from(days_back));
        // Berlin's clocks change at two and three, so every day has exactly one midnight.
        let start = date.and_time(chrono::NaiveTime::MIN).and_local_timezone(Berlin).earliest();
        start.map_or(0, |start| (start.timestamp() - START_S) / HOUR_S).max(0)
    };
    Begins { day: midnight(0), week: midnight(time.weekday().num_days_from_monday()), month: midnight(time.day0()) }
}
