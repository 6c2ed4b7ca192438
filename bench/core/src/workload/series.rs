//! Series with an integer key and a time: E3's records of 200 bytes, and E4's datapoints, single or
//! as one document per second.

use super::mix;
use crate::Outcome;
use crate::table::{Column, ColumnType, Table};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use std::ops::Range;
use std::sync::Arc;

/// The kinds of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// E3: 8 bytes of container, 8 bytes of time, and a text.
    Records,
    /// E4: a board, a time, and five 16-bit channels.
    Datapoints,
    /// E4 as published "in bulk": a board, a second, and its datapoints as a document.
    Seconds,
}

/// Length of a record's text.
const TEXT_BYTES: usize = 184;
/// Number of channels in E4.
pub const CHANNELS: usize = 5;
/// 2026-01-01; records are a millisecond apart.
const START_NS: i64 = 1_767_225_600_000_000_000;
const STEP_NS: i64 = 1_000_000;

impl Series {
    /// Its columns; the first is the key, the second the time.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Records => &[("container", ColumnType::Int), ("ts", ColumnType::Time), ("payload", ColumnType::Text)],
            Self::Datapoints => &[
                ("board", ColumnType::Int),
                ("ts", ColumnType::Time),
                ("m0", ColumnType::Int),
                ("m1", ColumnType::Int),
                ("m2", ColumnType::Int),
                ("m3", ColumnType::Int),
                ("m4", ColumnType::Int),
            ],
            Self::Seconds => &[
                ("board", ColumnType::Int),
                ("ts", ColumnType::Time),
                ("size", ColumnType::Int),
                ("measurements", ColumnType::Json),
            ],
        }
    }

    /// The name of its table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Datapoints => "measurements",
            Self::Seconds => "seconds",
        }
    }

    /// Its table.
    pub fn table(self) -> Table {
        let key: &'static [&'static str] = match self {
            Self::Records => &["container", "ts"],
            Self::Datapoints | Self::Seconds => &["board", "ts"],
        };
        Table { name: self.name(), columns: self.columns().to_vec(), key }
    }
}

/// The time of the record with this number.
pub fn record_time_ns(number: u64) -> i64 {
    START_NS + number as i64 * STEP_NS
}

/// The number of the record at a time; the inverse of [`record_time_ns`].
pub fn record_number(time_ns: i64) -> u64 {
    ((time_ns - START_NS) / STEP_NS) as u64
}

/// Records of a container. Their texts derive from the seed, the container and the number, with six
/// random bits per byte.
///
/// # Errors
/// None, unless the columns differ in length.
pub fn records(seed: u64, container: i64, numbers: Range<u64>) -> Outcome<RecordBatch> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    let text = |number: u64| {
        let mut bytes = [0; TEXT_BYTES];
        let first = mix(seed ^ mix(container as u64) ^ number);
        for (word, letters) in bytes.chunks_exact_mut(8).enumerate() {
            let bits = mix(first ^ word as u64);
            letters
                .iter_mut()
                .enumerate()
                .for_each(|(place, letter)| *letter = LETTERS[(bits >> (6 * place) & 63) as usize]);
        }
        String::from_utf8(bytes.to_vec()).unwrap_or_default()
    };
    let count = numbers.clone().count();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_value(container, count)),
        Arc::new(TimestampNanosecondArray::from_iter_values(numbers.clone().map(record_time_ns))),
        Arc::new(StringArray::from_iter_values(numbers.map(text))),
    ];
    Ok(RecordBatch::try_new(Series::Records.table().schema(), columns)?)
}

/// What a board's receiver passes on: a time and five samples; 22 bytes between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datapoint {
    /// Nanoseconds since 1970 in whole microseconds, since half of the databases store no more.
    pub time_ns: i64,
    /// The samples of the channels.
    pub samples: [u16; CHANNELS],
}

/// A second in nanoseconds.
pub const SECOND_NS: i64 = 1_000_000_000;

impl Datapoint {
    /// Size of an encoded datapoint.
    pub const BYTES: usize = 8 + 4 + 2 * CHANNELS;

    /// The board's samples with this number: waves of different lengths with some noise.
    pub fn sampled(seed: u64, number: u64, time_ns: i64) -> Self {
        let samples = std::array::from_fn(|channel| {
            let wave = (number as f64 / (50.0 * (channel + 1) as f64)).sin() * 20_000.0;
            let noise = (mix(seed ^ mix(number) ^ channel as u64) % 64) as f64;
            (32_768.0 + wave + noise) as u16
        });
        Self { time_ns, samples }
    }

    /// The second that contains it, since 1970.
    pub fn second(&self) -> i64 {
        self.time_ns.div_euclid(SECOND_NS)
    }

    /// Nanoseconds since the start of its [second](Self::second).
    pub fn nanosecond(&self) -> i64 {
        self.time_ns.rem_euclid(SECOND_NS)
    }

    /// Encodes seconds, nanoseconds and samples in little-endian order.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.second().to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.nanosecond() as i32).to_le_bytes());
        for (place, sample) in bytes[12..].chunks_exact_mut(2).zip(self.samples) {
            place.copy_from_slice(&sample.to_le_bytes());
        }
        bytes
    }

    /// Decodes the result of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let seconds = i64::from_le_bytes(std::array::from_fn(|place| bytes[place]));
        let ns = i32::from_le_bytes(std::array::from_fn(|place| bytes[8 + place]));
        let sample = |channel: usize| u16::from_le_bytes([bytes[12 + 2 * channel], bytes[13 + 2 * channel]]);
        Self { time_ns: seconds * SECOND_NS + i64::from(ns), samples: std::array::from_fn(sample) }
    }
}

/// Converts datapoints of a board to rows.
///
/// # Errors
/// None, unless the columns differ in length.
pub fn datapoints(board: i64, points: &[Datapoint]) -> Outcome<RecordBatch> {
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_value(board, points.len())),
        Arc::new(TimestampNanosecondArray::from_iter_values(points.iter().map(|point| point.time_ns))),
    ];
    columns.extend((0..CHANNELS).map(|channel| {
        Arc::new(Int64Array::from_iter_values(points.iter().map(|point| i64::from(point.samples[channel])))) as ArrayRef
    }));
    Ok(RecordBatch::try_new(Series::Datapoints.table().schema(), columns)?)
}

/// Splits ordered datapoints by second.
pub fn by_second(points: &[Datapoint]) -> impl Iterator<Item = &[Datapoint]> {
    points.chunk_by(|one, next| one.second() == next.second())
}

/// Converts ordered datapoints of a board to one row per second: their number, and
/// `{"measurements":[{"m":[..],"ns":..},..]}`.
///
/// # Errors
/// None, unless the columns differ in length.
pub fn seconds(board: i64, points: &[Datapoint]) -> Outcome<RecordBatch> {
    let seconds: Vec<&[Datapoint]> = by_second(points).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_value(board, seconds.len())),
        Arc::new(TimestampNanosecondArray::from_iter_values(seconds.iter().map(|one| one[0].second() * SECOND_NS))),
        Arc::new(Int64Array::from_iter_values(seconds.iter().map(|one| one.len() as i64))),
        Arc::new(StringArray::from_iter_values(seconds.iter().map(|one| document(one)))),
    ];
    Ok(RecordBatch::try_new(Series::Seconds.table().schema(), columns)?)
}

fn document(points: &[Datapoint]) -> String {
    let point = |point: &Datapoint| format!(r#"{{"m":{:?},"ns":{}}}"#, point.samples, point.nanosecond());
    let points: Vec<String> = points.iter().map(point).collect();
    // The Debug format puts a space after each comma.
    format!(r#"{{"measurements":[{}]}}"#, points.join(",")).replace(", ", ",")
}

#[cfg(test)]
#[path = "series_tests.rs"]
mod tests;
