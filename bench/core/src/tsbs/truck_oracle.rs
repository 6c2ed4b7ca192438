//! The right answers to TSBS' queries of trucks.

use super::trucks::{BUCKET_S, BUCKETS_A_DAY, BUCKETS_AN_HOUR, DAY_S, TruckQuestion};
use crate::Outcome;
use crate::answer::{AnswerBuilder, Cell};
use crate::workload::trucks::{CAPACITIES, DIAGNOSTICS, READINGS, TAGS};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, TimestampNanosecondType};
use std::collections::BTreeMap;

const SECOND_NS: i64 = 1_000_000_000;
const BUCKET_NS: i64 = BUCKET_S * SECOND_NS;
const DAY_NS: i64 = DAY_S * SECOND_NS;

/// The average of values that are not NULL.
#[derive(Clone, Copy, Default)]
struct Average {
    sum: f64,
    count: usize,
}

impl Average {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            (self.sum, self.count) = (self.sum + value, self.count + 1);
        }
    }

    fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
        let mut average = Self::default();
        values.into_iter().for_each(|value| average.add(value));
        average.value()
    }

    fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Rows of a table by time: the fields after the capacities.
type Rows<const N: usize> = BTreeMap<i64, [Option<f64>; N]>;

/// Places of fields in [`READINGS`].
const LATITUDE: usize = 0;
const LONGITUDE: usize = 1;
const VELOCITY: usize = 3;
const CONSUMPTION: usize = 6;
/// Places of fields in [`DIAGNOSTICS`].
const FUEL: usize = 0;
const LOAD: usize = 1;
const STATUS: usize = 2;

/// A truck, whose tags and capacities never change.
struct Truck {
    tags: Vec<String>,
    capacities: Vec<f64>,
    readings: Rows<{ READINGS.len() }>,
    diagnostics: Rows<{ DIAGNOSTICS.len() }>,
}

impl Truck {
    fn fleet(&self) -> &str {
        &self.tags[1]
    }

    fn driver(&self) -> &str {
        &self.tags[2]
    }

    fn model(&self) -> &str {
        &self.tags[3]
    }

    /// For each bucket of a window, the average velocity.
    fn velocities(&self, (from, to): (i64, i64)) -> BTreeMap<i64, Option<f64>> {
        let mut buckets: BTreeMap<i64, Average> = BTreeMap::new();
        for (time, fields) in self.readings.range(from..to) {
            buckets.entry(floor(*time, BUCKET_NS)).or_default().add(fields[VELOCITY]);
        }
        buckets.into_iter().map(|(time, average)| (time, average.value())).collect()
    }

    /// The buckets in which it drives.
    fn driven(&self, window_ns: (i64, i64)) -> impl Iterator<Item = i64> {
        let buckets = self.velocities(window_ns).into_iter();
        buckets.filter(|(_, velocity)| velocity.is_some_and(|velocity| velocity > 1.0)).map(|(time, _)| time)
    }

    /// The start and length of each session that ended.
    fn sessions(&self) -> Vec<(i64, i64)> {
        let mut changes: Vec<(i64, Option<bool>)> = Vec::new();
        let mut before: Option<bool> = None;
        for (time, velocity) in self.velocities(ALWAYS) {
            let drives = velocity.map(|velocity| velocity > 5.0);
            if before.is_none() || drives.is_some() && drives != before {
                changes.push((time, drives));
            }
            before = drives;
        }
        let ended = changes.windows(2).filter(|pair| pair[0].1 == Some(true));
        ended.map(|pair| (pair[0].0, pair[1].0 - pair[0].0)).collect()
    }

    /// The number of buckets that are broken after one that was not.
    fn breakdowns(&self) -> i64 {
        let mut buckets: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
        for (time, fields) in &self.diagnostics {
            let (zeros, rows) = buckets.entry(floor(*time, BUCKET_NS)).or_default();
            (*zeros, *rows) = (*zeros + usize::from(fields[STATUS] == Some(0.0)), *rows + 1);
        }
        let broken: Vec<bool> = buckets.values().map(|(zeros, rows)| zeros * 2 >= *rows).collect();
        broken.windows(2).filter(|pair| !pair[0] && pair[1]).count() as i64
    }
}

const ALWAYS: (i64, i64) = (i64::MIN, i64::MAX);

fn floor(time: i64, width: i64) -> i64 {
    time.div_euclid(width) * width
}

fn cell(value: Option<f64>) -> Cell<'static> {
    value.map_or(Cell::Null, Cell::Float)
}

/// The right answers. Keeps all rows in memory.
#[derive(Default)]
pub struct TruckOracle {
    /// By name.
    trucks: BTreeMap<String, Truck>,
}

impl TruckOracle {
    /// Adds rows of readings and of diagnostics that were written.
    ///
    /// # Errors
    /// A column has another type.
    pub fn feed(&mut self, readings: &RecordBatch, diagnostics: &RecordBatch) -> Outcome<()> {
        self.each(readings, |truck, time, fields| truck.readings.extend([(time, fields)]))?;
        self.each(diagnostics, |truck, time, fields| truck.diagnostics.extend([(time, fields)]))
    }

    fn each<const N: usize>(
        &mut self,
        rows: &RecordBatch,
        add: impl Fn(&mut Truck, i64, [Option<f64>; N]),
    ) -> Outcome<()> {
        let times = rows.column(TAGS.len()).as_primitive::<TimestampNanosecondType>();
        let numbers = rows.columns()[TAGS.len() + 1..].iter().map(|column| cast(column, &DataType::Float64));
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        let number = |place: usize, row: usize| {
            let column = numbers[place].as_primitive::<Float64Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        for row in 0..rows.num_rows() {
            let tag = |place: usize| rows.column(place).as_string::<i32>().value(row);
            if !self.trucks.contains_key(tag(0)) {
                let tags = (0..TAGS.len()).map(|place| tag(place).to_owned()).collect();
                let capacities = (0..CAPACITIES.len()).filter_map(|place| number(place, row)).collect();
                let truck = Truck { tags, capacities, readings: BTreeMap::new(), diagnostics: BTreeMap::new() };
                self.trucks.insert(tag(0).to_owned(), truck);
            }
            if let Some(truck) = self.trucks.get_mut(tag(0)) {
                add(truck, times.value(row), std::array::from_fn(|place| number(CAPACITIES.len() + place, row)));
            }
        }
        Ok(())
    }

    /// The right answer to a question.
    ///
    /// # Errors
    /// None, unless the columns differ in length.
    pub fn answer(&self, question: &TruckQuestion) -> Outcome<RecordBatch> {
        let mut answer = AnswerBuilder::new(&question.columns());
        let mut push = |cells: &[Cell<'_>]| cells.iter().try_for_each(|cell| answer.push(*cell));
        match question {
            TruckQuestion::Consumption => {
                let mut fleets: BTreeMap<&str, (Average, Average)> = BTreeMap::new();
                for truck in self.trucks.values() {
                    for fields in truck.readings.values().filter(|fields| fields[VELOCITY].is_some_and(|v| v > 1.0)) {
                        let (consumption, nominal) = fleets.entry(truck.fleet()).or_default();
                        consumption.add(fields[CONSUMPTION]);
                        nominal.add(Some(truck.capacities[2]));
                    }
                }
                for (fleet, (consumption, nominal)) in fleets {
                    push(&[Cell::Text(fleet), cell(consumption.value()), cell(nominal.value())])?;
                }
            }
            TruckQuestion::Load => {
                let mut models: BTreeMap<(&str, &str), (f64, Average)> = BTreeMap::new();
                for truck in self.trucks.values().filter(|truck| !truck.diagnostics.is_empty()) {
                    let capacity = truck.capacities[0];
                    let load = Average::of(truck.diagnostics.values().map(|fields| fields[LOAD]));
                    let (_, share) =
                        models.entry((truck.fleet(), truck.model())).or_insert((capacity, Average::default()));
                    share.add(load.map(|load| load / capacity));
                }
                for ((fleet, model), (capacity, share)) in models {
                    push(&[Cell::Text(fleet), Cell::Text(model), Cell::Float(capacity), cell(share.value())])?;
                }
            }
            TruckQuestion::DailyActivity => {
                let mut days: BTreeMap<(&str, &str, i64), i64> = BTreeMap::new();
                for truck in self.trucks.values() {
                    let mut buckets: BTreeMap<i64, Average> = BTreeMap::new();
                    for (time, fields) in &truck.diagnostics {
                        buckets.entry(floor(*time, BUCKET_NS)).or_default().add(fields[STATUS]);
                    }
                    for (time, _) in buckets.iter().filter(|(_, status)| status.value().is_some_and(|s| s < 1.0)) {
                        *days.entry((truck.fleet(), truck.model(), floor(*time, DAY_NS))).or_default() += 1;
                    }
                }
                for ((fleet, model, day), active) in days {
                    let share = active as f64 / BUCKETS_A_DAY as f64;
                    push(&[Cell::Text(fleet), Cell::Text(model), Cell::Time(day), Cell::Float(share)])?;
                }
            }
            TruckQuestion::Breakdowns => {
                let mut models: BTreeMap<&str, i64> = BTreeMap::new();
                for truck in self.trucks.values() {
                    *models.entry(truck.model()).or_default() += truck.breakdowns();
                }
                for (model, breakdowns) in models.into_iter().filter(|(_, breakdowns)| *breakdowns > 0) {
                    push(&[Cell::Text(model), Cell::Int(breakdowns)])?;
                }
            }
            _ => self.trucks.iter().try_for_each(|(name, truck)| of_truck(question, name, truck, &mut push))?,
        }
        answer.finish()
    }
}

/// A truck's rows of an answer that has rows of trucks.
fn of_truck(
    question: &TruckQuestion,
    name: &str,
    truck: &Truck,
    push: &mut impl FnMut(&[Cell<'_>]) -> Outcome<()>,
) -> Outcome<()> {
    let (named, driver) = (Cell::Text(name), Cell::Text(truck.driver()));
    let last = |place: usize| truck.diagnostics.last_key_value().and_then(|(_, fields)| fields[place]);
    match question {
        TruckQuestion::LastLocations { fleet } if truck.fleet() != *fleet => {}
        TruckQuestion::LastLocation { truck: wanted } if wanted != name => {}
        TruckQuestion::LastLocations { .. } | TruckQuestion::LastLocation { .. } => {
            if let Some((time, fields)) = truck.readings.last_key_value() {
                push(&[named, driver, cell(fields[LATITUDE]), cell(fields[LONGITUDE]), Cell::Time(*time)])?;
            }
        }
        TruckQuestion::LowFuel { fleet } if truck.fleet() == *fleet => {
            if let Some(fuel) = last(FUEL).filter(|fuel| *fuel < 0.1) {
                push(&[named, driver, Cell::Float(fuel)])?;
            }
        }
        TruckQuestion::HighLoad { fleet } if truck.fleet() == *fleet => {
            if let Some(load) = last(LOAD).filter(|load| load / truck.capacities[0] > 0.9) {
                push(&[named, driver, Cell::Float(load)])?;
            }
        }
        TruckQuestion::Stationary { fleet, window_ns: (from, to) } if truck.fleet() == *fleet => {
            let velocity = Average::of(truck.readings.range(from..to).map(|(_, fields)| fields[VELOCITY]));
            if velocity.is_some_and(|velocity| velocity < 1.0) {
                push(&[named, driver])?;
            }
        }
        TruckQuestion::LongSessions { fleet, window_ns, more_than }
            if truck.fleet() == *fleet && truck.driven(*window_ns).count() > *more_than =>
        {
            push(&[named, driver])?;
        }
        TruckQuestion::DailyDuration => {
            let mut days: BTreeMap<i64, i64> = BTreeMap::new();
            truck.driven(ALWAYS).for_each(|time| *days.entry(floor(time, DAY_NS)).or_default() += 1);
            let hours = days.values().map(|buckets| Some(*buckets as f64 / BUCKETS_AN_HOUR as f64));
            if let Some(hours) = Average::of(hours) {
                push(&[Cell::Text(truck.fleet()), named, driver, Cell::Float(hours)])?;
            }
        }
        TruckQuestion::DailySession => {
            let mut days: BTreeMap<i64, Average> = BTreeMap::new();
            for (time, ns) in truck.sessions() {
                days.entry(floor(time, DAY_NS)).or_default().add(Some(ns as f64));
            }
            for (day, session) in days {
                push(&[named, Cell::Time(day), cell(session.value())])?;
            }
        }
        _ => {}
    }
    Ok(())
}
