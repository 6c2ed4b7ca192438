//! Ships manifests, so that the log can be trimmed and taking over stays short.

use super::copied::{Copied, Covered};
use super::log::{self, Place};
use crate::requests::Requests;
use crate::shipped::{self, HISTORY, Shipment, Shipper};
use crate::told::Told;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Checkpoint, Database, Result, Shipping};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How often garbage is collected.
const GARBAGE_INTERVAL: Duration = Duration::from_secs(3600);
/// Time before a failed shipment is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How often a long log is flushed at most.
const MIN_FLUSH_INTERVAL: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 2 });
/// How often the log is flushed at least, so that nodes that stand by see what was written.
const FLUSH_INTERVAL: Duration = Duration::from_secs(60);

/// Ships the manifests of one epoch.
pub(super) struct Covering {
    pub(super) requests: Requests,
    copied: Arc<Copied>,
    db: Weak<Database>,
    shipper: Shipper,
    /// What the manifest that is being written covers, and where the log goes on after it.
    marked: Arc<Mutex<Option<(Covered, Place)>>>,
    /// The log is trimmed up to here.
    trimmed: Place,
    interval: Duration,
    last: Option<Instant>,
    /// The last try, if it failed.
    failed: Option<Instant>,
    flushed: Instant,
    collected: Instant,
    shipping: Shipping,
    told: Told,
}

impl Covering {
    pub(super) fn new(
        requests: Requests,
        io: Io,
        copied: Arc<Copied>,
        db: Weak<Database>,
        trimmed: Place,
        interval: Duration,
    ) -> Self {
        let marked = Arc::<Mutex<Option<(Covered, Place)>>>::default();
        let (of_mark, to) = (Arc::clone(&copied), Arc::clone(&marked));
        let mark = move |checkpoint: &Checkpoint<'_>| {
            let replay_from = of_mark.replay_from(checkpoint);
            let covered = Covered {
                generation: checkpoint.state().flushed,
                sequence: checkpoint.state().flushed_sequence,
                definitions: Some(checkpoint.definitions().count),
            };
            *crate::lock(&to) = Some((covered, (replay_from.epoch, replay_from.number)));
            replay_from
        };
        let shipper = Shipper::of_node(requests.clone(), io, Box::new(mark));
        let (last, now, shipping) = (None, Instant::now(), Shipping::default());
        let (flushed, collected) = (now, now);
        Self {
            requests,
            copied,
            db,
            shipper,
            marked,
            trimmed,
            interval,
            last,
            failed: None,
            flushed,
            collected,
            shipping,
            told: Told::default(),
        }
    }

    /// Ships a manifest if it is time; `false` at the end.
    pub(super) fn run(&mut self) -> bool {
        let Some(db) = self.db.upgrade() else { return false };
        if self.copied.fenced().is_some() {
            return false;
        }
        let is_due = self.last.is_none_or(|last| last.elapsed() >= self.interval);
        let waits = self.failed.is_some_and(|failed| failed.elapsed() < RETRY);
        let is_due = is_due || self.copied.needs_manifest() || self.copied.log_is_long();
        let outcome = match is_due && !waits {
            true => self.ship(&db).map(Some).inspect_err(|_| self.failed = Some(Instant::now())),
            false => Ok(None),
        };
        self.note(&db, outcome);
        true
    }

    /// Ships a manifest, and trims the log that it covers.
    pub(super) fn ship(&mut self, db: &Database) -> Result<Shipment> {
        let since_flush = self.flushed.elapsed();
        if since_flush >= FLUSH_INTERVAL || (self.copied.log_is_long() && since_flush >= MIN_FLUSH_INTERVAL) {
            db.flush()?;
            self.flushed = Instant::now();
        }
        let shipment = self.shipper.ship(db, |_, _| ())?;
        self.last = Some(Instant::now());
        if let Some((covered, place)) = crate::lock(&self.marked).take() {
            self.copied.cover(covered);
            db.acknowledge_shared(covered.sequence, covered.definitions);
            if place > self.trimmed {
                log::trim(&self.requests, place, self.trimmed)?;
                self.trimmed = place;
            }
        }
        if self.collected.elapsed() >= GARBAGE_INTERVAL {
            shipped::collect(&self.requests, HISTORY)?;
            self.collected = Instant::now();
        }
        Ok(shipment)
    }

    /// Tells how far the bucket is.
    fn note(&mut self, db: &Database, outcome: Result<Option<Shipment>>) {
        let (age, sequence) = self.copied.progress();
        let age_ns = age.map(|age| i64::try_from(age.as_nanos()).unwrap_or(i64::MAX));
        self.shipping.up_to_ns = age_ns.map(|age_ns| db.now_ns().saturating_sub(age_ns));
        self.shipping.sequence = sequence.0;
        match outcome {
            Ok(None) => {}
            Ok(Some(shipment)) => {
                self.shipping.sent_bytes += shipment.sent_bytes;
                if self.told.ended() {
                    tracing::info!("ships to {} again", self.requests.url());
                }
            }
            Err(error) => {
                self.told.failed(format_args!("could not ship a manifest to {}", self.requests.url()), error);
            }
        }
        self.shipping.error = self.told.error().cloned().or_else(|| self.copied.append_error());
        db.note_shipping(self.shipping.clone());
    }
}
