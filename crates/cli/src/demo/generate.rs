//! The simulated fleet: households whose usage has a daily and a seasonal shape, each a little
//! different.
//!
//! Random numbers come from xoshiro256++, seeded with the demo's seed, in a fixed order, so a seed
//! gives the same readings everywhere. Usage is metered in whole watt-hours.

use super::nanoseconds;
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow::datatypes::{Field, Schema};
use chrono::{DateTime, Datelike, TimeDelta, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use fleetdb_engine::{Batch, Error, Result};
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;

/// The usage columns of METER_READS in experiment E1, in order.
pub const USAGE_COLUMNS: [&str; 7] = [
    "usage_since_read",
    "usage_this_hour",
    "usage_this_day",
    "usage_this_week",
    "usage_this_month",
    "usage_this_year",
    "all_time_usage",
];
/// Size of a reading as plain values: id, time, seven floats and two codes of 8 bytes each.
pub const RAW_READING_BYTES: u64 = 11 * 8;
/// Approximate size of a meter's row as plain values: 8 bytes for each number, and the length of
/// each text.
pub const RAW_METER_BYTES: u64 = 4 * 8 + 120;
/// Meters in one batch.
const BATCH_METERS: usize = 5_000;

/// One hour of the year, with its place in local time.
pub struct Hour {
    pub start: DateTime<Utc>,
    hour_of_day: u32,
    day_of_year: u32,
    weekend: bool,
    new_day: bool,
    new_week: bool,
    new_month: bool,
}

/// All hours of a local year: 8,760 or 8,784, whatever the clock changes.
pub fn hours_of_year(year: i32, tz: Tz) -> Result<Vec<Hour>> {
    let (start, end) = (local_midnight(year, 1, tz)?, local_midnight(year + 1, 1, tz)?);
    let mut hours: Vec<Hour> = Vec::with_capacity(8_784);
    let mut at = start;
    let mut day_before = 0;
    while at < end {
        let local = at.with_timezone(&tz);
        let new_day = local.ordinal() != day_before;
        day_before = local.ordinal();
        hours.push(Hour {
            start: at,
            hour_of_day: local.hour(),
            day_of_year: local.ordinal(),
            weekend: local.weekday().number_from_monday() > 5,
            new_day,
            new_week: new_day && local.weekday() == chrono::Weekday::Mon,
            new_month: new_day && local.day() == 1,
        });
        at += TimeDelta::hours(1);
    }
    Ok(hours)
}

/// The bounds of a local month as instants: the first is included, the second is not.
pub fn month(year: i32, month: u32, tz: Tz) -> Result<(DateTime<Utc>, DateTime<Utc>)> {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    Ok((local_midnight(year, month, tz)?, local_midnight(next_year, next, tz)?))
}

fn local_midnight(year: i32, month: u32, tz: Tz) -> Result<DateTime<Utc>> {
    // If a clock change skips midnight, the day begins an hour later.
    (0..24)
        .find_map(|hour| tz.with_ymd_and_hms(year, month, 1, hour, 0, 0).earliest())
        .map(|local| local.with_timezone(&Utc))
        .ok_or_else(|| Error::invalid(format!("{year}-{month:02} has no valid start in time zone {tz}")))
}

/// A household.
struct Meter {
    /// Mean usage in kWh per hour.
    base: f64,
    /// Relative rise of usage in winter.
    heating: f64,
    /// Shift of the daily shape, in hours.
    shift: i32,
    day: f64,
    week: f64,
    month: f64,
    year: f64,
    all: f64,
}

/// The fleet with its counters.
pub struct Fleet {
    random: Xoshiro256PlusPlus,
    noise: LogNormal<f64>,
    meters: Vec<Meter>,
    /// The constant columns of METERS, for each batch of meters.
    fixed: Vec<Vec<(&'static str, ArrayRef)>>,
}

/// Usage by hour of the day, as a multiple of the mean.
const DAY_SHAPE: [f64; 24] = [
    0.55, 0.48, 0.44, 0.42, 0.43, 0.52, 0.80, 1.10, 1.08, 0.98, 0.95, 1.02, 1.15, 1.05, 0.95, 0.95, 1.05, 1.35, 1.65,
    1.75, 1.60, 1.35, 1.05, 0.75,
];

impl Fleet {
    /// A fleet of `count` meters, numbered from 1.
    pub fn new(count: u32, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        // `new` fails only for parameters that are not finite.
        let noise = LogNormal::new(-0.045, 0.3).unwrap_or_else(|_| unreachable!("finite parameters"));
        let meters = (0..count)
            .map(|_| Meter {
                base: random.random_range(0.15..0.85),
                heating: random.random_range(0.05..0.45),
                shift: random.random_range(-2..=2),
                day: 0.0,
                week: 0.0,
                month: 0.0,
                year: 0.0,
                all: (random.random_range(1_000.0..40_000.0f64) * 1e3).round() / 1e3,
            })
            .collect();
        let ids: Vec<i64> = (1..=i64::from(count)).collect();
        let fixed = ids.chunks(BATCH_METERS).map(|ids| fixed_columns(ids, &mut random)).collect();
        Self { random, noise, meters, fixed }
    }

    /// The batches of one hour, each with readings and the new state of their meters.
    pub fn read(&mut self, hour: &Hour) -> Result<Vec<Batch>> {
        // The timestamp of a reading is the start of the hour it counts.
        let time = nanoseconds(hour.start);
        // Coldest in the middle of January.
        let winter = (f64::from(hour.day_of_year) - 15.0) / 365.0 * std::f64::consts::TAU;
        let mut batches = Vec::with_capacity(self.fixed.len());
        for (place, fixed) in self.fixed.iter().enumerate() {
            let first = place * BATCH_METERS;
            let count = fixed[0].1.len();
            let mut usages: [Vec<f64>; 7] = std::array::from_fn(|_| Vec::with_capacity(count));
            let mut errors = [Vec::with_capacity(count), Vec::with_capacity(count)];
            for meter in &mut self.meters[first..first + count] {
                let at = (hour.hour_of_day as i32 + meter.shift).rem_euclid(24) as usize;
                let shape = DAY_SHAPE[at] * if hour.weekend { 1.12 } else { 1.0 };
                let season = 1.0 + meter.heating * winter.cos();
                let usage = meter.base * shape * season * self.noise.sample(&mut self.random);
                for value in meter.count((usage * 1e3).round() / 1e3, hour).into_iter().zip(&mut usages) {
                    value.1.push(value.0);
                }
                errors[0].push(i64::from(self.random.random_bool(0.0005)) * 17);
                errors[1].push(0);
            }
            let mut columns: Vec<(&str, ArrayRef)> = vec![
                ("meter_id", Arc::clone(&fixed[0].1)),
                ("ts", Arc::new(TimestampNanosecondArray::from_value(time, count))),
            ];
            for (name, values) in USAGE_COLUMNS.into_iter().zip(usages) {
                columns.push((name, Arc::new(Float64Array::from(values))));
            }
            for (name, values) in ["error_code_1", "error_code_2"].into_iter().zip(errors) {
                columns.push((name, Arc::new(Int64Array::from(values))));
            }
            let mut meters = fixed.clone();
            meters.push(("last_reading", Arc::new(TimestampNanosecondArray::from_value(time, count))));
            batches.push(Batch::new().with("meters", batch(meters)?).with("meter_reads", batch(columns)?));
        }
        Ok(batches)
    }
}

impl Meter {
    /// Adds an hour's usage; returns the values of [`USAGE_COLUMNS`].
    fn count(&mut self, usage: f64, hour: &Hour) -> [f64; 7] {
        if hour.new_day {
            self.day = 0.0;
        }
        if hour.new_week {
            self.week = 0.0;
        }
        if hour.new_month {
            self.month = 0.0;
        }
        for counter in [&mut self.day, &mut self.week, &mut self.month, &mut self.year, &mut self.all] {
            // Round to whole watt-hours, so that float errors do not add up over a year.
            *counter = ((*counter + usage) * 1e3).round() / 1e3;
        }
        [usage, usage, self.day, self.week, self.month, self.year, self.all]
    }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect())
        .map_err(|e| Error::bug(format!("the demo's columns do not make a batch: {e}")))
}

const CITIES: [(&str, &str, f64, f64); 6] = [
    ("Leipzig", "Sachsen", 51.34, 12.37),
    ("Bremen", "Bremen", 53.08, 8.80),
    ("Kassel", "Hessen", 51.31, 9.49),
    ("Ulm", "Baden-Württemberg", 48.40, 9.99),
    ("Rostock", "Mecklenburg-Vorpommern", 54.09, 12.14),
    ("Trier", "Rheinland-Pfalz", 49.76, 6.64),
];

fn fixed_columns(ids: &[i64], random: &mut Xoshiro256PlusPlus) -> Vec<(&'static str, ArrayRef)> {
    let places: Vec<_> = ids.iter().map(|_| CITIES[random.random_range(0..CITIES.len())]).collect();
    let text = |each: &dyn Fn(usize, i64) -> String| -> ArrayRef {
        Arc::new(ids.iter().enumerate().map(|(i, &id)| Some(each(i, id))).collect::<StringArray>())
    };
    let latitudes: Vec<f64> = places.iter().map(|place| place.2 + random.random_range(-0.1..0.1)).collect();
    let longitudes: Vec<f64> = places.iter().map(|place| place.3 + random.random_range(-0.1..0.1)).collect();
    vec![
        ("id", Arc::new(Int64Array::from(ids.to_vec())) as ArrayRef),
        ("contact_name", text(&|_, id| format!("Household {id}"))),
        ("email", text(&|_, id| format!("household{id}@example.org"))),
        ("phone_number", text(&|_, id| format!("+49 30 {id:07}"))),
        ("description", text(&|_, _| "two-way smart meter".to_owned())),
        ("address", text(&|_, id| format!("Hauptstraße {}", id % 240 + 1))),
        ("city", text(&|i, _| places[i].0.to_owned())),
        ("state_province", text(&|i, _| places[i].1.to_owned())),
        ("latitude", Arc::new(Float64Array::from(latitudes)) as ArrayRef),
        ("longitude", Arc::new(Float64Array::from(longitudes)) as ArrayRef),
    ]
}
