//! `fleetdb serve --cluster`: a server that another one replaces if its machine is lost.

use crate::shipped::at_least;
use crate::stdout::print_line;
use fleetdb_cluster::Told;
use fleetdb_cluster::bucket::Bucket;
use fleetdb_cluster::failover::{Claim, Node, NodeOptions, Owner, Ownership};
use fleetdb_cluster::shipped::{Moment, ShippedDatabase};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Code, Database, Error, ErrorKind, Result};
use fleetdb_server::{Config, OwnerUrl, Server, StopSignal};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The shortest time after which others take over.
const MIN_TAKEOVER_AFTER_MS: u64 = 500;
/// The time after which others take over, unless another is given.
const TAKEOVER_AFTER_MS: u64 = 5_000;
/// Time between two manifests, unless another is given.
const SHIP_INTERVAL: Duration = Duration::from_secs(10);
/// How many times a node that stands by looks at the owner before it would take over.
const LOOKS: u32 = 20;
/// How often such a node copies new segments.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(2);
/// Time that reads have to finish on a node that takes over.
const STANDBY_STOP_LIMIT: Duration = Duration::from_millis(500);
/// Time before the bucket is tried again when the node starts.
const LONG_RETRY: Duration = Duration::from_secs(5);

/// Options of a node of a cluster, also in the configuration file.
#[derive(clap::Args, Default, Deserialize)]
pub struct ClusterOptions {
    /// Bucket that has the log of the database, so that another node goes on with it if this one is
    /// lost, s3://BUCKET/PREFIX [default: none]
    #[arg(long, env = "FLEETDB_CLUSTER", value_name = "URL")]
    cluster: Option<String>,
    /// Time in milliseconds without a renewal by the owner after which another node takes over, the
    /// same on all nodes, at least 500 [default: 5000]
    #[arg(long, env = "FLEETDB_TAKEOVER_AFTER_MS")]
    takeover_after_ms: Option<u64>,
    /// Host name or address under which clients reach this node [default: that of each listener,
    /// unless it is 0.0.0.0 or of this machine only]
    #[arg(long, env = "FLEETDB_ADVERTISE", value_name = "HOST")]
    advertise: Option<String>,
}

impl ClusterOptions {
    /// These options, with those that are not given taken from `others`.
    pub fn or(self, others: Self) -> Self {
        Self {
            cluster: self.cluster.or(others.cluster),
            takeover_after_ms: self.takeover_after_ms.or(others.takeover_after_ms),
            advertise: self.advertise.or(others.advertise),
        }
    }

    /// Whether the server is a node of a cluster.
    pub fn is_node(&self) -> bool {
        self.cluster.is_some()
    }

    fn takeover_after(&self) -> Result<Duration> {
        let ms = self.takeover_after_ms.unwrap_or(TAKEOVER_AFTER_MS);
        at_least("takeover_after_ms", ms, MIN_TAKEOVER_AFTER_MS)
    }

    /// Checks whether the options fit together, and fit a server of this configuration.
    pub fn validate(&self, config: &Config) -> Result<()> {
        self.takeover_after()?;
        match &self.cluster {
            Some(_) if config.read_only => Err(Error::invalid(
                "option read_only excludes cluster: to read a cluster, serve s3://BUCKET/PREFIX/p/00 with read_only",
            )),
            Some(url) => Bucket::open(url).map(|_| ()),
            None if self.takeover_after_ms.is_some() => {
                Err(Error::invalid("option takeover_after_ms has no effect without cluster"))
            }
            None if self.advertise.is_some() => Err(Error::invalid("option advertise has no effect without cluster")),
            None => Ok(()),
        }
    }

    /// Where clients find the listeners of this node, by protocol.
    fn addresses(&self, config: &Config) -> BTreeMap<String, String> {
        let known = config.listeners().filter_map(|(name, address)| match &self.advertise {
            Some(host) => Some((name.to_owned(), format!("{host}:{}", address.port()))),
            // Elsewhere, these are other machines.
            None => (!address.ip().is_unspecified() && !address.ip().is_loopback())
                .then(|| (name.to_owned(), address.to_string())),
        });
        known.collect()
    }

    /// Shows the URL, and where clients find this node.
    pub fn show(&self, config: &Config) {
        if let Some(url) = &self.cluster {
            print_line!("{:<10} {url}", "cluster");
            for (name, address) in self.addresses(config) {
                print_line!("{:<10} {name} at {address}", "advertise");
            }
        }
    }

    /// Runs the node until the process is told to stop.
    pub fn run(&self, config: &Config, ship_interval: Option<Duration>) -> Result<()> {
        let Some(url) = &self.cluster else { return Ok(()) };
        let bucket = Bucket::open(url)?;
        let mut stop = StopSignal::new()?;
        let options = NodeOptions {
            takeover_after: self.takeover_after()?,
            ship_interval: ship_interval.unwrap_or(SHIP_INTERVAL),
            addresses: self.addresses(config),
        };
        let looks = options.takeover_after / LOOKS;
        check(config)?;
        let open = || Node::open(&bucket, Io::files(&config.data), options.clone());
        let mut node = loop {
            match open() {
                Ok(node) => break node,
                Err(error) if error.code() == Code::Busy => {
                    tracing::warn!("could not reach the bucket, and tries again: {error}");
                    if stop.wait_or(tokio::time::sleep(LONG_RETRY)).is_none() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        };
        loop {
            let Some((claim, standing_by)) = stand_by(node, config, &bucket, looks, &mut stop)? else { return Ok(()) };
            node = standing_by;
            let give_up = claim.give_up();
            match serve(&mut node, claim, config, &mut stop) {
                Ok(Ended::Stopped) => return Ok(()),
                Ok(Ended::Fenced(error)) => tracing::warn!("{error}"),
                Err(error) => {
                    // Another node may be able to.
                    give_up.now();
                    if !may_end(&error) {
                        return Err(error);
                    }
                    tracing::warn!("could not take over, and leaves it to others for a while: {error}");
                    node.decline();
                }
            }
        }
    }
}

/// Finds what would keep the server from starting, before the node claims anything.
fn check(config: &Config) -> Result<()> {
    config.check()?;
    for (name, address) in config.listeners().filter(|(name, _)| *name != "line_udp") {
        TcpListener::bind(address)
            .map_err(|e| Error::io(format_args!("could not listen on {address} (option {name})"), &e))?;
    }
    Ok(())
}

/// Whether the reason of an error may end while the node runs. A store also refuses keys for a while, or
/// because the clock of this machine is wrong.
fn may_end(error: &Error) -> bool {
    error.kind() == ErrorKind::Retry || matches!(error.code(), Code::Conflict | Code::Denied)
}

/// Why a node no longer serves.
enum Ended {
    Stopped,
    Fenced(Error),
}

/// Answers reads from the newest manifest until the node has claimed the database; `None` if the
/// process is told to stop.
fn stand_by(
    node: Node,
    config: &Config,
    bucket: &Bucket,
    looks: Duration,
    stop: &mut StopSignal,
) -> Result<Option<(Claim, Node)>> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let owner = OwnerUrl::default();
    let (stopped, seen) = (Arc::clone(&is_stopped), owner.clone());
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let (send, mut claimed) = oneshot::channel();
    let watching = std::thread::Builder::new()
        .name("fleetdb-standby".to_owned())
        .spawn(move || {
            let see = |owner: Option<&Owner>| {
                let address = owner.and_then(|owner| owner.addresses.get("http"));
                seen.set(address.map(|address| format!("{scheme}://{address}")));
            };
            send.send(watch(node, looks, &stopped, see)).ok();
        })
        .map_err(|e| Error::io("could not start the thread that watches the owner", &e))?;
    // If nobody owns the database, a claim takes no time, and there need be no server.
    let (mut server, mut wait) = (None, looks);
    let outcome = loop {
        match stop.wait_or(async { tokio::time::timeout(wait, &mut claimed).await }) {
            Some(Err(_)) => {
                if server.is_none() {
                    server = standby_server(config, bucket, owner.clone())?;
                }
                // There may be a manifest later.
                wait = if server.is_some() { Duration::MAX } else { FOLLOW_INTERVAL };
            }
            ended => {
                server.map_or(Ok(()), Server::stop)?;
                break ended.and_then(std::result::Result::ok);
            }
        }
    };
    is_stopped.store(true, Ordering::Relaxed);
    let outcome = outcome.map(|claimed| claimed.map_err(|_| Error::bug("the thread that watches the owner ended")));
    if outcome.is_some() {
        watching.join().ok();
    }
    // A node that stops does not wait for requests to the bucket.
    outcome.transpose()?.transpose()
}

/// A server that only reads, if there is something to read.
fn standby_server(config: &Config, bucket: &Bucket, owner: OwnerUrl) -> Result<Option<Server>> {
    let stop_timeout = config.stop_timeout.min(STANDBY_STOP_LIMIT);
    let config = Config { read_only: true, owner: Some(owner), stop_timeout, ..config.clone() };
    match ShippedDatabase::open(Node::readers_bucket(bucket), &Moment::Newest) {
        Ok(shipped) => match Server::start_on(config, shipped.io()) {
            Ok(server) => {
                tracing::info!("stands by, and answers reads from the newest manifest");
                Ok(Some(server))
            }
            Err(error) if error.kind() == ErrorKind::Retry => Ok(None),
            Err(error) => Err(error),
        },
        Err(error) => {
            tracing::debug!("stands by, and answers nothing yet: {error}");
            Ok(None)
        }
    }
}

/// Looks at the owner again and again, until the node has claimed the database.
fn watch(
    mut node: Node,
    every: Duration,
    is_stopped: &AtomicBool,
    see: impl Fn(Option<&Owner>),
) -> Result<(Claim, Node)> {
    let (mut told, mut followed) = (Told::default(), None::<Instant>);
    loop {
        let claimed = node.try_claim();
        see(node.last_owner());
        let outcome = match claimed {
            Ok(Some(claim)) => return Ok((claim, node)),
            Ok(None) if followed.is_none_or(|at| at.elapsed() >= FOLLOW_INTERVAL) => {
                followed = Some(Instant::now());
                node.follow()
            }
            looked => looked.map(|_| ()),
        };
        match outcome {
            Ok(()) => {
                told.ended();
            }
            Err(error) if may_end(&error) => {
                told.failed("could not watch the owner", error);
            }
            Err(error) => return Err(error),
        }
        if is_stopped.load(Ordering::Relaxed) {
            return Err(Error::closed("the node was told to stop"));
        }
        std::thread::sleep(every);
    }
}

/// Takes over, and serves until the process is told to stop or another node takes over.
fn serve(node: &mut Node, claim: Claim, config: &Config, stop: &mut StopSignal) -> Result<Ended> {
    let begun = Instant::now();
    let taken = node.take_over(claim)?;
    let epoch = taken.epoch();
    let db = Arc::new(Database::open_with(Io::files(&config.data), config.settings.clone())?);
    let (send, fenced) = oneshot::channel();
    let ended = move |error| drop(send.send(error));
    let ownership = Ownership::start(node, taken, &db, ended)?;
    let server = Server::start_with(config.clone(), db)?;
    tracing::info!(epoch, "owns the database after {} ms", begun.elapsed().as_millis());
    match stop.wait_or(fenced) {
        None => {
            server.stop_after(|db| ownership.release(db))?;
            Ok(Ended::Stopped)
        }
        Some(error) => {
            drop(ownership);
            // What the log still has here is given up: another node has gone on.
            server.stop().ok();
            Ok(Ended::Fenced(error.unwrap_or_else(|_| Error::bug("the threads of the owner ended"))))
        }
    }
}
