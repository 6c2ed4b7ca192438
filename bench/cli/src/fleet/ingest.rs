//! What shipping costs a database that takes rows as fast as it can.

use super::rows;
use super::side::bucket;
use crate::soak::Test;
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::driver::Worker;
use fleetdb_bench_core::results::Figure;
use fleetdb_bench_core::statistics::median;
use fleetdb_bench_core::workload::cpu::Cpu;
use fleetdb_cluster::shipped::Shipper;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, Database, Durability, Settings};
use std::sync::Arc;
use std::time::Duration;

/// How often each of the two is measured.
const PAIRS: usize = 5;
/// Far more often than the default, so that a short run ships several times.
const INTERVAL: Duration = Duration::from_secs(1);

/// Writes batches; an operation is one of them.
pub struct Writer<'a> {
    db: Arc<Database>,
    batches: std::slice::Iter<'a, RecordBatch>,
    durability: Durability,
}

impl<'a> Writer<'a> {
    pub fn new(db: &Arc<Database>, batches: &'a [RecordBatch], durability: Durability) -> Self {
        Self { db: Arc::clone(db), batches: batches.iter(), durability }
    }
}

/// A number of E2's rows, in batches.
pub fn batches(rows: u64) -> Outcome<Vec<RecordBatch>> {
    let mut cpu = Cpu::edge();
    let (mut batches, mut generated) = (Vec::new(), 0);
    while generated < rows {
        let batch = cpu.batch()?;
        generated += batch.num_rows() as u64;
        batches.push(batch);
    }
    Ok(batches)
}

impl Worker for Writer<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        Ok(self.batches.len() > 0)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let rows = self.batches.next().ok_or("nothing was prepared")?.clone();
        let count = rows.num_rows() as u64;
        self.db.commit(Batch::new().with(rows::TABLE, rows).with_durability(self.durability))?;
        Ok(count)
    }
}

/// Measures an ingest with and without shipping, in turn.
pub fn run(test: &mut Test<'_>, rows: u64) -> Outcome<()> {
    let batches = batches(rows)?;
    let (mut seconds, mut ratios) = ([0.0; 2], Vec::new());
    for pair in 0..PAIRS {
        // Either goes first as often as the other.
        for ships in [pair % 2 == 0, pair % 2 != 0] {
            if test.is_stopped() {
                return Ok(());
            }
            seconds[usize::from(ships)] = ingest(test, &batches, ships)?;
        }
        ratios.push(seconds[1] / seconds[0]);
    }
    let name = "time of an ingest that is shipped each second, to one that is not";
    test.figure(Figure::new(name, "", median(ratios)).at_most(1.0 / 0.95));
    Ok(())
}

/// The seconds that an ingest takes.
fn ingest(test: &mut Test<'_>, batches: &[RecordBatch], ships: bool) -> Outcome<f64> {
    let directory = test.directory.join("ingest");
    std::fs::create_dir_all(directory.join("bucket"))?;
    let io = Io::files(directory.join("data"));
    let db = Arc::new(Database::open_with(io.clone(), Settings::default())?);
    db.create_table(&rows::table(batches.first().ok_or("there are no rows")?))?;
    let shipping = ships.then(|| -> Outcome<_> {
        let shipper = Shipper::new(bucket(&directory)?, io)?;
        Ok(shipper.at_intervals(Arc::downgrade(&db), INTERVAL)?)
    });
    let shipping = shipping.transpose()?;
    let name = if ships { "ingest, shipped" } else { "ingest" };
    let mut writer = Writer::new(&db, batches, db.settings().durability);
    let phase = test.drive(name, "1,000 rows", batches.len() as u64, &mut writer)?;
    let seconds = phase.driven.seconds;
    drop((shipping, writer));
    Arc::into_inner(db).ok_or("the database is still in use")?.close()?;
    std::fs::remove_dir_all(&directory)?;
    Ok(seconds)
}
