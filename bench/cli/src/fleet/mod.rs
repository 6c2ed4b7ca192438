//! `run fleet`: vehicles that hand their rows over to a server through a bucket.
//!
//! 1. The vehicles are embedded databases in one process ([`devices`]), the server is another
//!    ([`server`]). They share nothing but a bucket in a directory. The parent tells them when to
//!    go on ([`side`]), so that the processor time of each is its own.
//! 2. `shipped`: each vehicle ships at intervals, and the server adopts. Measured are the bytes
//!    that are sent and the processor time of both sides, for each row.
//! 3. `killed`: the same for some hours, while both processes are killed again and again.
//! 4. `offline`: one vehicle with more rows has no connection for days, and then ships at once.
//! 5. `ingest`: what shipping costs a database that takes rows as fast as it can.
//!
//! After each part, the rows of the server must be those that were generated, each once.

mod devices;
pub mod ingest;
pub mod rows;
mod server;
mod side;

pub use devices::{Devices, run as run_devices};
pub use server::{Adopting, run as run_server};
pub use side::{DEVICES, SERVER, bucket};

use crate::soak::Test;
use devices::Shipped;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::driver::{Limit, Worker, drive};
use fleetdb_bench_core::experiment::Size;
use fleetdb_bench_core::results::{Figure, Phase};
use fleetdb_bench_core::target::Tier;
use serde::Serialize;
use server::Adopted;
use side::{Place, Side};

const MB: f64 = 1e6;
/// The goal for the memory of the device that is offline: what `Settings::edge` promises.
const OFFLINE_MB: f64 = 64.0 * 1.048_576;

/// The size of the experiment.
#[derive(clap::Args, Clone, Serialize)]
pub struct Scale {
    /// Number of vehicles
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=2_000))]
    vehicles: u64,
    /// Hours of rows of each vehicle, one row each ten seconds
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    hours: u64,
    /// Hours between two shipments of a vehicle
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    ship_hours: u64,
    /// How often the processes are killed
    #[arg(long, default_value_t = 20)]
    kills: u64,
    /// Days without a connection
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=30))]
    offline_days: u64,
    /// Rows of each ingest that is compared, in millions
    #[arg(long, default_value_t = 5.0)]
    ingest_millions: f64,
}

/// What both sides have done.
struct Sums {
    rows: u64,
    devices: Shipped,
    adopted: Adopted,
    /// Bytes of segments and manifests in the bucket: nothing has been removed yet.
    sent_bytes: u64,
}

/// Lets vehicles write and ship until they have all rows, and the server adopt.
struct Part {
    /// The vehicles and the server.
    sides: (Side, Side),
    hosts: u64,
    hours: u64,
    ship_hours: u64,
    kills: Kills,
    /// How many hours are done.
    hour: u64,
}

/// When a process is killed: at random moments of its work.
struct Kills {
    left: u64,
    random: u64,
}

impl Kills {
    /// A moment to kill the process that works now, in microseconds; `None` to leave it alone.
    fn next(&mut self, steps_left: u64) -> Option<u64> {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = self.random >> 33;
        let is_due = self.left > 0 && drawn % steps_left.max(1) < self.left;
        is_due.then(|| {
            self.left -= 1;
            (drawn >> 8) % 300_000
        })
    }
}

/// Runs the experiment.
pub fn run(test: &mut Test<'_>, scale: &Scale) -> Outcome<()> {
    let settings = [
        "vehicles: Settings::edge(), a commit for each ten minutes".to_owned(),
        format!("a shipment each {} hours", scale.ship_hours),
        "server: Settings::default()".to_owned(),
        "bucket: a directory".to_owned(),
    ];
    test.describe(Tier::T3, &settings);
    let (seed, vehicles) = (test.seed, scale.vehicles);
    let shipped = part(test, "shipped", vehicles, (scale.hours, scale.ship_hours), Kills { left: 0, random: seed })?;
    if test.is_stopped() {
        return Ok(());
    }
    let for_each = |what: f64| what / shipped.rows as f64;
    let at_rest = shipped.devices.segment_bytes as f64;
    let figures = [
        Figure::new("bytes sent a row", "bytes", for_each(shipped.sent_bytes as f64)),
        Figure::new("bytes of a row in the vehicles' segments", "bytes", for_each(at_rest)),
        Figure::new("bytes sent for a byte of these segments", "", shipped.sent_bytes as f64 / at_rest).at_most(1.3),
        Figure::new("vehicle: processor time a row, generating and writing", "us", for_each(shipped.devices.write_us)),
        Figure::new("vehicle: processor time a row, shipping", "us", for_each(shipped.devices.ship_us)),
        Figure::new("server: processor time a row", "us", for_each(shipped.adopted.processor_us)),
        Figure::new("server: peak memory", "MB", shipped.adopted.peak_bytes as f64 / MB),
        Figure::new("bytes of a row at the server", "bytes", for_each(shipped.adopted.segment_bytes as f64)),
    ];
    figures.into_iter().for_each(|figure| test.figure(figure));
    let hours = scale.hours.min(6);
    part(test, "killed", vehicles, (hours, 1), Kills { left: scale.kills, random: seed })?;
    if test.is_stopped() {
        return Ok(());
    }
    // Ten hosts in one vehicle: a row each second.
    let days = scale.offline_days;
    let offline = part(test, "offline", 10, (24 * days, 24 * days), Kills { left: 0, random: seed })?;
    if test.is_stopped() {
        return Ok(());
    }
    let peak = offline.devices.peak_bytes as f64 / MB;
    test.figure(
        Figure::new(&format!("peak memory of a vehicle that is offline for {days} days"), "MB", peak)
            .at_most(OFFLINE_MB),
    );
    let ratio = offline.sent_bytes as f64 / offline.devices.segment_bytes as f64;
    test.figure(Figure::new("bytes it sends for a byte of its segments", "", ratio).at_most(1.3));
    ingest::run(test, (scale.ingest_millions * 1e6) as u64)
}

/// Runs one part and records it as a phase; an operation is a shipment and the adoption of its
/// rows.
fn part(test: &mut Test<'_>, name: &str, hosts: u64, (hours, ship_hours): (u64, u64), kills: Kills) -> Outcome<Sums> {
    let devices = if name == "offline" { 1 } else { hosts };
    let place = Place::new(test.directory, name, test.seed, (hosts, devices))?;
    test.progress.announce(name, Size::Operations(hours.div_ceil(ship_hours)));
    let sides = (Side::start(DEVICES, &place)?, Side::start(SERVER, &place)?);
    let mut part = Part { sides, hosts, hours, ship_hours, kills, hour: 0 };
    let driven = drive(std::slice::from_mut(&mut part), Limit::default(), test.watch)?;
    let (mut devices, mut server) = part.sides;
    let (shipped, adopted): (Shipped, Adopted) = (devices.finish()?, server.finish()?);
    let rows = hosts * hours * rows::ROWS_AN_HOUR;
    let mut phase =
        Phase { name: name.to_owned(), operation: "write, ship and adopt".to_owned(), driven, ..Phase::default() };
    if !test.is_stopped() {
        phase.wrong = rows::difference(&place, rows)?;
        phase.verified = 1;
    }
    test.run.phases.push(phase);
    let sent_bytes = place.sent_bytes()?;
    std::fs::remove_dir_all(place.directory())?;
    Ok(Sums { rows, devices: shipped, adopted, sent_bytes })
}

impl Worker for Part {
    fn prepare(&mut self) -> Outcome<bool> {
        Ok(self.hour < self.hours)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let until = (self.hour + self.ship_hours).min(self.hours);
        let steps_left = 2 * (self.hours - self.hour).div_ceil(self.ship_hours);
        let (devices, server) = &mut self.sides;
        let kills = &mut self.kills;
        devices.ask(&format!("write {until}"), || kills.next(steps_left))?;
        server.ask("adopt", || kills.next(steps_left))?;
        let rows = (until - self.hour) * self.hosts * rows::ROWS_AN_HOUR;
        self.hour = until;
        Ok(rows)
    }
}
