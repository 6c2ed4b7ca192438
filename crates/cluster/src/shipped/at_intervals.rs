//! Ships a database at intervals while it is in use.

use super::garbage::collect;
use super::{HISTORY, Shipment, Shipper};
use crate::requests::Stop;
use fleetdb_engine::{Database, Error, Result, Shipping};
use std::sync::Weak;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often garbage is collected.
const GARBAGE_INTERVAL: Duration = Duration::from_secs(3600);

/// A thread that ships a database at intervals. It ends when it is stopped or dropped, and does not keep
/// the database open between shipments.
pub struct ShippingThread {
    stop: Stop,
    /// Dropped to end the wait for the next shipment.
    waiting: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ShippingThread {
    /// Starts to ship the database, now and then at intervals. Each shipment
    /// first writes the rows of the log to segments, so that the bucket lags behind by the interval and
    /// the time of a shipment. [`Database::status`] says by how much, and why a shipment failed; the
    /// next one tries again.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(db: Weak<Database>, shipper: Shipper, interval: Duration) -> Result<Self> {
        let stop = shipper.requests().stop();
        let (waiting, wait) = channel();
        let mut work = Work { db, shipper, shipping: Shipping::default(), collected: None, stop: stop.clone() };
        let run = move || {
            while work.ship() {
                match wait.recv_timeout(interval) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let thread = std::thread::Builder::new().name("fleetdb-ship".to_owned()).spawn(run);
        let thread = thread.map_err(|e| Error::io("could not start the thread that ships", &e))?;
        Ok(Self { stop, waiting: Some(waiting), thread: Some(thread) })
    }
}

impl Drop for ShippingThread {
    /// Stops the running shipment and waits for the thread. What was sent stays.
    fn drop(&mut self) {
        self.stop.stop();
        self.waiting = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

struct Work {
    db: Weak<Database>,
    shipper: Shipper,
    shipping: Shipping,
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
        let url = self.shipper.requests().url();
        match outcome {
            Ok(shipment) => {
                if self.shipping.error.take().is_some() {
                    tracing::info!("ships to {url} again");
                }
                self.shipping.up_to_ns = Some(begun_ns);
                self.shipping.sequence = sequence;
                self.shipping.sent_bytes += shipment.sent_bytes;
            }
            Err(error) => {
                // Each reason once: an outage may last for days.
                if self.shipping.error.as_ref() != Some(&error) {
                    tracing::warn!("could not ship to {url}: {error}");
                }
                self.shipping.error = Some(error);
            }
        }
    }
}
