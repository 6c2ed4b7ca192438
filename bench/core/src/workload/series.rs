//! Series of an integer key and a time: E3's records of 200 bytes, and E4's datapoints, single or a document a second.

use super::mix;
use crate::Outcome;
use crate::table::{Column, ColumnType, Table};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use std::ops::Range;
use std::sync::Arc;

/// Which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// E3: 8 bytes of container, 8 of time, and a text.
    Records,
    /// E4: a board, a time, five channels of 16 bits.
    Datapoints,
    /// E4 as it was published "in bulk": a board, a second, and its datapoints as a document.
    Seconds,
}

/// Bytes of a record's text.
const TEXT_BYTES: usize = 184;
/// E4's channels.
pub const CHANNELS: usize = 5;
/// 2026-01-01; records are a millisecond apart.
const START_NS: i64 = 1_767_225_600_000_000_000;
const STEP_NS: i64 = 1_000_000;

impl Series {
    /// Its columns; the first is the key's, the second the time.
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

    /// Its table's name.
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

/// The time of a container's record.
pub fn record_time_ns(number: u64) -> i64 {
    START_NS + number as i64 * STEP_NS
}

/// The number of the record that is at a time; see [`record_time_ns`].
pub fn record_number(time_ns: i64) -> u64 {
    ((time_ns - START_NS) / STEP_NS) as u64
}

/// Records of a container: their texts are drawn from the seed, the container and the number, six bits a byte.
///
/// # Errors
/// None, unless the columns differ in length.
pub fn records(seed: u64, container: i64, numbers: Range<u64>) -> Outcome<RecordBatch> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    let text = |number: u64| {
        let mut text = String::with_capacity(TEXT_BYTES);
        let first = mix(seed ^ mix(container as u64) ^ number);
        for word in 0..(TEXT_BYTES / 8) as u64 {
            let bits = mix(first ^ word);
            text.extend((0..8).map(|place| char::from(LETTERS[(bits >> (6 * place) & 63) as usize])));
        }
        text
    };
    let count = numbers.clone().count();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_value(container, count)),
        Arc::new(TimestampNanosecondArray::from_iter_values(numbers.clone().map(record_time_ns))),
        Arc::new(StringArray::from_iter_values(numbers.map(text))),
    ];
    Ok(RecordBatch::try_new(Series::Records.table().schema(), columns)?)
}

/// What a board's receiver hands on: when, and five samples; 22 bytes between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datapoint {
    /// Nanoseconds since 1970, in whole microseconds: half of the databases keep no more.
    pub time_ns: i64,
    /// The channels.
    pub samples: [u16; CHANNELS],
}

/// A second.
pub const SECOND_NS: i64 = 1_000_000_000;

impl Datapoint {
    /// Bytes of one.
    pub const BYTES: usize = 8 + 4 + 2 * CHANNELS;

    /// The board's samples of a number: waves of different lengths with some noise.
    pub fn sampled(seed: u64, number: u64, time_ns: i64) -> Self {
        let samples = std::array::from_fn(|channel| {
            let wave = (number as f64 / (50.0 * (channel + 1) as f64)).sin() * 20_000.0;
            let noise = (mix(seed ^ mix(number) ^ channel as u64) % 64) as f64;
            (32_768.0 + wave + noise) as u16
        });
        Self { time_ns, samples }
    }

    /// The second that it is in, since 1970.
    pub fn second(&self) -> i64 {
        self.time_ns.div_euclid(SECOND_NS)
    }

    /// Nanoseconds since its [second](Self::second) began.
    pub fn nanosecond(&self) -> i64 {
        self.time_ns.rem_euclid(SECOND_NS)
    }

    /// Seconds, nanoseconds and samples, least bytes first.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.second().to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.nanosecond() as i32).to_le_bytes());
        for (place, sample) in bytes[12..].chunks_exact_mut(2).zip(self.samples) {
            place.copy_from_slice(&sample.to_le_bytes());
        }
        bytes
    }

    /// What [`to_bytes`](Self::to_bytes) made.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let seconds = i64::from_le_bytes(std::array::from_fn(|place| bytes[place]));
        let ns = i32::from_le_bytes(std::array::from_fn(|place| bytes[8 + place]));
        let sample = |channel: usize| u16::from_le_bytes([bytes[12 + 2 * channel], bytes[13 + 2 * channel]]);
        Self { time_ns: seconds * SECOND_NS + i64::from(ns), samples: std::array::from_fn(sample) }
    }
}

/// Datapoints of a board as rows.
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

/// Datapoints, in their order, second by second.
pub fn by_second(points: &[Datapoint]) -> impl Iterator<Item = &[Datapoint]> {
    points.chunk_by(|one, next| one.second() == next.second())
}

/// Datapoints of a board, in their order, as a row a second: how many they are, and
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
    // Debug puts a blank behind each comma of a list.
    format!(r#"{{"measurements":[{}]}}"#, points.join(",")).replace(", ", ",")
}

#[cfg(test)]
#[path = "series_tests.rs"]
mod tests;
