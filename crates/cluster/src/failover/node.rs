//! A node of a cluster: it stands by until it owns the database, and then keeps the bucket up to date.

use super::PARTITION;
use super::appender::Appender;
use super::copied::{Copied, Covered};
use super::covering::Covering;
use super::lease::{Lease, lease_until};
use super::owner::{self, Changed, Named, Owner};
use super::record::Record;
use super::takeover::{Left, close_logs, fence};
use crate::bucket::Bucket;
use crate::intervals::IntervalThread;
use crate::lock;
use crate::requests::Requests;
use crate::shipped::{self, holding, newest_after, read_manifest, state_of};
use fleetdb_engine::backup::rebuild;
use fleetdb_engine::inspect::{State, read_manifest as read_manifest_of, wal_file};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Database, Error, Generation, LogCopy, Result, Sequence};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How many times an owner renews its claim before others would take over.
const RENEWALS: u32 = 5;
/// How often it is looked whether a manifest is due.
const COVERING_LOOK: Duration = Duration::from_millis(100);
/// How long giving up waits for the bucket, and how often it looks.
const RELEASE_LIMIT: Duration = Duration::from_secs(10);
const RELEASE_LOOK: Duration = Duration::from_millis(5);

/// How a node behaves.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Time without a renewal after which others take over.
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
    /// The number of the manifest that the directory has.
    followed: u64,
}

/// A claim: this node is the owner of a new epoch, and must take over before it serves.
pub struct Claim {
    named: Named,
    sent: Instant,
    /// Whether the directory has all that is in the bucket.
    continues: bool,
}

impl Node {
    /// Prepares the node whose directory is that of `io`. Nothing is claimed yet.
    ///
    /// # Errors
    /// The directory belongs to another cluster, or the store does not answer.
    pub fn open(bucket: &Bucket, io: Io, options: NodeOptions) -> Result<Self> {
        let requests = Requests::new(bucket.within(PARTITION))?;
        let record = Record::open(&io, bucket.url())?;
        Ok(Self { requests, io, record, options, seen: None, followed: 0 })
    }

    /// The bucket with the manifests, for readers.
    pub fn bucket(bucket: &Bucket) -> Bucket {
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

    /// Claims the database if nobody owns it, its owner has stopped, or its owner was not seen for
    /// [`NodeOptions::takeover_after`].
    ///
    /// # Errors
    /// The store does not answer.
    pub fn try_claim(&mut self) -> Result<Option<Claim>> {
        let before = owner::read(&self.requests)?;
        let is_free = match &before {
            None => true,
            Some(Named { owner, .. }) => {
                let since = match &self.seen {
                    Some((seen, since)) if seen == owner => *since,
                    _ => self.seen.insert((owner.clone(), Instant::now())).1,
                };
                let was_this = owner.node == self.record.node;
                was_this || owner.released || since.elapsed() >= self.options.takeover_after
            }
        };
        if is_free { self.claim(before.as_ref()) } else { Ok(None) }
    }

    /// Claims the database whoever owns it; `None` if another node was faster.
    pub(super) fn claim(&self, before: Option<&Named>) -> Result<Option<Claim>> {
        let (record, sent) = (&self.record, Instant::now());
        // Nothing else may have the directory open: it could still be written for the epoch before.
        let _lock = self.io.storage.lock()?;
        let continues = before.is_none_or(|Named { owner, .. }| {
            owner.node == record.node && record.owned > 0 && record.owned >= owner.since
        });
        let addresses = &self.options.addresses;
        match owner::claim(&self.requests, &record.node, addresses, before, continues)? {
            Changed::Done(named) => Ok(Some(Claim { named, sent, continues })),
            Changed::Other => Ok(None),
        }
    }

    /// Copies the segments of the newest manifest to the directory, so that taking over need not.
    ///
    /// # Errors
    /// The store does not answer, or the directory cannot be written.
    pub fn follow(&mut self) -> Result<()> {
        // What only this directory has must not be overwritten before another node has gone on.
        let Some(Named { owner, .. }) = owner::read(&self.requests)? else { return Ok(()) };
        if owner.node == self.record.node {
            return Ok(());
        }
        let Some((number, _)) = newest_after(&self.requests, self.followed)? else { return Ok(()) };
        let Some(bytes) = read_manifest(&self.requests, number)? else { return Ok(()) };
        let state = state_of(&self.requests, number, &bytes)?;
        self.rebuild(&state, &BTreeMap::new())?;
        self.followed = number;
        Ok(())
    }

    fn rebuild(&self, state: &State, log: &BTreeMap<Generation, Vec<u8>>) -> Result<()> {
        rebuild(&holding(&self.requests, state)?, state, log, &self.io, |_, _| ()).map(|_| ())
    }

    /// Whether the directory has all that was left in the bucket. It may be an old copy of the one that
    /// was served.
    fn has_all(&self, left: &Left) -> Result<bool> {
        let Ok((_, state)) = read_manifest_of(&self.io) else { return Ok(false) };
        if state.database_id != left.state.database_id || state.flushed_sequence < left.state.flushed_sequence {
            return Ok(false);
        }
        for (generation, bytes) in left.files.iter().filter(|(generation, _)| **generation > state.flushed) {
            let Ok(file) = self.io.storage.read(&wal_file(*generation)) else { return Ok(false) };
            if !file.read_all()?.starts_with(bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Excludes the owners before, and makes the directory hold all that they have acknowledged as
    /// shared. Then the database can be opened and [served](Ownership::start).
    ///
    /// # Errors
    /// The store does not answer: the claim can be made again. [`Code::Conflict`](fleetdb_engine::Code::Conflict): another node has
    /// claimed the database meanwhile.
    pub fn take_over(&mut self, claim: Claim) -> Result<Taken> {
        let Claim { named, sent, continues } = claim;
        let epoch = named.owner.epoch;
        let (left, continues) = match fence(&self.requests, epoch)? {
            None => (Left::new(State::default()), true),
            Some(fenced) => {
                let left = close_logs(&self.requests, &fenced.state, epoch, &self.record.node)?;
                let continues = continues && self.has_all(&left)?;
                if !continues {
                    self.rebuild(&left.state, &left.files)?;
                }
                shipped::remember(&self.io, self.requests.url(), fenced.number, &fenced.manifest)?;
                (left, continues)
            }
        };
        // The directory is complete, and has what is acknowledged from now on.
        self.record.owned = epoch;
        self.record.write(&self.io)?;
        self.followed = 0;
        self.seen = None;
        Ok(Taken { named, sent, continues, left })
    }
}

/// What a node has taken over.
pub struct Taken {
    named: Named,
    sent: Instant,
    continues: bool,
    left: Left,
}

/// The parts of an owner that do its work.
pub(super) struct Parts {
    pub(super) copied: Arc<Copied>,
    pub(super) appender: Appender,
    pub(super) covering: Covering,
    pub(super) lease: Lease,
}

impl Taken {
    /// The epoch that begins.
    pub fn epoch(&self) -> u64 {
        self.named.owner.epoch
    }

    /// Connects the database, which was opened from the node's directory, with the bucket. `ended` is
    /// called once if another node takes over; the database then accepts nothing any more.
    pub(super) fn parts(self, node: &Node, db: &Arc<Database>, ended: impl FnOnce(Error) + Send + 'static) -> Parts {
        let Self { named, sent, continues, left } = self;
        let epoch = named.owner.epoch;
        let end = db.log_end();
        let covered = Covered {
            generation: left.state.flushed,
            sequence: left.state.flushed_sequence,
            // The directory may have rewritten rows that the bucket lacks: first a manifest.
            definitions: (!continues).then_some(0),
        };
        let next = (Generation(left.state.flushed.0 + 1), 0);
        let last = left.files.last_key_value().map_or(next, |(last, bytes)| (*last, bytes.len() as u64));
        let (at, sequence) = match continues {
            true => (last, Sequence(0)),
            // An incomplete last frame was cut off.
            false => (last.min((end.generation, end.bytes)), end.sequence),
        };
        let mut defined = State { database_id: db.defined().0.database_id, ..State::default() };
        defined.define(&left.state);
        let (requests, takeover_after) = (&node.requests, node.options.takeover_after);
        let (weak, copied) = (Arc::downgrade(db), Copied::new(left.starts, (epoch, 0), covered));
        let copied = Arc::new(copied);
        copied.renewed(lease_until(sent, takeover_after));
        let of_fence = weak.clone();
        copied.on_fence(Box::new(move |error| {
            if let Some(db) = of_fence.upgrade() {
                db.fence(&error);
            }
            ended(error);
        }));
        db.share_log(sequence, Arc::clone(&copied) as Arc<dyn LogCopy>);
        let appender = Appender {
            requests: requests.apart(),
            copied: Arc::clone(&copied),
            db: weak.clone(),
            epoch,
            at,
            sequence,
            defined,
            count: (!continues).then_some(0),
            target: None,
            pending: None,
            told: None,
        };
        let (io, from) = (node.io.clone(), (epoch, left.first));
        let interval = node.options.ship_interval;
        let covering = Covering::new(requests.apart(), io, Arc::clone(&copied), weak, from, interval);
        let lease = Lease::new(requests.apart(), Arc::clone(&copied), named, takeover_after);
        Parts { copied, appender, covering, lease }
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
        let Parts { copied, mut appender, mut covering, lease } = taken.parts(node, db, ended);
        let stops = (appender.requests.stop(), covering.requests.stop(), lease.requests.stop());
        let lease = Arc::new(Mutex::new(lease));
        let renewing = Arc::clone(&lease);
        let every = node.options.takeover_after / RENEWALS;
        let threads = vec![
            IntervalThread::start("fleetdb-claim", stops.2, every, move || lock(&renewing).run())?,
            IntervalThread::start("fleetdb-append", stops.0, Duration::ZERO, move || appender.run())?,
            IntervalThread::start("fleetdb-cover", stops.1, COVERING_LOOK, move || covering.run())?,
        ];
        Ok(Self { copied, lease, threads })
    }

    /// Gives the database up, so that another node need not wait. First waits for a while until the
    /// bucket has everything that was written. The caller writes nothing any more.
    pub fn release(self, db: &Database) {
        let Self { copied, lease, threads } = self;
        let last = db.log_end().sequence;
        let begun = Instant::now();
        while copied.progress().1 < last && copied.fenced().is_none() {
            if begun.elapsed() > RELEASE_LIMIT {
                tracing::warn!("the bucket does not have the last batches: start this node before others take over");
                return;
            }
            std::thread::sleep(RELEASE_LOOK);
        }
        drop(threads);
        let mut lease = lock(&lease);
        lease.requests = lease.requests.apart();
        if let Err(error) = lease.renew(true) {
            tracing::warn!("could not give the claim up; others wait until it is old: {error}");
        }
    }
}
