//! TSBS's trucks: rows statistically equal to its use case iot, from our own seeded generator
//! (xoshiro256++).
//!
//! Every 10 s from 2016-01-01 a truck has a row of readings and a row of diagnostics; 10 % of the
//! rows are missing, and 10 % lack one field. Unlike in TSBS, each truck has its own load (in TSBS
//! all trucks share one), and no row lacks a tag.

use super::cpu::{START_NS, STEP_NS};
use super::mix;
use crate::Outcome;
use crate::table::{Column, ColumnType, Table};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ops::Range;
use std::sync::Arc;

/// Columns of both tables before the time; the first is the key.
pub const TAGS: [&str; 5] = ["name", "fleet", "driver", "model", "device_version"];
/// Columns of both tables directly after the time.
pub const CAPACITIES: [&str; 3] = ["load_capacity", "fuel_capacity", "nominal_fuel_consumption"];
/// Further columns of the table of readings.
pub const READINGS: [&str; 7] =
    ["latitude", "longitude", "elevation", "velocity", "heading", "grade", "fuel_consumption"];
/// Further columns of the table of diagnostics.
pub const DIAGNOSTICS: [&str; 3] = ["fuel_state", "current_load", "status"];
/// The tables of readings and of diagnostics.
pub fn tables() -> [Table; 2] {
    let table = |name, fields: &[&'static str]| {
        let mut columns: Vec<Column> = TAGS.map(|tag| (tag, ColumnType::Text)).to_vec();
        columns.push(("ts", ColumnType::Time));
        columns.extend(CAPACITIES.iter().chain(fields).map(|field| {
            let kind = if *field == "status" { ColumnType::Int } else { ColumnType::Float };
            (*field, kind)
        }));
        Table { name, columns, key: &["name", "ts"] }
    };
    [table("readings", &READINGS), table("diagnostics", &DIAGNOSTICS)]
}

/// The fleets.
pub const FLEETS: [&str; 4] = ["East", "West", "North", "South"];
/// Number of trucks.
pub const TRUCKS: usize = 50;
const SEED: u64 = 123;
/// Model, load capacity, fuel capacity, nominal fuel consumption.
const MODELS: [(&str, [f64; 3]); 3] =
    [("F-150", [2000.0, 200.0, 15.0]), ("G-2000", [5000.0, 300.0, 19.0]), ("H-2", [1500.0, 150.0, 12.0])];
/// For each of [`READINGS`]: the step of its walk, its bounds, and the decimals kept.
const WALKS: [(f64, f64, f64, i32); 7] = [
    (0.005, -90.0, 90.0, 5),
    (0.005, -180.0, 180.0, 5),
    (10.0, 0.0, 5000.0, 0),
    (10.0, 0.0, 100.0, 0),
    (5.0, 0.0, 360.0, 0),
    (5.0, 0.0, 100.0, 0),
    (5.0, 0.0, 50.0, 1),
];

struct Truck {
    random: Xoshiro256PlusPlus,
    tags: [String; 5],
    capacities: [f64; 3],
    readings: [f64; 7],
    fuel: f64,
    load: f64,
    status: f64,
}

/// The trucks and their current state.
pub struct Trucks {
    trucks: Vec<Truck>,
    epoch: i64,
}

impl Trucks {
    /// All trucks at the first time, with the seed of every run.
    pub fn at_start() -> Self {
        Self::part(SEED, 0..TRUCKS)
    }

    /// Some trucks at the first time. A truck's rows depend only on the seed and its number.
    pub fn part(seed: u64, numbers: Range<usize>) -> Self {
        Self { trucks: numbers.map(|number| Truck::new(seed, number)).collect(), epoch: 0 }
    }

    /// Generates the rows of the next epochs, of readings and of diagnostics.
    ///
    /// # Errors
    /// None, unless the columns differ in length.
    pub fn next(&mut self, epochs: usize) -> Outcome<(RecordBatch, RecordBatch)> {
        let (mut readings, mut diagnostics) = (Rows::default(), Rows::default());
        for _ in 0..epochs {
            let time = START_NS + self.epoch * STEP_NS;
            for truck in &mut self.trucks {
                let values = std::array::from_fn::<_, 7, _>(|place| cut(truck.readings[place], WALKS[place].3));
                readings.add(truck, time, &values);
                let values = [cut(truck.fuel, 1), cut(truck.load, 0), truck.status.trunc()];
                diagnostics.add(truck, time, &values);
                truck.drive();
            }
            self.epoch += 1;
        }
        Ok((readings.batch(&READINGS)?, diagnostics.batch(&DIAGNOSTICS)?))
    }
}

/// Truncates a value to a number of decimals, toward zero.
fn cut(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).trunc() / scale
}

impl Truck {
    fn new(seed: u64, number: usize) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(mix(seed ^ mix(number as u64)));
        let starts = [90.0, 180.0, 500.0, 0.0, 360.0, 0.0, 0.0];
        let mut readings = starts.map(|most| if most > 0.0 { random.random_range(0.0..most) } else { 0.0 });
        readings[6] = 25.0;
        let (model, capacities) = MODELS[random.random_range(0..MODELS.len())];
        let any = |random: &mut Xoshiro256PlusPlus, of: &[&str]| of[random.random_range(0..of.len())].to_owned();
        let tags = [
            format!("truck_{number}"),
            any(&mut random, &FLEETS),
            any(&mut random, &["Derek", "Rodney", "Albert", "Andy", "Seth", "Trish"]),
            model.to_owned(),
            any(&mut random, &["v1.0", "v1.5", "v2.0", "v2.3"]),
        ];
        let load = random.random_range(0.0..5000.0);
        Self { random, tags, capacities, readings, fuel: 1.0, load, status: 0.0 }
    }

    fn drive(&mut self) {
        let random = &mut self.random;
        for (value, (step, least, most, _)) in self.readings.iter_mut().zip(WALKS) {
            *value = (*value + random.random_range(-step..step)).clamp(least, most);
        }
        self.fuel = (self.fuel + random.random_range(-0.001..0.0)).max(0.0);
        if self.fuel == 0.0 {
            self.fuel = 1.0;
        }
        if random.random_bool(0.05) {
            self.load = random.random_range(0.0..5000.0);
        }
        let step: f64 = StandardNormal.sample(random);
        self.status = (self.status + step).clamp(0.0, 5.0);
    }
}

/// Rows of one table.
#[derive(Default)]
struct Rows {
    tags: [Vec<String>; 5],
    times: Vec<i64>,
    capacities: [Vec<f64>; 3],
    fields: Vec<Vec<Option<f64>>>,
}

impl Rows {
    fn add(&mut self, truck: &mut Truck, time: i64, values: &[f64]) {
        if truck.random.random_bool(0.1) {
            return;
        }
        let lacking = truck.random.random_bool(0.1).then(|| truck.random.random_range(0..values.len()));
        self.fields.resize(values.len(), Vec::new());
        for (place, (column, value)) in self.fields.iter_mut().zip(values).enumerate() {
            column.push((lacking != Some(place)).then_some(*value));
        }
        self.tags.iter_mut().zip(&truck.tags).for_each(|(column, tag)| column.push(tag.clone()));
        self.capacities.iter_mut().zip(truck.capacities).for_each(|(column, value)| column.push(value));
        self.times.push(time);
    }

    fn batch(self, names: &[&'static str]) -> Outcome<RecordBatch> {
        let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
        for (name, values) in TAGS.into_iter().zip(self.tags) {
            columns.push((name, Arc::new(StringArray::from(values))));
        }
        columns.push(("ts", Arc::new(TimestampNanosecondArray::from(self.times))));
        for (name, values) in CAPACITIES.into_iter().zip(self.capacities) {
            columns.push((name, Arc::new(Float64Array::from(values))));
        }
        for (name, values) in names.iter().zip(self.fields) {
            let column: ArrayRef = match *name {
                "status" => {
                    Arc::new(values.into_iter().map(|value| value.map(|value| value as i64)).collect::<Int64Array>())
                }
                _ => Arc::new(Float64Array::from(values)),
            };
            columns.push((name, column));
        }
        Ok(RecordBatch::try_from_iter(columns)?)
    }
}
