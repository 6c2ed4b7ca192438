//! The fleet of `soak year`: every row is a function of its meter and hour, so the model needs no
//! memory. It computes whether a row has been delivered by now, whether retention still keeps it,
//! and its values.

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, TimestampSecondArray};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, TimeUnit};
use fleetdb_bench_core::Outcome;
use fleetdb_engine::{ColumnType, Database, TableDefinition, Unit, Value};
use std::sync::Arc;

const HOUR_S: i64 = 3_600;
/// Seconds in a day.
pub(super) const DAY_S: i64 = 24 * HOUR_S;
const START_S: i64 = 1_735_689_600;
const FIELDS: [&str; 4] = ["usage_since_read", "total", "voltage", "temperature"];
/// The longest delay of a late row, in hours.
const LATEST_HOURS: u64 = 30 * 24;
/// Every 31st meter is compared in detail. For the other meters, only the rows are counted.
const COMPARED: i64 = 31;

/// The meters of a seed, numbered from 0.
#[derive(Clone, Copy)]
pub(super) struct Fleet {
    pub(super) meters: i64,
    pub(super) seed: u64,
}

/// The start of an hour, in seconds since 1970.
pub(super) fn time_s(hour: i64) -> i64 {
    START_S + hour * HOUR_S
}

impl Fleet {
    /// A pseudo-random number for a meter and an hour (the mixing function of SplitMix64).
    fn mix(self, meter: i64, hour: i64, purpose: u64) -> u64 {
        let meter = self.seed ^ (meter as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut x = meter ^ (hour as u64) << 20 ^ purpose << 56;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Hours between a reading and its arrival; zero for 98 of 100 readings.
    pub(super) fn delay(self, meter: i64, hour: i64) -> i64 {
        let is_late = self.mix(meter, hour, 1) % 100 < 2;
        if is_late { (1 + self.mix(meter, hour, 2) % LATEST_HOURS) as i64 } else { 0 }
    }

    /// Whether a reading is sent twice.
    pub(super) fn is_repeated(self, meter: i64, hour: i64) -> bool {
        self.mix(meter, hour, 3).is_multiple_of(100)
    }

    fn usage(self, meter: i64, hour: i64) -> f64 {
        (self.mix(meter, hour, 4) % 3_000) as f64 / 1e3
    }

    /// The rows of readings, each a meter and an hour.
    pub(super) fn rows(self, readings: &[(i64, i64)]) -> Outcome<RecordBatch> {
        let mut fields = vec![
            Field::new("meter_id", DataType::Int64, true),
            Field::new("ts", DataType::Timestamp(TimeUnit::Second, None), false),
        ];
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(readings.iter().map(|(meter, _)| *meter))),
            Arc::new(TimestampSecondArray::from_iter_values(readings.iter().map(|(_, hour)| time_s(*hour)))),
        ];
        let mut add = |name: &str, value: &dyn Fn(i64, i64) -> f64| {
            fields.push(Field::new(name, DataType::Float64, true));
            columns.push(Arc::new(Float64Array::from_iter_values(readings.iter().map(|&(m, h)| value(m, h)))));
        };
        add(FIELDS[0], &|meter, hour| self.usage(meter, hour));
        add(FIELDS[1], &|_, hour| hour as f64 * 1.5);
        add(FIELDS[2], &|meter, hour| 2_300.0 + (self.mix(meter, hour, 5) % 100) as f64 / 10.0);
        add(FIELDS[3], &|meter, hour| (self.mix(meter, hour, 6) % 400) as f64 / 10.0);
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// The rows of all meters as of an hour.
    pub(super) fn meters(self, hour: i64) -> Outcome<RecordBatch> {
        let fields = vec![Field::new("id", DataType::Int64, true), Field::new("last_usage", DataType::Float64, true)];
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..self.meters)),
            Arc::new(Float64Array::from_iter_values((0..self.meters).map(|meter| self.usage(meter, hour)))),
        ];
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// The hours of a meter's readings that exist at hour `now`.
    pub(super) fn live(self, meter: i64, now: i64, retention_s: i64) -> impl Iterator<Item = i64> {
        let first = (now - retention_s / HOUR_S).max(0);
        (first..=now).filter(move |&hour| hour + self.delay(meter, hour) <= now)
    }

    /// Compares a database at hour `now` with the model. Returns the number of answers compared.
    pub(super) fn verify(self, db: &Database, now: i64, retention_s: i64) -> Outcome<usize> {
        let view = db.view();
        let table = view.table("reads")?;
        let (mut all, mut compared) = (0, 2);
        for meter in 0..self.meters {
            if meter % COMPARED != 0 {
                all += self.live(meter, now, retention_s).count() as u64;
                continue;
            }
            let hours: Vec<i64> = self.live(meter, now, retention_s).collect();
            (all, compared) = (all + hours.len() as u64, compared + 1);
            let found = table.container(&[Value::Int(meter)])?.aggregate(FIELDS[0], i64::MIN, i64::MAX)?;
            let sum: f64 = hours.iter().map(|&hour| self.usage(meter, hour)).sum();
            if found.count != hours.len() as u64 || (found.sum.unwrap_or(0.0) - sum).abs() > 1e-6 * sum.max(1.0) {
                let rows = hours.len();
                return Err(
                    format!("hour {now}, meter {meter}: {found:?}, but the model has {rows} rows, sum {sum}").into()
                );
            }
        }
        let count = table.count()?;
        if count != all {
            return Err(format!("hour {now}: {count} rows, but the model has {all}").into());
        }
        let last = self.meters - 1;
        let row = view.table("meters")?.container(&[Value::Int(last)])?.last()?.ok_or("a meter is missing")?;
        if row.column(1).as_primitive::<Float64Type>().value(0) != self.usage(last, now) {
            return Err("a meter's last usage is wrong".into());
        }
        Ok(compared)
    }
}

/// Creates the two tables.
pub(super) fn create(db: &Database, retention_s: Option<i64>) -> Outcome<()> {
    let table = TableDefinition::new("reads").key("meter_id", ColumnType::Int64).time("ts", Unit::Second);
    let table = FIELDS.into_iter().fold(table, |table, name| table.field(name, ColumnType::Float64));
    db.create_table(&TableDefinition { retention_seconds: retention_s, ..table })?;
    let meters = TableDefinition::new("meters").key("id", ColumnType::Int64);
    db.create_table(&meters.field("last_usage", ColumnType::Float64))?;
    Ok(())
}
