//! Renews the claim of an owner, and notices when another node has it.

use super::appender::fenced;
use super::copied::Copied;
use super::owner::{self, Changed, Named};
use crate::requests::Requests;
use fleetdb_engine::{Error, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Renews one claim.
pub(super) struct Lease {
    pub(super) requests: Requests,
    copied: Arc<Copied>,
    named: Named,
    takeover_after: Duration,
    told: Option<Error>,
}

/// How long an owner may rely on a renewal that it sent at a time. Others wait a tenth longer, counted
/// from when they saw it, so that clocks may differ in speed.
pub(super) fn lease_until(sent: Instant, takeover_after: Duration) -> Instant {
    sent + takeover_after * 9 / 10
}

impl Lease {
    pub(super) fn new(requests: Requests, copied: Arc<Copied>, named: Named, takeover_after: Duration) -> Self {
        Self { requests, copied, named, takeover_after, told: None }
    }

    /// The epoch that is claimed.
    #[cfg(test)]
    pub(super) fn epoch(&self) -> u64 {
        self.named.owner.epoch
    }

    /// Renews once; `false` at the end.
    pub(super) fn run(&mut self) -> bool {
        match self.renew(false) {
            Ok(is_owner) => {
                if self.told.take().is_some() {
                    tracing::info!("renews its claim at {} again", self.requests.url());
                }
                is_owner
            }
            Err(error) => {
                if self.told.as_ref() != Some(&error) {
                    tracing::warn!("could not renew the claim at {}: {error}", self.requests.url());
                    self.told = Some(error);
                }
                self.copied.fenced().is_none()
            }
        }
    }

    /// Renews the claim, or gives it up so that nobody needs to wait. `false` if another node has it.
    pub(super) fn renew(&mut self, released: bool) -> Result<bool> {
        if self.copied.fenced().is_some() {
            return Ok(false);
        }
        let sent = Instant::now();
        match owner::renew(&self.requests, &self.named, released)? {
            Changed::Done(named) => {
                self.named = named;
                self.copied.renewed(lease_until(sent, self.takeover_after));
                Ok(true)
            }
            Changed::Other => {
                self.copied.fence(fenced(self.named.owner.epoch));
                Ok(false)
            }
        }
    }
}
