//! Databases in a bucket: backed up and shipped to it, restored and read from it.

use crate::backup::show_restored;
use crate::progress::{counted, thousands, with_bytes_bar};
use crate::stdout::print_line;
use crate::{close, is_bucket, open};
use chrono::{DateTime, SecondsFormat, Utc};
use fleetdb_cluster::bucket::Bucket;
use fleetdb_cluster::shipped::{self, HISTORY, Moment, ShippedDatabase, Shipper, ShippingThread};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Database, Error, Result};
use fleetdb_server::{Server, Size};
use serde::Deserialize;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

/// The shortest time between two shipments in milliseconds.
const MIN_INTERVAL_MS: u64 = 100;

/// Where a served database is shipped: options of the server, also in the configuration file.
#[derive(clap::Args, Default, Deserialize)]
pub struct Ship {
    /// Bucket to which the database is shipped while it is served, s3://BUCKET/PREFIX [default: none]
    #[arg(long, env = "FLEETDB_SHIP", value_name = "URL")]
    ship: Option<String>,
    /// Time between two shipments in milliseconds, at least 100 [default: 60000]
    #[arg(long, env = "FLEETDB_SHIP_INTERVAL_MS")]
    ship_interval_ms: Option<u64>,
    /// Maximum bandwidth of shipping in bytes per second: 10MB, or bytes [default: no limit]
    #[arg(long, env = "FLEETDB_SHIP_BANDWIDTH")]
    ship_bandwidth: Option<Size>,
}

impl Ship {
    /// The keys in the configuration file.
    pub const KEYS: [&str; 3] = ["ship", "ship_interval_ms", "ship_bandwidth"];

    /// These options, with those that are not given taken from `others`.
    pub fn or(self, others: Self) -> Self {
        Self {
            ship: self.ship.or(others.ship),
            ship_interval_ms: self.ship_interval_ms.or(others.ship_interval_ms),
            ship_bandwidth: self.ship_bandwidth.or(others.ship_bandwidth),
        }
    }

    /// The bucket and how it is shipped to; `None` if the database is not shipped.
    fn wanted(&self) -> Result<Option<(Bucket, Duration, Option<NonZeroU64>)>> {
        let interval_ms = self.ship_interval_ms.unwrap_or(60_000);
        if interval_ms < MIN_INTERVAL_MS {
            return Err(Error::invalid(format!(
                "option ship_interval_ms is {interval_ms}, but must be at least {MIN_INTERVAL_MS}"
            )));
        }
        let of_size = |Size(bytes): Size| {
            NonZeroU64::new(bytes as u64)
                .ok_or_else(|| Error::invalid("option ship_bandwidth is 0, but must be at least 1 byte"))
        };
        let bandwidth = self.ship_bandwidth.map(of_size).transpose()?;
        let Some(url) = &self.ship else { return Ok(None) };
        Ok(Some((Bucket::open(url)?, Duration::from_millis(interval_ms), bandwidth)))
    }

    /// Checks the options, and shows the URL.
    pub fn check(&self) -> Result<()> {
        if let Some((bucket, ..)) = self.wanted()? {
            print_line!("{:<10} {}", "ship", bucket.url());
        }
        Ok(())
    }

    /// Starts to ship, if that is wanted. What it gives must be dropped before the server is stopped,
    /// which closes the database only if nobody else has it.
    pub fn start(&self, server: &Server, data: &Path) -> Result<Option<ShippingThread>> {
        let Some((bucket, interval, bandwidth)) = self.wanted()? else { return Ok(None) };
        let shipper = Shipper::new(bucket, Io::files(data))?.with_bandwidth(bandwidth);
        ShippingThread::start(server.database(), shipper, interval).map(Some)
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
