//! TSBS' queries of hosts (use case cpu-only) and of trucks (iot), on settled data.
//!
//! 1. `ingest, hosts`: cpu rows in batches of 1,000 over one connection. `ingest, trucks`: readings
//!    and diagnostics, twenty epochs in a batch.
//! 2. The queries, under TSBS' names, except those that E2 asks. Hosts, fleets and windows differ
//!    each time; a question about all of them is repeated. Every answer is compared.
//!
//! Windows lie within the data: six hours where TSBS says 12 or 24 hours of cpu rows.

use super::workers::Writer;
use super::{Job, Run, Size, draws};
use crate::Outcome;
use crate::driver::{Limit, Worker};
use crate::query::Query;
use crate::table::Table;
use crate::target::Connection;
use crate::tsbs::Question;
use crate::tsbs::hosts::{HOUR_S, HostOracle, HostQuestion, MINUTE_S};
use crate::tsbs::truck_oracle::TruckOracle;
use crate::tsbs::trucks::{DAY_S, TruckQuestion};
use crate::workload::cpu::{BATCH_ROWS, Cpu, FIELDS, HOSTS, START_NS, STEP_NS, cpu_table};
use crate::workload::trucks::{FLEETS, TRUCKS, Trucks, tables};
use arrow::array::RecordBatch;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

const SECOND_NS: i64 = 1_000_000_000;
/// The number of hosts that the query of most hosts asks about.
const MIN_HOSTS: usize = 32;
/// Epochs of trucks in a batch.
const BATCH_EPOCHS: usize = 20;
/// Seconds of the longest windows of cpu rows.
const LONG_S: i64 = 6 * HOUR_S;

/// The size of the experiment.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// Rows of hosts [full: 10000000]
    #[arg(long)]
    pub rows: Option<usize>,
    /// Number of hosts [full: 4000]
    #[arg(long)]
    pub hosts: Option<usize>,
    /// Rows of readings and diagnostics of 50 trucks, before a tenth is left out [full: 1000000]
    #[arg(long)]
    pub truck_rows: Option<usize>,
    /// Number of times each query is asked [full: 50]
    #[arg(long)]
    pub asked: Option<usize>,
}

/// The sizes with defaults filled in.
struct Sizes {
    hosts: usize,
    /// Rows of hosts in a batch.
    batch_rows: usize,
    host_batches: u64,
    truck_batches: u64,
    asked: usize,
    /// The times of the hosts' rows, and of the trucks'.
    hosts_ns: (i64, i64),
    trucks_ns: (i64, i64),
}

impl Sizes {
    fn of(run: &Run<'_>, scale: &Scale) -> Self {
        let plan = run.plan;
        let hosts = plan.size(scale.hosts, HOSTS, 1_000).max(MIN_HOSTS);
        let batch_rows = BATCH_ROWS.min(hosts);
        let epochs = (plan.size(scale.rows, 10_000_000, 500_000) / hosts).max(1);
        let truck_rows = plan.size(scale.truck_rows, 1_000_000, 200_000);
        let truck_batches = (truck_rows / 2 / TRUCKS / BATCH_EPOCHS).max(1);
        let lasting = |epochs: usize| (START_NS, START_NS + epochs as i64 * STEP_NS);
        Self {
            hosts,
            batch_rows,
            host_batches: (epochs * hosts.div_ceil(batch_rows)) as u64,
            truck_batches: truck_batches as u64,
            asked: plan.size(scale.asked, 50, 10).max(1),
            hosts_ns: lasting(epochs),
            trucks_ns: lasting(truck_batches * BATCH_EPOCHS),
        }
    }

    fn cpu(&self, seed: u64) -> Cpu {
        Cpu::part(seed, 0..self.hosts, self.batch_rows)
    }
}

/// Runs the experiment.
///
/// # Errors
/// Those of the target.
pub fn run(run: &mut Run<'_>, scale: &Scale) -> Outcome<()> {
    let (sizes, seed) = (Sizes::of(run, scale), run.plan.seed);
    let [readings, diagnostics] = tables();
    let cpu = cpu_table();
    run.target.create(&[cpu.clone(), readings.clone(), diagnostics.clone()])?;
    let mut rows = sizes.cpu(seed);
    let mut writer = [Writer::new(run.target.connect()?, &cpu, sizes.host_batches, |_| rows.batch())];
    let operation = format!("{} rows", sizes.batch_rows);
    let job = Job { name: "ingest, hosts", operation: &operation, size: Size::Operations(sizes.host_batches) };
    let written = run.drive_and_settle(job, &mut writer, Limit::default())?.driven.rows;
    drop(writer);
    run.check_count("cpu", written)?;
    let mut writer = [TruckWriter {
        connection: run.target.connect()?,
        tables: (&readings, &diagnostics),
        trucks: Trucks::part(seed, 0..TRUCKS),
        left: sizes.truck_batches,
        next: None,
        written: (0, 0),
    }];
    let operation = "twenty epochs of 50 trucks";
    let job = Job { name: "ingest, trucks", operation, size: Size::Operations(sizes.truck_batches) };
    run.drive_and_settle(job, &mut writer, Limit::default())?;
    let (readings, diagnostics) = writer[0].written;
    run.check_count("readings", readings)?;
    run.check_count("diagnostics", diagnostics)?;
    let queries = queries(&sizes, seed);
    for (name, queries) in &queries {
        run.ask(name, queries, 1)?;
    }
    if run.is_stopped() {
        return Ok(());
    }
    let asked = queries.iter().flat_map(|(_, queries)| queries).filter_map(|query| match query {
        Query::Tsbs(Question::Hosts(question)) => Some(question),
        _ => None,
    });
    let (mut hosts, mut trucks) = (HostOracle::new(asked), TruckOracle::default());
    let (mut rows, mut truck_rows) = (sizes.cpu(seed), Trucks::part(seed, 0..TRUCKS));
    for _ in 0..sizes.host_batches {
        hosts.feed(&rows.batch()?)?;
    }
    for _ in 0..sizes.truck_batches {
        let (readings, diagnostics) = truck_rows.next(BATCH_EPOCHS)?;
        trucks.feed(&readings, &diagnostics)?;
    }
    run.verify(&|query| match query {
        Query::Tsbs(Question::Hosts(question)) => hosts.answer(question),
        Query::Tsbs(Question::Trucks(question)) => trucks.answer(question),
        _ => Err("only queries of TSBS can be asked here".into()),
    })
}

/// Writes both tables of the trucks, a batch in one transaction.
struct TruckWriter<'a> {
    connection: Box<dyn Connection>,
    tables: (&'a Table, &'a Table),
    trucks: Trucks,
    left: u64,
    next: Option<(RecordBatch, RecordBatch)>,
    /// Rows of each table.
    written: (u64, u64),
}

impl Worker for TruckWriter<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        if self.left > 0 {
            self.next = Some(self.trucks.next(BATCH_EPOCHS)?);
        }
        Ok(self.left > 0)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let (readings, diagnostics) = self.next.take().ok_or("nothing was prepared")?;
        let rows = (readings.num_rows() as u64, diagnostics.num_rows() as u64);
        self.connection.write(&[(self.tables.0, readings), (self.tables.1, diagnostics)])?;
        self.left -= 1;
        self.written = (self.written.0 + rows.0, self.written.1 + rows.1);
        Ok(rows.0 + rows.1)
    }
}

/// The queries by name, each as often as it is asked.
struct Queries {
    random: Xoshiro256PlusPlus,
    asked: usize,
    queries: Vec<(&'static str, Vec<Query>)>,
}

impl Queries {
    /// Adds a query whose questions differ.
    fn each(&mut self, name: &'static str, mut draw: impl FnMut(&mut Xoshiro256PlusPlus) -> Question) {
        let questions = (0..self.asked).map(|_| Query::Tsbs(draw(&mut self.random))).collect();
        self.queries.push((name, questions));
    }

    /// Adds a query about all hosts or trucks.
    fn all(&mut self, name: &'static str, draw: impl FnOnce(&mut Xoshiro256PlusPlus) -> Question) {
        let question = Query::Tsbs(draw(&mut self.random));
        self.queries.push((name, vec![question; self.asked]));
    }
}

fn queries(sizes: &Sizes, seed: u64) -> Vec<(&'static str, Vec<Query>)> {
    let random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut queries = Queries { random, asked: sizes.asked, queries: Vec::new() };
    of_hosts(&mut queries, sizes);
    of_trucks(&mut queries, sizes.trucks_ns);
    queries.queries
}

fn of_hosts(queries: &mut Queries, sizes: &Sizes) {
    let window = |random: &mut _, seconds: i64| draws::window(random, sizes.hosts_ns, seconds * SECOND_NS);
    // Name, fields, hosts, width of a bucket, width of the window.
    for (name, fields, hosts, width_s, seconds) in [
        ("single-groupby-1-1-12", 1, 1, MINUTE_S, LONG_S),
        ("single-groupby-1-8-1", 1, 8, MINUTE_S, HOUR_S),
        ("single-groupby-5-1-1", 5, 1, MINUTE_S, HOUR_S),
        ("single-groupby-5-1-12", 5, 1, MINUTE_S, LONG_S),
        ("single-groupby-5-8-1", 5, 8, MINUTE_S, HOUR_S),
        ("cpu-max-all-32-24", FIELDS.len(), MIN_HOSTS, HOUR_S, LONG_S),
    ] {
        queries.each(name, |r| {
            let hosts = draws::hosts(r, sizes.hosts, hosts);
            Question::Hosts(HostQuestion::Maxima { fields, hosts, width_s, window_ns: window(r, seconds) })
        });
    }
    for (name, fields) in [("double-groupby-1", 1), ("double-groupby-5", 5), ("double-groupby-all", FIELDS.len())] {
        queries.all(name, |r| Question::Hosts(HostQuestion::Averages { fields, window_ns: window(r, LONG_S) }));
    }
    queries.each("high-cpu-1", |r| {
        let host = draws::hosts(r, sizes.hosts, 1).pop();
        Question::Hosts(HostQuestion::Busy { host, window_ns: window(r, LONG_S) })
    });
    queries.all("high-cpu-all", |r| Question::Hosts(HostQuestion::Busy { host: None, window_ns: window(r, LONG_S) }));
    queries.all("groupby-orderby-limit", |r| {
        Question::Hosts(HostQuestion::LastMinutes { before_ns: window(r, HOUR_S).1 })
    });
}

fn of_trucks(queries: &mut Queries, data_ns: (i64, i64)) {
    let fleet = |random: &mut Xoshiro256PlusPlus| FLEETS[random.random_range(0..FLEETS.len())];
    let window = |random: &mut _, seconds: i64| draws::window(random, data_ns, seconds * SECOND_NS);
    let mut each = |name, draw: &dyn Fn(&mut Xoshiro256PlusPlus) -> TruckQuestion| {
        queries.each(name, |r| Question::Trucks(draw(r)));
    };
    each("last-loc", &|r| TruckQuestion::LastLocations { fleet: fleet(r) });
    each("single-last-loc", &|r| TruckQuestion::LastLocation { truck: format!("truck_{}", r.random_range(0..TRUCKS)) });
    each("low-fuel", &|r| TruckQuestion::LowFuel { fleet: fleet(r) });
    each("high-load", &|r| TruckQuestion::HighLoad { fleet: fleet(r) });
    each("stationary-trucks", &|r| TruckQuestion::Stationary { fleet: fleet(r), window_ns: window(r, 10 * MINUTE_S) });
    for (name, seconds, more_than) in [("long-driving-sessions", 4 * HOUR_S, 22), ("long-daily-sessions", DAY_S, 60)] {
        each(name, &|r| TruckQuestion::LongSessions { fleet: fleet(r), window_ns: window(r, seconds), more_than });
    }
    for (name, question) in [
        ("avg-vs-projected-fuel-consumption", TruckQuestion::Consumption),
        ("avg-daily-driving-duration", TruckQuestion::DailyDuration),
        ("avg-daily-driving-session", TruckQuestion::DailySession),
        ("avg-load", TruckQuestion::Load),
        ("daily-activity", TruckQuestion::DailyActivity),
        ("breakdown-frequency", TruckQuestion::Breakdowns),
    ] {
        queries.all(name, |_| Question::Trucks(question));
    }
}
