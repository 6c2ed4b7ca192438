//! Where the node is that takes writes, for a server that only reads.

use parking_lot::Mutex;
use std::sync::Arc;

/// The URL of the node that takes writes. It may change at any time.
#[derive(Clone, Debug, Default)]
pub struct OwnerUrl(Arc<Mutex<Option<String>>>);

impl OwnerUrl {
    /// Sets the URL, such as `http://10.0.0.7:8086`; `None` if nobody takes writes, or nobody knows
    /// who.
    pub fn set(&self, url: Option<String>) {
        *self.0.lock() = url;
    }

    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().clone()
    }
}
