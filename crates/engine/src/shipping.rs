//! What is known of copies of the database elsewhere, for those who watch it. The engine does not ship
//! anything itself.

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
        let since = |up_to: i64| u64::try_from(now_ns.saturating_sub(up_to) / 1_000_000_000).unwrap_or(0);
        ShippingLag {
            seconds: self.up_to_ns.map(since),
            batches: last_sequence.saturating_sub(self.sequence),
            sent_bytes: self.sent_bytes,
            error: self.error.clone(),
        }
    }
}
