//! Databases in a bucket: backed up and shipped to it, restored and read from it.

use crate::backup::show_restored;
use crate::cluster::ClusterOptions;
use crate::progress::{counted, thousands, with_bytes_bar};
use crate::stdout::print_line;
use crate::{close, is_bucket, open, refuse_bucket};
use chrono::{DateTime, SecondsFormat, Utc};
use fleetdb_cluster::IntervalThread;
use fleetdb_cluster::adoption::Adopter;
use fleetdb_cluster::bucket::Bucket;
use fleetdb_cluster::shipped::{self, DiskCache, HISTORY, Moment, ShippedDatabase, Shipper};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Database, Error, Result};
use fleetdb_server::{Config, Server, Size};
use serde::Deserialize;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The shortest interval in milliseconds.
const MIN_INTERVAL_MS: u64 = 100;
/// The interval in milliseconds, unless another is given.
const INTERVAL_MS: u64 = 60_000;
/// The size of the cache on disk, unless another is given.
const DISK_CACHE_BYTES: u64 = 10 << 30;

/// What a served database has to do with buckets: options of the server, also in the configuration file.
#[derive(clap::Args, Default, Deserialize)]
pub struct BucketOptions {
    /// Bucket to which the database is shipped while it is served, s3://BUCKET/PREFIX [default: none]
    #[arg(long, env = "FLEETDB_SHIP", value_name = "URL")]
    ship: Option<String>,
    /// Bucket to which new rows are sent for a server that adopts them, s3://BUCKET/DEVICES/DEVICE
    /// [default: none]
    #[arg(long, env = "FLEETDB_OUTBOX", value_name = "URL")]
    outbox: Option<String>,
    /// Time between two shipments in milliseconds, at least 100 [default: 60000; with cluster 10000]
    #[arg(long, env = "FLEETDB_SHIP_INTERVAL_MS")]
    ship_interval_ms: Option<u64>,
    /// Maximum bandwidth of shipping in bytes per second: 10MB, or bytes [default: no limit]
    #[arg(long, env = "FLEETDB_SHIP_BANDWIDTH")]
    ship_bandwidth: Option<Size>,
    /// With ship: also publish the tables as Delta tables, for other programs [default: false]
    #[arg(long, env = "FLEETDB_SHIP_DELTA", num_args = 0..=1, default_missing_value = "true")]
    ship_delta: Option<bool>,
    /// Bucket with the outboxes of devices, whose rows are adopted, s3://BUCKET/DEVICES [default: none]
    #[arg(long, env = "FLEETDB_ADOPT", value_name = "URL")]
    adopt: Option<String>,
    /// Time between two looks at the outboxes in milliseconds, at least 100 [default: 60000]
    #[arg(long, env = "FLEETDB_ADOPT_INTERVAL_MS")]
    adopt_interval_ms: Option<u64>,
    /// Directory that keeps what is read from a bucket with read_only [default: none]
    #[arg(long, env = "FLEETDB_DISK_CACHE")]
    disk_cache: Option<PathBuf>,
    /// Size of that directory: 100GiB, or bytes [default: 10GiB]
    #[arg(long, env = "FLEETDB_DISK_CACHE_BYTES")]
    disk_cache_bytes: Option<Size>,
    #[command(flatten)]
    #[serde(flatten)]
    cluster: ClusterOptions,
}

/// Where a database is shipped, and how.
struct Target {
    bucket: Bucket,
    is_outbox: bool,
    interval: Duration,
    bandwidth: Option<NonZeroU64>,
}

impl BucketOptions {
    /// The keys in the configuration file.
    pub const KEYS: [&str; 12] = [
        "ship",
        "outbox",
        "ship_interval_ms",
        "ship_bandwidth",
        "ship_delta",
        "adopt",
        "adopt_interval_ms",
        "disk_cache",
        "disk_cache_bytes",
        "cluster",
        "takeover_after_ms",
        "advertise",
    ];

    /// These options, with those that are not given taken from `others`.
    pub fn or(self, others: Self) -> Self {
        Self {
            ship: self.ship.or(others.ship),
            outbox: self.outbox.or(others.outbox),
            ship_interval_ms: self.ship_interval_ms.or(others.ship_interval_ms),
            ship_bandwidth: self.ship_bandwidth.or(others.ship_bandwidth),
            ship_delta: self.ship_delta.or(others.ship_delta),
            adopt: self.adopt.or(others.adopt),
            adopt_interval_ms: self.adopt_interval_ms.or(others.adopt_interval_ms),
            disk_cache: self.disk_cache.or(others.disk_cache),
            disk_cache_bytes: self.disk_cache_bytes.or(others.disk_cache_bytes),
            cluster: self.cluster.or(others.cluster),
        }
    }

    fn target(&self) -> Result<Option<Target>> {
        let interval = interval("ship_interval_ms", self.ship_interval_ms)?;
        let of_size = |Size(bytes): Size| {
            NonZeroU64::new(bytes as u64)
                .ok_or_else(|| Error::invalid("option ship_bandwidth is 0, but must be at least 1 byte"))
        };
        let bandwidth = self.ship_bandwidth.map(of_size).transpose()?;
        let (url, is_outbox) = match (&self.ship, &self.outbox) {
            (None, None) => return Ok(None),
            (Some(url), None) => (url, false),
            (None, Some(url)) => (url, true),
            (Some(_), Some(_)) => return Err(Error::invalid("give option ship or option outbox, not both")),
        };
        Ok(Some(Target { bucket: Bucket::open(url)?, is_outbox, interval, bandwidth }))
    }

    fn adopted(&self) -> Result<Option<(Bucket, Duration)>> {
        let interval = interval("adopt_interval_ms", self.adopt_interval_ms)?;
        self.adopt.as_ref().map(|url| Ok((Bucket::open(url)?, interval))).transpose()
    }

    /// What a served database is read from, if it is in a bucket.
    pub fn io(&self, data: &Path) -> Result<Option<Io>> {
        let Some(url) = url(data) else { return Ok(None) };
        let shipped = newest(url)?;
        if let Some(directory) = &self.disk_cache {
            let limit_bytes = self.disk_cache_bytes.map_or(DISK_CACHE_BYTES, |Size(bytes)| bytes as u64);
            shipped.use_cache(DiskCache::open(directory, shipped.url(), limit_bytes)?);
        }
        Ok(Some(shipped.io()))
    }

    /// Checks whether the options fit together, and fit a server of this configuration.
    pub fn validate(&self, config: &Config) -> Result<()> {
        let (target, adopted) = (self.target()?, self.adopted()?);
        if config.read_only && (target.is_some() || adopted.is_some()) {
            return Err(Error::invalid("option read_only excludes ship, outbox and adopt"));
        }
        if !config.read_only {
            refuse_bucket(&config.data)?;
        }
        let is_outbox = target.as_ref().is_some_and(|target| target.is_outbox);
        if let (Some(Target { bucket, is_outbox: true, .. }), Some((devices, _))) = (&target, &adopted)
            && bucket.url().starts_with(&format!("{}/", devices.url()))
        {
            return Err(Error::invalid(
                "the outbox is below the prefix of option adopt: the server would adopt itself",
            ));
        }
        self.cluster.validate(config)?;
        let is_node = self.is_node();
        if is_node && (target.is_some() || adopted.is_some()) {
            return Err(Error::invalid("option cluster excludes ship, outbox and adopt"));
        }
        let ships = target.is_some();
        let needs = [
            ("ship_interval_ms", self.ship_interval_ms.is_some(), ships || is_node, "ship, outbox or cluster"),
            ("ship_bandwidth", self.ship_bandwidth.is_some(), ships, "ship or outbox"),
            ("ship_delta", self.ship_delta == Some(true), ships && !is_outbox, "ship"),
            ("adopt_interval_ms", self.adopt_interval_ms.is_some(), adopted.is_some(), "adopt"),
            ("disk_cache", self.disk_cache.is_some(), url(&config.data).is_some(), "a bucket as data"),
            ("disk_cache_bytes", self.disk_cache_bytes.is_some(), self.disk_cache.is_some(), "disk_cache"),
        ];
        match needs.iter().find(|(_, is_given, has_use, _)| *is_given && !has_use) {
            Some((option, _, _, other)) => {
                Err(Error::invalid(format!("option {option} has no effect without {other}")))
            }
            None => Ok(()),
        }
    }

    /// Whether the server is a node of a cluster.
    pub fn is_node(&self) -> bool {
        self.cluster.is_node()
    }

    /// Runs the node of a cluster until the process is told to stop.
    pub fn run_node(&self, config: &Config) -> Result<()> {
        self.cluster.run(config, self.ship_interval_ms.map(Duration::from_millis))
    }

    /// Shows the URLs.
    pub fn show(&self, config: &Config) -> Result<()> {
        self.cluster.show(config);
        if let Some(target) = self.target()? {
            print_line!("{:<10} {}", if target.is_outbox { "outbox" } else { "ship" }, target.bucket.url());
        }
        if let Some((bucket, _)) = self.adopted()? {
            print_line!("{:<10} {}", "adopt", bucket.url());
        }
        Ok(())
    }

    /// Starts what is wanted. What it gives must be dropped before the server is stopped, which closes
    /// the database only if nobody else has it.
    pub fn start(&self, server: &Server, data: &Path) -> Result<Vec<IntervalThread>> {
        let mut threads = Vec::new();
        if let Some(Target { bucket, is_outbox, interval, bandwidth }) = self.target()? {
            let io = Io::files(data);
            let shipper = if is_outbox { Shipper::outbox(&bucket, io)? } else { Shipper::new(bucket, io)? };
            let shipper = if self.ship_delta == Some(true) { shipper.with_delta() } else { shipper };
            threads.push(shipper.with_bandwidth(bandwidth).at_intervals(server.database(), interval)?);
        }
        if let Some((bucket, interval)) = self.adopted()? {
            threads.push(Adopter::new(bucket)?.at_intervals(server.database(), interval)?);
        }
        Ok(threads)
    }
}

fn interval(option: &str, given_ms: Option<u64>) -> Result<Duration> {
    at_least(option, given_ms.unwrap_or(INTERVAL_MS), MIN_INTERVAL_MS)
}

/// The time that an option gives in milliseconds.
pub fn at_least(option: &str, ms: u64, least_ms: u64) -> Result<Duration> {
    match ms < least_ms {
        true => Err(Error::invalid(format!("option {option} is {ms}, but must be at least {least_ms}"))),
        false => Ok(Duration::from_millis(ms)),
    }
}

/// The URL that a place is, if it is the URL of a bucket.
pub fn url(place: &Path) -> Option<&str> {
    place.to_str().filter(|_| is_bucket(place))
}

/// What the newest manifest of a bucket is read from.
pub fn io(url: &str) -> Result<Io> {
    Ok(newest(url)?.io())
}

fn newest(url: &str) -> Result<ShippedDatabase> {
    ShippedDatabase::open(Bucket::open(url)?, &Moment::Newest)
}

pub fn backup(data: &Path, url: &str, pin: Option<&str>, delta: bool) -> Result<()> {
    let bucket = Bucket::open(url)?;
    let db = open(data, false)?;
    let outcome = ship(&db, data, &bucket, pin, delta);
    close(db)?;
    outcome
}

fn ship(db: &Database, data: &Path, bucket: &Bucket, pin: Option<&str>, delta: bool) -> Result<()> {
    db.flush()?;
    let shipper = Shipper::new(bucket.clone(), Io::files(data))?;
    let mut shipper = if delta { shipper.with_delta() } else { shipper };
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
    shipment.delta_error.map_or(Ok(()), |error| Err(error.context("everything was backed up, but the Delta tables")))
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
