//! What is known of copies of the database elsewhere, and of databases whose rows it adopts, for
//! those who watch it. The engine does neither itself.

use crate::error::Error;

/// How far the database is shipped to another place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shipping {
    /// Everything acknowledged before this time is there, in nanoseconds since 1970 by the database's
    /// clock; `None` before the first shipment.
    pub up_to_ns: Option<i64>,
    /// The last batch that is there.
    pub sequence: u64,
    /// Bytes of segments that were sent since the database was opened.
    pub sent_bytes: u64,
    /// Why the last shipment failed, until one succeeds.
    pub error: Option<Error>,
}

/// [`Shipping`], compared with what the database has now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShippingLag {
    /// Seconds since the time up to which everything is there; `None` before the first shipment.
    pub seconds: Option<u64>,
    /// The number of batches that are not there yet.
    pub batches: u64,
    /// Bytes of segments that were sent since the database was opened.
    pub sent_bytes: u64,
    /// Why the last shipment failed, until one succeeds.
    pub error: Option<Error>,
}

impl Shipping {
    pub(crate) fn lag(&self, now_ns: i64, last_sequence: u64) -> ShippingLag {
        ShippingLag {
            seconds: self.up_to_ns.map(|up_to_ns| seconds_since(up_to_ns, now_ns)),
            batches: last_sequence.saturating_sub(self.sequence),
            sent_bytes: self.sent_bytes,
            error: self.error.clone(),
        }
    }
}

/// How the rows of other databases are adopted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adopting {
    /// When the last complete look at all of them began, in nanoseconds since 1970 by the database's
    /// clock; `None` before the first one.
    pub looked_ns: Option<i64>,
    /// Rows that were adopted since the database was opened.
    pub rows: u64,
    /// How many of them could not be adopted in the last look.
    pub failing: u64,
    /// Why the last look failed as a whole, until one succeeds.
    pub error: Option<Error>,
}

/// [`Adopting`], compared with the time now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdoptingLag {
    /// Seconds since the last complete look; `None` before the first one.
    pub seconds: Option<u64>,
    /// Rows that were adopted since the database was opened.
    pub rows: u64,
    /// How many databases could not be adopted in the last look.
    pub failing: u64,
    /// Why the last look failed as a whole, until one succeeds.
    pub error: Option<Error>,
}

impl Adopting {
    pub(crate) fn lag(&self, now_ns: i64) -> AdoptingLag {
        let seconds = self.looked_ns.map(|looked_ns| seconds_since(looked_ns, now_ns));
        AdoptingLag { seconds, rows: self.rows, failing: self.failing, error: self.error.clone() }
    }
}

/// The seconds between two times in nanoseconds; 0 if the clock went back.
pub(crate) fn seconds_since(then_ns: i64, now_ns: i64) -> u64 {
    u64::try_from(now_ns.saturating_sub(then_ns) / 1_000_000_000).unwrap_or(0)
}
