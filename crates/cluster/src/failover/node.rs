//! A node of a cluster: it stands by until it owns the database, and then keeps the bucket up to
//! date.

use super::PARTITION;
use super::appender::Appender;
use super::copied::{Copied, Covered};
use super::covering::Covering;
use super::lease::Lease;
use super::owner::{self, Changed, Owner, OwnerObject};
use super::record::Record;
use super::takeover::{FoundLog, close_logs, fence};
use crate::bucket::Bucket;
use crate::intervals::IntervalThread;
use crate::lock;
use crate::requests::{Requests, Stop};
use crate::shipped::{self, MANIFESTS, Newest, holding, is_elsewhere, read_newest_after};
use fleetdb_engine::backup::rebuild;
use fleetdb_engine::inspect::{State, find_manifest, wal_file};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Code, Database, Durability, Error, Generation, LogCopy, Result, Sequence};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How many times an owner renews its claim before others would take over.
const RENEWALS: u32 = 5;
/// For how many times the time of a takeover a node claims nothing after it has failed to take
/// over.
const DECLINED: u32 = 3;
/// How often waiting batches are looked at.
const EXPIRY_LOOK: Duration = Duration::from_millis(500);
/// How often it is looked whether a manifest is due.
const COVERING_LOOK: Duration = Duration::from_millis(100);
/// How long giving up waits for the bucket, and how often it looks.
const RELEASE_LIMIT: Duration = Duration::from_secs(10);
const RELEASE_LOOK: Duration = Duration::from_millis(5);

/// How a node behaves.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Time without a renewal after which others take over. The same on all nodes: reads rely on
    /// it.
    pub takeover_after: Duration,
    /// Time between two manifests.
    pub ship_interval: Duration,
    /// Where clients find this node, by protocol.
    pub addresses: BTreeMap<String, String>,
}

/// A node that does not own the database, or not yet.
pub struct Node {
    requests: Requests,
    io: Io,
    record: Record,
    options: NodeOptions,
    /// The owner as it was seen last, and since when it is the same.
    seen: Option<(Owner, Instant)>,
    /// When the owner was looked at last.
    looked: Option<Instant>,
    /// The node claims nothing before this time, because it could not take over.
    declines_until: Option<Instant>,
    /// The number of the manifest that the directory has.
    followed: u64,
}

/// A claim: this node is the owner of a new epoch, and must take over before it serves.
pub struct Claim {
    lease: Arc<Mutex<Lease>>,
    /// Renews the claim from now on.
    renewing: Option<IntervalThread>,
    /// Whether the directory has all that is in the bucket.
    continues: bool,
    epoch: u64,
    since: u64,
}

/// Gives up a claim that is of no use.
pub struct GiveUp(Arc<Mutex<Lease>>);

impl GiveUp {
    /// Lets others claim the database without waiting.
    pub fn now(self) {
        let mut lease = lock(&self.0);
        lease.requests = lease.requests.apart();
        if let Err(error) = lease.renew(true) {
            tracing::warn!("could not give the claim up; others wait until it is old: {error}");
        }
    }
}

impl Claim {
    /// What gives it up, once it is dropped.
    pub fn give_up(&self) -> GiveUp {
        GiveUp(Arc::clone(&self.lease))
    }
}

impl Node {
    /// Prepares the node whose directory is that of `io`. Nothing is claimed yet.
    ///
    /// # Errors
    /// The directory belongs to another cluster, the prefix has a shipped database, or the store
    /// does not answer.
    pub fn open(bucket: &Bucket, io: Io, options: NodeOptions) -> Result<Self> {
        let outside = Requests::new(bucket.clone())?;
        let folders = outside.wait(|bucket| async move { bucket.folders().await })?;
        if folders.iter().any(|folder| folder == MANIFESTS) {
            return Err(Error::invalid(format!("{} contains a shipped database, not a cluster", bucket.url()))
                .with_hint(
                    "Choose another prefix. To go on with that database, restore it to the directory of the first node.",
                ));
        }
        let requests = Requests::new(bucket.within(PARTITION))?;
        let record = Record::open(&io, bucket.url())?;
        Ok(Self { requests, io, record, options, seen: None, looked: None, declines_until: None, followed: 0 })
    }

    /// Where readers find the manifests of a cluster.
    pub fn readers_bucket(bucket: &Bucket) -> Bucket {
        bucket.within(PARTITION)
    }

    /// The requests of the node itself.
    #[cfg(test)]
    pub(super) fn requests(&self) -> Requests {
        self.requests.clone()
    }

    /// The owner that [`try_claim`](Self::try_claim) saw last.
    pub fn last_owner(&self) -> Option<&Owner> {
        self.seen.as_ref().map(|(owner, _)| owner)
    }

    /// Claims nothing for a while, so that others can: this node could not take over.
    pub fn decline(&mut self) {
        self.declines_until = Some(Instant::now() + self.options.takeover_after * DECLINED);
    }

    /// The time limit for a request to the object that names the owner. One request that hangs must
    /// not make a claim old.
    fn owner_limit(&self) -> Duration {
        self.options.takeover_after / 3
    }

    /// Claims the database if nobody owns it, its owner has stopped, or its owner was not seen for
    /// [`NodeOptions::takeover_after`].
    ///
    /// # Errors
    /// The store does not answer.
    pub fn try_claim(&mut self) -> Result<Option<Claim>> {
        let before = owner::read(&self.requests, self.owner_limit())?;
        // If the store did not answer for long, the owner may have been unable to renew its claim as well:
        // it gets the whole time again.
        let looked = self.looked.replace(Instant::now());
        if looked.is_none_or(|looked| looked.elapsed() > self.options.takeover_after / 2) {
            self.seen = None;
        }
        let is_free = match &before {
            None => true,
            Some(OwnerObject { owner, .. }) => {
                let since = match &self.seen {
                    Some((seen, since)) if seen == owner => *since,
                    _ => self.seen.insert((owner.clone(), Instant::now())).1,
                };
                let was_this = owner.node == self.record.node;
                was_this || owner.released || since.elapsed() >= self.options.takeover_after
            }
        };
        let declines = self.declines_until.is_some_and(|until| Instant::now() < until);
        let claim = if is_free && !declines { self.claim(before.as_ref())? } else { None };
        let Some(mut claim) = claim else { return Ok(None) };
        // Taking over may take longer than others wait.
        let lease = Arc::clone(&claim.lease);
        // A renewal is not ended half-way: the next one would take its effect for another node's.
        let stop = Stop::of_no_request();
        let every = self.options.takeover_after / RENEWALS;
        let renew = move || lock(&lease).run();
        claim.renewing = Some(IntervalThread::start("fleetdb-claim", stop, every, renew)?);
        Ok(Some(claim))
    }

    /// Claims the database whoever owns it; `None` if another node was faster. The claim is not
    /// renewed.
    pub(super) fn claim(&self, before: Option<&OwnerObject>) -> Result<Option<Claim>> {
        let (record, sent) = (&self.record, Instant::now());
        // Nothing else may have the directory open: it could still be written for the epoch before.
        let _lock = self.io.storage.lock()?;
        let continues = before.is_none_or(|OwnerObject { owner, .. }| {
            // With the first claim of all, nothing was served yet.
            let is_first = record.owned == 0 && owner.since == 1;
            owner.node == record.node && (is_first || (record.owned > 0 && record.owned >= owner.since))
        });
        if !continues && let Some(newest) = read_newest_after(&self.requests, 0)? {
            check_is_there(&newest.state)?;
        }
        let addresses = &self.options.addresses;
        match owner::claim(&self.requests, &record.node, addresses, before, continues, self.owner_limit())? {
            Changed::Done(named) => {
                let Owner { epoch, since, .. } = named.owner;
                let lease = Lease::new(self.requests.apart(), named, sent, self.options.takeover_after);
                Ok(Some(Claim { lease: Arc::new(Mutex::new(lease)), renewing: None, continues, epoch, since }))
            }
            Changed::Other => Ok(None),
        }
    }

    /// Copies the segments of the newest manifest to the directory, so that taking over need not.
    ///
    /// # Errors
    /// The store does not answer, or the directory cannot be written.
    pub fn follow(&mut self) -> Result<()> {
        // What only this directory has must not be overwritten before another node has gone on.
        let Some(OwnerObject { owner, .. }) = owner::read(&self.requests, self.owner_limit())? else { return Ok(()) };
        if owner.node == self.record.node {
            return Ok(());
        }
        let Some(Newest { number, state, .. }) = read_newest_after(&self.requests, self.followed)? else {
            return Ok(());
        };
        if !is_elsewhere(&state) {
            self.rebuild(&state, &BTreeMap::new())?;
        }
        self.followed = number;
        Ok(())
    }

    fn rebuild(&self, state: &State, log: &BTreeMap<Generation, Vec<u8>>) -> Result<()> {
        rebuild(&holding(&self.requests, state)?, state, log, &self.io).map(|_| ())
    }

    /// Whether the directory has all that was left in the bucket. It may be an old copy of the one
    /// that was served.
    fn has_all(&self, found: &FoundLog, since: u64) -> Result<bool> {
        let Some((state, end)) = find_manifest(&self.io)? else { return Ok(false) };
        let (epoch, defined_end) = found.defined;
        if epoch < since || end < defined_end {
            return Ok(false);
        }
        if state.database_id != found.state.database_id || state.flushed_sequence < found.state.flushed_sequence {
            return Ok(false);
        }
        for (generation, bytes) in found.files.iter().filter(|(generation, _)| **generation > state.flushed) {
            let name = wal_file(*generation);
            let (folder, file) = name.rsplit_once('/').unwrap_or(("", &name));
            let is_there = self.io.storage.list(folder)?.iter().any(|listed| listed == file);
            if !is_there || !self.io.storage.read(&name)?.read_all()?.starts_with(bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Excludes the owners before, and makes the directory hold all that they have acknowledged as
    /// shared. Then the database can be opened and [served](Ownership::start).
    ///
    /// # Errors
    /// The store does not answer: the claim can be made again. [`Code::Conflict`]: another node has
    /// claimed the database meanwhile, or only the directory of another node has it.
    pub fn take_over(&mut self, claim: Claim) -> Result<Taken> {
        let Claim { lease, renewing, continues, epoch, since } = claim;
        let local = find_manifest(&self.io)?.map(|(state, _)| state.database_id);
        if since == 1 && continues && self.record.owned == 0 {
            // Nobody has owned the database before: what this directory has is the database.
            self.record.owned = epoch;
            self.record.write(&self.io)?;
        }
        let random = &self.io.random;
        let new_id = || format!("{:016x}{:016x}", random.next_u64(), random.next_u64());
        let only_here = continues && local.is_some();
        let fenced = fence(&self.requests, epoch, &local.clone().unwrap_or_else(new_id), only_here)?;
        let found = close_logs(&self.requests, &fenced.state, epoch, &self.record.node)?;
        // Nothing was shared yet of a database that only this directory has.
        let is_source = self.record.owned > 0 && local.as_ref() == Some(&found.state.database_id);
        let continues = match is_elsewhere(&fenced.state) && is_source {
            true => true,
            false => continues && self.has_all(&found, since)?,
        };
        if !continues {
            check_is_there(&fenced.state)?;
            self.rebuild(&found.state, &found.files)?;
        }
        shipped::remember(&self.io, self.requests.url(), fenced.number, &fenced.manifest)?;
        // The directory is complete, and has what is acknowledged from now on.
        self.record.owned = epoch;
        self.record.write(&self.io)?;
        self.followed = 0;
        self.seen = None;
        Ok(Taken { epoch, lease, renewing, continues, found })
    }
}

/// Refuses a manifest that only stands for a database.
fn check_is_there(state: &State) -> Result<()> {
    match is_elsewhere(state) {
        true => Err(Error::new(
            Code::Conflict,
            "the first node of the cluster has not sent its database yet: start that node",
        )),
        false => Ok(()),
    }
}

/// What a node has taken over.
pub struct Taken {
    epoch: u64,
    lease: Arc<Mutex<Lease>>,
    renewing: Option<IntervalThread>,
    continues: bool,
    found: FoundLog,
}

/// The parts of an owner that do its work.
pub(super) struct Parts {
    pub(super) copied: Arc<Copied>,
    pub(super) appender: Appender,
    pub(super) covering: Covering,
    pub(super) lease: Arc<Mutex<Lease>>,
    renewing: Option<IntervalThread>,
}

impl Taken {
    /// The epoch that begins.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Connects the database, which was opened from the node's directory, with the bucket. `ended`
    /// is called once if another node takes over; the database then accepts nothing any more.
    pub(super) fn parts(self, node: &Node, db: &Arc<Database>, ended: impl FnOnce(Error) + Send + 'static) -> Parts {
        let Self { epoch, lease, renewing, continues, found } = self;
        let end = db.log_end();
        let covered = Covered {
            generation: found.state.flushed,
            sequence: found.state.flushed_sequence,
            // The directory may have rewritten rows that the bucket lacks: first a manifest.
            definitions: (!continues).then_some(0),
        };
        let next = (Generation(found.state.flushed.0 + 1), 0);
        let last = found.files.last_key_value().map_or(next, |(last, bytes)| (*last, bytes.len() as u64));
        let (at, sequence) = match continues {
            true => (last, Sequence(0)),
            // An incomplete last frame was cut off.
            false => (last.min((end.generation, end.bytes)), end.sequence),
        };
        let mut defined = State { database_id: db.defined().0.database_id, ..State::default() };
        defined.define(&found.state);
        let requests = &node.requests;
        let (weak, copied) = (Arc::downgrade(db), Copied::new(found.starts.clone(), (epoch, 0), covered));
        let copied = Arc::new(copied);
        let of_fence = weak.clone();
        copied.on_fence(Box::new(move |error| {
            if let Some(db) = of_fence.upgrade() {
                db.fence(&error);
            }
            ended(error);
        }));
        // Of a database that was not in a cluster before, nothing was shared, and all may be shown.
        let shared = if is_elsewhere(&found.state) { end.sequence } else { sequence };
        db.share_log(shared, Arc::clone(&copied) as Arc<dyn LogCopy>);
        let appender = Appender::new(requests.apart(), Arc::clone(&copied), weak.clone(), at, sequence, defined);
        let (io, from) = (node.io.clone(), found.first);
        let interval = node.options.ship_interval;
        let covering = Covering::new(requests.apart(), io, Arc::clone(&copied), weak, from, interval);
        lock(&lease).serve(Arc::clone(&copied));
        Parts { copied, appender, covering, lease, renewing }
    }
}

/// A node that owns the database, and keeps the bucket up to date, until it is dropped.
pub struct Ownership {
    copied: Arc<Copied>,
    lease: Arc<Mutex<Lease>>,
    /// Dropped before the claim is given up.
    threads: Vec<IntervalThread>,
}

impl Ownership {
    /// Begins to keep the bucket up to date. `ended` is called once if another node takes over; the
    /// database then accepts nothing any more.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        node: &Node,
        taken: Taken,
        db: &Arc<Database>,
        ended: impl FnOnce(Error) + Send + 'static,
    ) -> Result<Self> {
        let Parts { copied, mut appender, mut covering, lease, renewing } = taken.parts(node, db, ended);
        let stops = (appender.requests.stop(), covering.requests.stop());
        let mut threads = vec![
            IntervalThread::start("fleetdb-append", stops.0, Duration::ZERO, move || appender.run())?,
            IntervalThread::start("fleetdb-cover", stops.1, COVERING_LOOK, move || covering.run())?,
        ];
        threads.extend(renewing);
        let weak = Arc::downgrade(db);
        let expire = move || {
            weak.upgrade().is_some_and(|db| {
                db.expire_shared();
                true
            })
        };
        threads.push(IntervalThread::start("fleetdb-expire", Stop::of_no_request(), EXPIRY_LOOK, expire)?);
        Ok(Self { copied, lease, threads })
    }

    /// Gives the database up, so that another node need not wait. First waits for a while until the
    /// bucket has everything that was written. The caller writes nothing any more.
    pub fn release(self, db: &Database) {
        let Self { copied, lease, threads } = self;
        if let Err(error) = db.make_durable(Durability::Sync) {
            tracing::warn!("could not make the last writes durable: {error}");
        }
        let last = db.log_end().sequence;
        let begun = Instant::now();
        while copied.progress().1 < last && copied.fenced().is_none() {
            if begun.elapsed() > RELEASE_LIMIT {
                tracing::warn!(
                    "gave up waiting for the bucket: local writes that it lacks are lost once another node takes over"
                );
                return;
            }
            std::thread::sleep(RELEASE_LOOK);
        }
        drop(threads);
        GiveUp(lease).now();
    }
}
