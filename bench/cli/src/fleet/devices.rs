//! The vehicles: embedded databases that write, flush and ship.

use super::rows::{self, ROWS_AN_HOUR, TABLE};
use super::side::{bucket, obey};
use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Int64Type, TimestampNanosecondType};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::meters::{peak_memory_bytes, processor_us};
use fleetdb_bench_core::workload::cpu::Cpu;
use fleetdb_cluster::bucket::Bucket;
use fleetdb_cluster::shipped::Shipper;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, Database, ScanRequest, Settings};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Rows of a host in one commit: ten minutes.
const COMMIT_ROWS: usize = 60;

/// Arguments of the process.
#[derive(clap::Args)]
pub struct Devices {
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    hosts: u64,
    #[arg(long)]
    devices: u64,
    #[arg(long)]
    seed: u64,
}

/// What the vehicles have done since their process was started.
#[derive(Default, Serialize, Deserialize)]
pub struct Shipped {
    /// Processor time of generating, writing, flushing and compaction.
    pub write_us: f64,
    /// Processor time while they ship.
    pub ship_us: f64,
    pub peak_bytes: u64,
    /// Size of their segments.
    pub segment_bytes: u64,
}

struct Vehicle {
    db: Database,
    shipper: Shipper,
    /// The newest time that it has of each of its hosts.
    newest_ns: i64,
    /// Rows to commit.
    waiting: Vec<RecordBatch>,
}

impl Vehicle {
    fn open(devices: &Devices, bucket: &Bucket, number: u64, first: &RecordBatch) -> Outcome<Self> {
        let name = format!("vehicle-{number}");
        let io = Io::files(devices.directory.join(&name));
        let db = Database::open_with(io.clone(), Settings::edge())?;
        if db.table(TABLE).is_err() {
            db.create_table(&rows::table(first))?;
        }
        let mut newest_ns = i64::MIN;
        let view = db.view();
        for rows in view.table(TABLE)?.last_rows(&ScanRequest::all())? {
            let rows = cast(rows?.column_by_name("ts").ok_or("the table has no time")?, &DataType::Int64)?;
            newest_ns = rows.as_primitive::<Int64Type>().values().iter().copied().fold(newest_ns, i64::max);
        }
        drop(view);
        let shipper = Shipper::outbox(&bucket.within(&name), io)?;
        Ok(Self { db, shipper, newest_ns, waiting: Vec::new() })
    }

    fn put(&mut self, rows: RecordBatch) -> Outcome<()> {
        let time = rows.column_by_name("ts").ok_or("the rows have no time")?;
        if time.as_primitive::<TimestampNanosecondType>().value(0) > self.newest_ns {
            self.waiting.push(rows);
        }
        if self.waiting.len() == COMMIT_ROWS { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Outcome<()> {
        if let Some(first) = self.waiting.first() {
            let rows = concat_batches(first.schema_ref(), &self.waiting)?;
            self.db.commit(Batch::new().with(TABLE, rows))?;
            self.waiting.clear();
        }
        Ok(())
    }
}

/// Writes the rows of all vehicles, hour by hour, as the parent says.
pub fn run(devices: &Devices) -> Outcome<()> {
    let bucket = bucket(&devices.directory)?;
    let first = rows::all(devices.seed, devices.hosts).batch()?;
    let vehicles = (0..devices.devices).map(|number| Vehicle::open(devices, &bucket, number, &first));
    let mut fleet = Fleet {
        cpu: rows::all(devices.seed, devices.hosts),
        vehicles: vehicles.collect::<Outcome<_>>()?,
        hour: 0,
        done: Shipped::default(),
    };
    obey(|line| {
        if let Some(until) = line.strip_prefix("write ") {
            fleet.write(until.parse()?)?;
        } else {
            let status = fleet.vehicles.iter().map(|vehicle| vehicle.db.status());
            fleet.done.segment_bytes = status.map(|status| status.segment_bytes).sum();
            fleet.done.peak_bytes = peak_memory_bytes()?;
        }
        Ok(serde_json::to_string(&fleet.done)?)
    })
}

struct Fleet {
    cpu: Cpu,
    vehicles: Vec<Vehicle>,
    hour: u64,
    done: Shipped,
}

impl Fleet {
    /// Writes all rows before an hour, and ships.
    fn write(&mut self, until: u64) -> Outcome<()> {
        let begun = processor_us("self")?;
        for _ in self.hour * ROWS_AN_HOUR..until * ROWS_AN_HOUR {
            let rows = self.cpu.batch()?;
            let (hosts, count) = (rows.num_rows(), self.vehicles.len());
            for (number, vehicle) in self.vehicles.iter_mut().enumerate() {
                let own: UInt32Array = (number..hosts).step_by(count).map(|host| host as u32).collect();
                vehicle.put(take_record_batch(&rows, &own)?)?;
            }
        }
        self.hour = until;
        for vehicle in &mut self.vehicles {
            vehicle.commit()?;
            vehicle.db.flush()?;
        }
        let written = processor_us("self")?;
        for vehicle in &mut self.vehicles {
            vehicle.shipper.ship(&vehicle.db, |_, _| ())?;
        }
        self.done.write_us += written - begun;
        self.done.ship_us += processor_us("self")? - written;
        Ok(())
    }
}
