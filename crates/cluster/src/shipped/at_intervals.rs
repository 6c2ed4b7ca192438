//! Ships a database at intervals while it is in use.

use super::garbage::collect;
use super::{HISTORY, Shipment, Shipper};
use crate::intervals::IntervalThread;
use crate::requests::Stop;
use crate::told::Told;
use fleetdb_engine::{Database, Error, Result, Shipping};
use std::sync::Weak;
use std::time::{Duration, Instant};

/// How often garbage is collected.
const GARBAGE_INTERVAL: Duration = Duration::from_secs(3600);

impl Shipper {
    /// Starts a thread that ships the database, now and then at intervals. Each shipment first
    /// writes the rows of the log to segments, so that the bucket lags behind by the interval and
    /// the time of a shipment. [`Database::status`] says by how much, and why a shipment failed;
    /// the next one tries again. The thread does not keep the database open between shipments.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn at_intervals(self, db: Weak<Database>, interval: Duration) -> Result<IntervalThread> {
        let stop = self.requests().stop();
        let (shipping, told) = (Shipping::default(), Told::default());
        let mut work = Work { db, shipper: self, shipping, told, collected: None, stop: stop.clone() };
        IntervalThread::start("fleetdb-ship", stop, interval, move || work.ship())
    }
}

struct Work {
    db: Weak<Database>,
    shipper: Shipper,
    shipping: Shipping,
    told: Told,
    /// When garbage was last collected.
    collected: Option<Instant>,
    stop: Stop,
}

impl Work {
    /// Ships once; `false` if the database is closed or the thread is to end.
    fn ship(&mut self) -> bool {
        let Some(db) = self.db.upgrade() else { return false };
        // What there is now is in segments after the flush, or deleted.
        let begun = (db.now_ns(), db.last_sequence());
        let outcome = db.flush().and_then(|()| self.shipper.ship(&db, |_, _| ()));
        if self.stop.is_stopped() {
            return false;
        }
        let outcome = outcome.and_then(|shipment| self.collect().map(|()| shipment));
        self.note(outcome, begun);
        db.note_shipping(self.shipping.clone());
        true
    }

    fn collect(&mut self) -> Result<()> {
        if self.collected.is_some_and(|last| last.elapsed() < GARBAGE_INTERVAL) {
            return Ok(());
        }
        let garbage = collect(self.shipper.requests(), HISTORY)?;
        self.collected = Some(Instant::now());
        if garbage.manifests > 0 {
            tracing::info!(
                "removed {} old manifests and {} segments from {}",
                garbage.manifests,
                garbage.segments,
                self.shipper.requests().url()
            );
        }
        Ok(())
    }

    fn note(&mut self, outcome: Result<Shipment>, (begun_ns, sequence): (i64, u64)) {
        let error = match outcome {
            Ok(Shipment { is_held_back: true, sent_bytes, .. }) => {
                self.shipping.sent_bytes += sent_bytes;
                Some(Error::retry("the outbox is full until a server adopts what it has"))
            }
            Ok(shipment) => {
                self.shipping.up_to_ns = Some(begun_ns);
                self.shipping.sequence = sequence;
                self.shipping.sent_bytes += shipment.sent_bytes;
                shipment.delta_error
            }
            Err(error) => Some(error),
        };
        let url = self.shipper.requests().url();
        match error {
            Some(error) => self.told.failed(format_args!("could not ship to {url}"), error),
            None if self.told.ended() => tracing::info!("ships to {url} again"),
            None => {}
        }
        self.shipping.error = self.told.error().cloned();
    }
}
