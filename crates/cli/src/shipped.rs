//! Databases in a bucket: backed up and shipped to it, restored and read from it.

use crate::backup::show_restored;
use crate::progress::{counted, thousands, with_bytes_bar};
use crate::stdout::print_line;
use crate::{close, is_bucket, open};
use chrono::{DateTime, SecondsFormat, Utc};
use fleetdb_cluster::bucket::Bucket;
use fleetdb_cluster::shipped::{self, HISTORY, Moment, ShippedDatabase, Shipper, ShippingThread};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Database, Result};
use fleetdb_server::Server;
use std::path::Path;
use std::time::Duration;

/// Where a served database is shipped. These options cannot stand in the configuration file.
#[derive(clap::Args)]
pub struct Ship {
    /// Bucket to which the database is shipped while it is served, s3://BUCKET/PREFIX [default: none]
    #[arg(long, env = "FLEETDB_SHIP", value_name = "URL")]
    ship: Option<String>,
    /// Time between two shipments in milliseconds
    #[arg(long, env = "FLEETDB_SHIP_INTERVAL_MS", default_value_t = 60_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=86_400_000))]
    ship_interval_ms: u64,
}

impl Ship {
    /// Checks the URL, and shows it.
    pub fn check(&self) -> Result<()> {
        if let Some(url) = &self.ship {
            print_line!("{:<10} {}", "ship", Bucket::open(url)?.url());
        }
        Ok(())
    }

    /// Starts to ship, if that is wanted. What it gives must be dropped before the server is stopped,
    /// which closes the database only if nobody else has it.
    pub fn start(&self, server: &Server, data: &Path) -> Result<Option<ShippingThread>> {
        let start = |url: &String| {
            let interval = Duration::from_millis(self.ship_interval_ms);
            ShippingThread::start(server.database(), Bucket::open(url)?, Io::files(data), interval)
        };
        self.ship.as_ref().map(start).transpose()
    }
}

/// The URL that a place is, if it is the URL of a bucket.
pub fn url(place: &Path) -> Option<&str> {
    place.to_str().filter(|_| is_bucket(place))
}

/// What the newest manifest of a bucket is read from.
pub fn io(url: &str) -> Result<Io> {
    Ok(ShippedDatabase::open(Bucket::open(url)?, &Moment::Newest)?.io())
}

pub fn backup(data: &Path, url: &str, pin: Option<&str>) -> Result<()> {
    let bucket = Bucket::open(url)?;
    let db = open(data, false)?;
    let outcome = ship(&db, data, &bucket, pin);
    close(db)?;
    outcome
}

fn ship(db: &Database, data: &Path, bucket: &Bucket, pin: Option<&str>) -> Result<()> {
    db.flush()?;
    let mut shipper = Shipper::new(bucket.clone(), Io::files(data))?;
    let shipment = with_bytes_bar("backing up", |progress| shipper.ship(db, progress))?;
    if let Some(name) = pin {
        shipped::pin(bucket, name, shipment.number)?;
    }
    let garbage = shipped::collect_garbage(bucket, HISTORY)?;
    print_line!(
        "{}, {} in {}, manifest {}: {} bytes sent",
        counted(shipment.segments as u64, "segment"),
        counted(shipment.bytes, "byte"),
        bucket.url(),
        shipment.number,
        thousands(shipment.sent_bytes)
    );
    if garbage.manifests > 0 {
        print_line!(
            "{} removed, with {} ({})",
            counted(garbage.manifests as u64, "old manifest"),
            counted(garbage.segments as u64, "segment"),
            counted(garbage.bytes, "byte")
        );
    }
    Ok(())
}

pub fn restore(url: &str, moment: &Moment, data: &Path) -> Result<()> {
    let shipped = ShippedDatabase::open(Bucket::open(url)?, moment)?;
    let (report, checked) = with_bytes_bar("restoring", |progress| shipped.restore(&Io::files(data), progress))?;
    show_restored(&report, &checked, data);
    Ok(())
}

/// Shows the manifests of a bucket.
pub fn list(url: &str) -> Result<()> {
    print_line!("{:>10}  {:<20}  pins", "manifest", "written");
    for entry in shipped::manifests(&Bucket::open(url)?)? {
        let written = DateTime::<Utc>::from(entry.written).to_rfc3339_opts(SecondsFormat::Secs, true);
        print_line!("{:>10}  {written:<20}  {}", entry.number, entry.pins.join(", "));
    }
    Ok(())
}
