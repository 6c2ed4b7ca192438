//! What it costs a write to be shared: small ones of one and of many connections, and an ingest.

use super::owner::{Owned, bucket};
use crate::fleet::ingest::{Writer, batches};
use crate::fleet::rows;
use crate::soak::Test;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::driver::Worker;
use fleetdb_bench_core::experiment::Size;
use fleetdb_bench_core::results::Figure;
use fleetdb_bench_core::statistics::median;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, ColumnType, Database, Durability, Settings, TableDefinition, TableSchema, Unit, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Writers of small batches at a time.
const WRITERS: usize = 32;
/// Small batches of each writer.
const SMALL: u64 = 200;
/// How often each ingest is measured.
const ROUNDS: usize = 5;
const READINGS: &str = "readings";
/// Nobody takes over while writes are measured.
const TAKEOVER_AFTER: Duration = Duration::from_secs(60);

/// A database of an ingest or of small writes.
enum Place {
    Alone(Arc<Database>),
    InCluster(Owned),
}

impl Place {
    fn open(directory: &Path, url: Option<&str>, is_in_cluster: bool) -> Outcome<Self> {
        std::fs::create_dir_all(directory)?;
        let data = directory.join("data");
        Ok(match is_in_cluster {
            true => Self::InCluster(Owned::wait(&bucket(url, directory)?, &data, TAKEOVER_AFTER)?),
            false => Self::Alone(Arc::new(Database::open_with(Io::files(data), Settings::default())?)),
        })
    }

    fn db(&self) -> &Arc<Database> {
        match self {
            Self::Alone(db) | Self::InCluster(Owned { db, .. }) => db,
        }
    }

    fn close(self) -> Outcome<()> {
        match self {
            Self::Alone(db) => Ok(Arc::into_inner(db).ok_or("the database is still in use")?.close()?),
            Self::InCluster(owned) => owned.close(),
        }
    }
}

/// Writes one row at a time.
struct Small {
    db: Arc<Database>,
    table: Arc<TableSchema>,
    meter: i64,
    time: i64,
    until: i64,
    durability: Durability,
}

impl Worker for Small {
    fn prepare(&mut self) -> Outcome<bool> {
        Ok(self.time < self.until)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let mut batch = Batch::new().with_durability(self.durability);
        batch.push(&self.table, &[Value::Int(self.meter), Value::Int(self.time), Value::Float(self.time as f64)])?;
        self.db.commit(batch)?;
        self.time += 1;
        Ok(1)
    }
}

/// Measures small writes, with one writer and with many, at `sync` and at `shared`.
pub fn small(test: &mut Test<'_>, url: Option<&str>) -> Outcome<()> {
    let directory = test.directory.join("small");
    let place = Place::open(&directory, url, true)?;
    let table = TableDefinition::new(READINGS).key("meter", ColumnType::Int64).time("ts", Unit::Millisecond);
    let table = place.db().create_table(&table.field("value", ColumnType::Float64))?;
    let mut begin = 0;
    for writers in [1, WRITERS] {
        for durability in [Durability::Sync, Durability::Shared] {
            if test.is_stopped() {
                return place.close();
            }
            let until = begin + SMALL as i64;
            let of_meter = |meter| {
                let (db, table) = (Arc::clone(place.db()), Arc::clone(&table));
                Small { db, table, meter, time: begin, until, durability }
            };
            let mut workers: Vec<_> = (0..writers as i64).map(of_meter).collect();
            let name = format!("{writers} writers, {durability} ({})", durability.tier());
            test.drive_all(&name, "one row", Size::Operations(SMALL * writers as u64), &mut workers)?;
            begin = until;
        }
    }
    place.close()?;
    Ok(std::fs::remove_dir_all(&directory)?)
}

/// Measures an ingest outside of a cluster, in one at `sync`, and in one at `shared`, in turn.
pub fn ingest(test: &mut Test<'_>, url: Option<&str>, rows: u64) -> Outcome<()> {
    let batches = batches(rows)?;
    let kinds = [(false, Durability::Sync), (true, Durability::Sync), (true, Durability::Shared)];
    let mut ratios = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let mut seconds = [0.0; 3];
        // Each goes first as often as the others.
        for kind in (0..kinds.len()).map(|turn| (turn + round) % kinds.len()) {
            if test.is_stopped() {
                return Ok(());
            }
            let (is_in_cluster, durability) = kinds[kind];
            let directory = test.directory.join(format!("ingest-{round}-{kind}"));
            let url = url.map(|url| format!("{url}/ingest-{round}-{kind}"));
            let place = Place::open(&directory, url.as_deref(), is_in_cluster)?;
            place.db().create_table(&rows::table(batches.first().ok_or("there are no rows")?))?;
            let place_name = if is_in_cluster { "in a cluster" } else { "outside" };
            let name = format!("ingest, {place_name}, {durability} ({})", durability.tier());
            let mut writer = Writer::new(place.db(), &batches, durability);
            seconds[kind] = test.drive(&name, "1,000 rows", batches.len() as u64, &mut writer)?.driven.seconds;
            drop(writer);
            place.close()?;
            std::fs::remove_dir_all(&directory)?;
        }
        ratios[0].push(seconds[1] / seconds[0]);
        ratios[1].push(seconds[2] / seconds[0]);
    }
    for (level, ratios) in ["sync", "shared"].iter().zip(ratios) {
        let name = format!("time of an ingest at {level} in a cluster, to one at sync outside");
        test.figure(Figure::new(&name, "", median(ratios)));
    }
    Ok(())
}
