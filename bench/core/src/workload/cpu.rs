//! E2's rows: statistically equal to TSBS cpu-only, from our own seeded generator (xoshiro256++).
//!
//! Every host has ten constant tags and ten fields. Each field is a random walk with N(0, 1) steps
//! between 0 and 100, truncated to an integer. There is a row every 10 s from 2016-01-01, with all
//! hosts of an epoch in order. A host's rows depend only on the seed and the host's number, so any
//! set of hosts can be generated anywhere ([`Cpu::part`]).

use crate::Outcome;
use crate::table::{Column, ColumnType, Table};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ops::Range;
use std::sync::Arc;

/// The tag columns; the first is in the key.
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
/// The field columns.
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
/// The time of the first rows.
pub const START_NS: i64 = 1_451_606_400_000_000_000;
/// Number of hosts in E2.
pub const HOSTS: usize = 4_000;
/// Rows per batch.
pub const BATCH_ROWS: usize = 1_000;
/// The seed of every run, so that all targets get the same rows.
pub const SEED: u64 = 123;
/// Interval between two rows of a host.
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

/// E2's table; its key is (hostname, ts) in every target.
pub fn cpu_table() -> Table {
    Table { name: "cpu", columns: cpu_columns(), key: &["hostname", "ts"] }
}

/// The columns of the table: tags, time, fields.
pub fn cpu_columns() -> Vec<Column> {
    let tags = TAGS.iter().map(|tag| (*tag, ColumnType::Text));
    let fields = FIELDS.iter().map(|field| (*field, ColumnType::Int));
    tags.chain([("ts", ColumnType::Time)]).chain(fields).collect()
}

/// A host's random number generator and the current values of its walks.
struct Host {
    random: Xoshiro256PlusPlus,
    walks: [f64; 10],
}

/// Hosts, with the state of their generation.
pub struct Cpu {
    hosts: Vec<Host>,
    /// The tag columns of each batch of an epoch, which are the same in every epoch.
    tags: Vec<Vec<ArrayRef>>,
    batch_rows: usize,
    epoch: i64,
    next_batch: usize,
    schema: Arc<Schema>,
}

impl Cpu {
    /// E2's rows: all hosts, with the seed of every run.
    pub fn edge() -> Self {
        Self::part(SEED, 0..HOSTS, BATCH_ROWS)
    }

    /// The rows of some hosts, in batches of at most `batch_rows`.
    pub fn part(seed: u64, numbers: Range<usize>, batch_rows: usize) -> Self {
        let mut columns: Vec<Vec<String>> = vec![Vec::new(); TAGS.len()];
        let mut hosts = Vec::with_capacity(numbers.len());
        for number in numbers {
            let (host, tags) = Host::new(seed, number);
            hosts.push(host);
            columns.iter_mut().zip(tags).for_each(|(column, value)| column.push(value));
        }
        let batch_rows = batch_rows.clamp(1, hosts.len().max(1));
        let tags = (0..hosts.len())
            .step_by(batch_rows)
            .map(|first| {
                let rows = first..(first + batch_rows).min(hosts.len());
                columns.iter().map(|c| Arc::new(StringArray::from(c[rows.clone()].to_vec())) as ArrayRef).collect()
            })
            .collect();
        let mut fields: Vec<Field> = TAGS.map(|name| Field::new(name, DataType::Utf8, true)).to_vec();
        fields.push(Field::new("ts", DataType::Timestamp(TimeUnit::Nanosecond, None), false));
        fields.extend(FIELDS.map(|name| Field::new(name, DataType::Int64, true)));
        Self { hosts, tags, batch_rows, epoch: 0, next_batch: 0, schema: Arc::new(Schema::new(fields)) }
    }

    /// Splits the hosts into parts. Each part continues at the start of the current epoch.
    pub fn split(mut self, parts: usize) -> Vec<Self> {
        let columns: Vec<Vec<ArrayRef>> = self.tags;
        let hosts_each = self.batch_rows * columns.len().div_ceil(parts.max(1)).max(1);
        let batches_each = hosts_each / self.batch_rows;
        let mut split = Vec::new();
        for tags in columns.chunks(batches_each) {
            let rest = self.hosts.split_off(hosts_each.min(self.hosts.len()));
            let hosts = std::mem::replace(&mut self.hosts, rest);
            let (tags, schema) = (tags.to_vec(), Arc::clone(&self.schema));
            split.push(Self { hosts, tags, batch_rows: self.batch_rows, epoch: self.epoch, next_batch: 0, schema });
        }
        split
    }

    /// The number of hosts.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// The index of the first host in the next batch.
    pub fn next_host(&self) -> usize {
        self.next_batch * self.batch_rows
    }

    /// The end of the newest complete epoch.
    pub fn end_ns(&self) -> i64 {
        START_NS + self.epoch * STEP_NS
    }

    /// Generates the next batch of rows.
    ///
    /// # Errors
    /// There are no hosts.
    pub fn batch(&mut self) -> Outcome<RecordBatch> {
        let mut columns = self.tags.get(self.next_batch).ok_or("there are no hosts")?.clone();
        let first = self.next_batch * self.batch_rows;
        let rows = first..(first + self.batch_rows).min(self.hosts.len());
        let count = rows.len();
        let mut fields: [Vec<i64>; 10] = std::array::from_fn(|_| Vec::with_capacity(count));
        for host in &mut self.hosts[rows] {
            for (value, out) in host.walks.iter_mut().zip(&mut fields) {
                out.push(*value as i64);
                let step: f64 = StandardNormal.sample(&mut host.random);
                *value = (*value + step).clamp(0.0, 100.0);
            }
        }
        let time = START_NS + self.epoch * STEP_NS;
        columns.push(Arc::new(TimestampNanosecondArray::from_value(time, count)));
        columns.extend(fields.into_iter().map(|values| Arc::new(Int64Array::from(values)) as ArrayRef));
        self.next_batch += 1;
        if self.next_batch == self.tags.len() {
            (self.next_batch, self.epoch) = (0, self.epoch + 1);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

impl Host {
    fn new(seed: u64, number: usize) -> (Self, [String; 10]) {
        // The generator's own seeding mixes the two.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(1 << 32) ^ number as u64);
        let (region, zones) = REGIONS[random.random_range(0..REGIONS.len())];
        let zone = zones[random.random_range(0..zones.len())];
        let any = |random: &mut Xoshiro256PlusPlus, of: &[&str]| of[random.random_range(0..of.len())].to_owned();
        let tags = [
            format!("host_{number}"),
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
        let walks = std::array::from_fn(|_| random.random_range(0.0..100.0));
        (Self { random, walks }, tags)
    }
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
