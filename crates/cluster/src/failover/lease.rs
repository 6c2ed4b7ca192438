//! Renews the claim of an owner, and notices when another node has it.

use super::appender::fenced;
use super::copied::Copied;
#[cfg(test)]
use super::owner::Owner;
use super::owner::{self, Changed, OwnerObject};
use crate::requests::Requests;
use crate::told::Told;
use fleetdb_engine::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Renews one claim.
pub(super) struct Lease {
    pub(super) requests: Requests,
    named: OwnerObject,
    takeover_after: Duration,
    /// When the renewal was tried first that is under way.
    first_try: Option<Instant>,
    /// Nobody else takes over before this time.
    until: Instant,
    /// Whether another node has the claim.
    is_lost: bool,
    /// Who relies on it, once the node serves.
    copied: Option<Arc<Copied>>,
    told: Told,
}

/// How long an owner may rely on a renewal that it sent at a time. Others wait for all of
/// `takeover_after`, counted from when they saw it, so that clocks may differ in speed by a tenth.
fn lease_until(sent: Instant, takeover_after: Duration) -> Instant {
    sent + takeover_after * 9 / 10
}

impl Lease {
    /// A claim that was sent at a time.
    pub(super) fn new(requests: Requests, named: OwnerObject, sent: Instant, takeover_after: Duration) -> Self {
        let until = lease_until(sent, takeover_after);
        Self {
            requests,
            named,
            takeover_after,
            first_try: None,
            until,
            is_lost: false,
            copied: None,
            told: Told::default(),
        }
    }

    /// What was claimed.
    #[cfg(test)]
    pub(super) fn owner(&self) -> &Owner {
        &self.named.owner
    }

    /// The node begins to serve.
    pub(super) fn serve(&mut self, copied: Arc<Copied>) {
        copied.renewed(self.until);
        if self.is_lost {
            copied.fence(fenced(self.named.owner.epoch));
        }
        self.copied = Some(copied);
    }

    /// Renews once; `false` at the end.
    pub(super) fn run(&mut self) -> bool {
        match self.renew(false) {
            Ok(is_owner) => {
                if self.told.ended() {
                    tracing::info!("renews its claim at {} again", self.requests.url());
                }
                is_owner
            }
            Err(error) => {
                self.told.failed(format_args!("could not renew the claim at {}", self.requests.url()), error);
                !self.is_lost()
            }
        }
    }

    /// Renews the claim, or gives it up so that nobody needs to wait. `false` if another node has
    /// it.
    pub(super) fn renew(&mut self, released: bool) -> Result<bool> {
        if self.is_lost() {
            return Ok(false);
        }
        // If an answer is lost, others may have seen the renewal since the first try.
        let sent = *self.first_try.get_or_insert_with(Instant::now);
        match owner::renew(&self.requests, &self.named, released, self.takeover_after / 3)? {
            Changed::Done(named) => {
                (self.named, self.first_try) = (named, None);
                self.until = lease_until(sent, self.takeover_after);
                if let Some(copied) = &self.copied {
                    copied.renewed(self.until);
                }
                Ok(true)
            }
            Changed::Other => {
                self.is_lost = true;
                if let Some(copied) = &self.copied {
                    copied.fence(fenced(self.named.owner.epoch));
                }
                Ok(false)
            }
        }
    }

    fn is_lost(&self) -> bool {
        self.is_lost || self.copied.as_ref().is_some_and(|copied| copied.fenced().is_some())
    }
}
