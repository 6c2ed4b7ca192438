//! E2's rows: statistically equal to TSBS cpu-only, from a seeded generator of our own (xoshiro256++).
//!
//! Every host has ten constant tags and ten fields, each a random walk with N(0, 1) steps between 0 and 100,
//! truncated to an integer; a row every 10 s from 2016-01-01, all hosts of an epoch in order.

use crate::Outcome;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;

pub const TAGS: [&str; 10] = [
    "hostname",
    "region",
    "datacenter",
    "rack",
    "os",
    "arch",
    "team",
    "service",
    "service_version",
    "service_environment",
];
pub const FIELDS: [&str; 10] = [
    "usage_user",
    "usage_system",
    "usage_idle",
    "usage_nice",
    "usage_iowait",
    "usage_irq",
    "usage_softirq",
    "usage_steal",
    "usage_guest",
    "usage_guest_nice",
];
/// The rows' first time.
pub const START_NS: i64 = 1_451_606_400_000_000_000;
/// E2's hosts, and the rows of a batch.
pub const HOSTS: usize = 4_000;
pub const BATCH_ROWS: usize = 1_000;
/// The seed of every run, so that all targets get the same rows.
const SEED: u64 = 123;
/// The time between two rows of a host.
pub const STEP_NS: i64 = 10_000_000_000;
const REGIONS: [(&str, &[&str]); 9] = [
    ("us-east-1", &["a", "b", "c", "e"]),
    ("us-west-1", &["a", "b"]),
    ("us-west-2", &["a", "b", "c"]),
    ("eu-west-1", &["a", "b", "c"]),
    ("eu-central-1", &["a", "b"]),
    ("ap-southeast-1", &["a", "b"]),
    ("ap-southeast-2", &["a", "b"]),
    ("ap-northeast-1", &["a", "c"]),
    ("sa-east-1", &["a", "b", "c"]),
];

/// The hosts and where their walks stand.
pub struct Cpu {
    random: Xoshiro256PlusPlus,
    walks: Vec<[f64; 10]>,
    /// The tag columns of each batch of an epoch, which are the same in every epoch.
    tags: Vec<Vec<ArrayRef>>,
    batch_rows: usize,
    epoch: i64,
    next_batch: usize,
    schema: Arc<Schema>,
}

impl Cpu {
    /// E2's rows.
    pub fn edge() -> Outcome<Self> {
        Self::new(HOSTS, BATCH_ROWS, SEED)
    }

    /// `hosts` must be a multiple of `batch_rows`.
    fn new(hosts: usize, batch_rows: usize, seed: u64) -> Outcome<Self> {
        if hosts == 0 || batch_rows == 0 || !hosts.is_multiple_of(batch_rows) {
            return Err("the hosts must be a multiple of the batch's rows".into());
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut columns: Vec<Vec<String>> = vec![Vec::new(); TAGS.len()];
        for host in 0..hosts {
            let (region, zones) = REGIONS[random.random_range(0..REGIONS.len())];
            let zone = zones[random.random_range(0..zones.len())];
            let any = |random: &mut Xoshiro256PlusPlus, of: &[&str]| of[random.random_range(0..of.len())].to_owned();
            let row = [
                format!("host_{host}"),
                region.to_owned(),
                format!("{region}{zone}"),
                random.random_range(0..100).to_string(),
                any(&mut random, &["Ubuntu16.10", "Ubuntu16.04LTS", "Ubuntu15.10"]),
                any(&mut random, &["x64", "x86"]),
                any(&mut random, &["SF", "NYC", "LON", "CHI"]),
                random.random_range(0..20).to_string(),
                random.random_range(0..2).to_string(),
                any(&mut random, &["production", "staging", "test"]),
            ];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        let tags = (0..hosts / batch_rows)
            .map(|batch| {
                let rows = batch * batch_rows..(batch + 1) * batch_rows;
                columns.iter().map(|c| Arc::new(StringArray::from(c[rows.clone()].to_vec())) as ArrayRef).collect()
            })
            .collect();
        let walks = (0..hosts).map(|_| std::array::from_fn(|_| random.random_range(0.0..100.0))).collect();
        let mut fields: Vec<Field> = TAGS.map(|name| Field::new(name, DataType::Utf8, true)).to_vec();
        fields.push(Field::new("ts", DataType::Timestamp(TimeUnit::Nanosecond, None), false));
        fields.extend(FIELDS.map(|name| Field::new(name, DataType::Int64, true)));
        let schema = Arc::new(Schema::new(fields));
        Ok(Self { random, walks, tags, batch_rows, epoch: 0, next_batch: 0, schema })
    }

    /// The next batch of rows.
    pub fn next(&mut self) -> Outcome<RecordBatch> {
        let first = self.next_batch * self.batch_rows;
        let mut fields: Vec<Vec<i64>> = vec![Vec::with_capacity(self.batch_rows); FIELDS.len()];
        for walk in &mut self.walks[first..first + self.batch_rows] {
            for (value, out) in walk.iter_mut().zip(&mut fields) {
                out.push(*value as i64);
                let step: f64 = StandardNormal.sample(&mut self.random);
                *value = (*value + step).clamp(0.0, 100.0);
            }
        }
        let mut columns = self.tags[self.next_batch].clone();
        let time = START_NS + self.epoch * STEP_NS;
        columns.push(Arc::new(TimestampNanosecondArray::from_value(time, self.batch_rows)));
        columns.extend(fields.into_iter().map(|values| Arc::new(Int64Array::from(values)) as ArrayRef));
        self.next_batch += 1;
        if self.next_batch == self.tags.len() {
            (self.next_batch, self.epoch) = (0, self.epoch + 1);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}
