//! Ends what runs in a session, from any thread.
//!
//! A session has a [`Stop`], which ends whatever it runs, and its statements may have one each, which ends
//! only theirs ([`Stop::of_part`]). A stop counts how often it was used; what began before ([`Begun`]) ends at
//! its next step.

use fleetdb_engine::{Code, Error, Result};
use fleetdb_query::{Canceller, Session};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Ends what was begun by it.
pub(crate) struct Stop {
    /// How often it was used.
    uses: AtomicU64,
    /// The stop of the whole session; `None` if it is this one.
    whole: Option<Arc<Stop>>,
    running: Arc<Running>,
}

/// What the session runs.
struct Running {
    canceller: Canceller,
    /// The stop of the statement that began last. The lock makes a stop and the beginning of a statement
    /// exclude each other.
    stop: Mutex<Weak<Stop>>,
}

/// When something began: how often its stop had been used. Later uses end it, also between its steps.
#[derive(Clone)]
pub(crate) struct Begun {
    stop: Arc<Stop>,
    uses: u64,
}

impl Stop {
    /// The stop of a session.
    pub(crate) fn new(canceller: Canceller) -> Arc<Self> {
        let running = Arc::new(Running { canceller, stop: Mutex::new(Weak::new()) });
        Arc::new(Self { uses: AtomicU64::new(0), whole: None, running })
    }

    /// A stop for a part of what the session runs. The session's stop ends the part as well.
    pub(crate) fn of_part(self: &Arc<Self>) -> Arc<Self> {
        let whole = Arc::clone(self.whole.as_ref().unwrap_or(self));
        Arc::new(Self { uses: AtomicU64::new(0), whole: Some(whole), running: Arc::clone(&self.running) })
    }

    /// Ends everything that was begun by this stop, or by one of a part of it.
    pub(crate) fn stop(self: &Arc<Self>) {
        let running = self.running.stop.lock();
        self.uses.fetch_add(1, Ordering::AcqRel);
        if self.whole.is_none() || running.as_ptr() == Arc::as_ptr(self) {
            self.running.canceller.cancel();
        }
    }

    /// Begins something, which earlier stops do not concern.
    pub(crate) fn begin(self: &Arc<Self>) -> Begun {
        Begun { stop: Arc::clone(self), uses: self.uses() }
    }

    fn uses(&self) -> u64 {
        let of_whole = self.whole.as_ref().map_or(0, |whole| whole.uses());
        of_whole + self.uses.load(Ordering::Acquire)
    }
}

impl Begun {
    /// As a part of it that no stop ends, such as its ROLLBACK.
    pub(crate) fn beyond_stops(&self) -> Self {
        Self { stop: Arc::clone(&self.stop), uses: u64::MAX }
    }

    /// Fails if it must end.
    ///
    /// # Errors
    /// [`Code::Cancelled`].
    pub(crate) fn check(&self) -> Result<()> {
        match self.stop.uses() > self.uses {
            true => Err(Error::new(Code::Cancelled, "the statement was cancelled")),
            false => Ok(()),
        }
    }

    /// Announces its next statement in the session: a stop from now on ends it.
    ///
    /// # Errors
    /// [`Code::Cancelled`], if it must end.
    pub(crate) fn announce(&self, session: &Session) -> Result<()> {
        let mut running = self.stop.running.stop.lock();
        self.check()?;
        session.announce();
        *running = Arc::downgrade(&self.stop);
        Ok(())
    }
}
