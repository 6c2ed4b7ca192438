//! Limits the verification of passwords and tokens, which is slow on purpose, to a few at a time.
//! Each address has its own queue, so a client that guesses passwords delays no other address.

use fleetdb_engine::{Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Number of turns that all addresses share.
const MAX_RUNNING: usize = 2;
/// All addresses that hold a turn or wait for one.
pub(crate) struct LoginQueue {
    most_waiting: usize,
    of_all: Arc<Semaphore>,
    addresses: Arc<Mutex<HashMap<IpAddr, Arc<OfAddress>>>>,
}

struct OfAddress {
    one: Arc<Semaphore>,
    asking: AtomicUsize,
}

/// Permission to verify a secret, until it is dropped.
pub(crate) struct LoginPermit {
    _of_all: OwnedSemaphorePermit,
    _of_address: OwnedSemaphorePermit,
    _asking: Asking,
}

/// Counts a request of an address while it is alive.
struct Asking {
    address: IpAddr,
    of: Arc<OfAddress>,
    addresses: Arc<Mutex<HashMap<IpAddr, Arc<OfAddress>>>>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut addresses = self.addresses.lock();
        if self.of.asking.fetch_sub(1, Ordering::Relaxed) == 1 {
            addresses.remove(&self.address);
        }
    }
}

impl LoginQueue {
    /// Allows up to `most_waiting` waiting requests per address.
    pub(crate) fn new(most_waiting: usize) -> Self {
        Self { most_waiting, of_all: Arc::new(Semaphore::new(MAX_RUNNING)), addresses: Arc::default() }
    }

    /// Waits for a turn of this address.
    ///
    /// # Errors
    /// [`ErrorKind::Retry`](fleetdb_engine::ErrorKind::Retry) if too many requests of it wait; or
    /// the server is stopping.
    pub(crate) async fn acquire(&self, address: IpAddr) -> Result<LoginPermit> {
        let too_many = || {
            let most = self.most_waiting;
            Error::retry(format!("too many logins from {address} are waiting ({most}): try again later"))
        };
        let asking = self.ask(network(address)).ok_or_else(too_many)?;
        let stopping = |_| Error::closed("the server is shutting down");
        let of_address = Arc::clone(&asking.of.one).acquire_owned().await.map_err(stopping)?;
        let of_all = Arc::clone(&self.of_all).acquire_owned().await.map_err(stopping)?;
        Ok(LoginPermit { _of_all: of_all, _of_address: of_address, _asking: asking })
    }

    fn ask(&self, address: IpAddr) -> Option<Asking> {
        let mut addresses = self.addresses.lock();
        let none = || Arc::new(OfAddress { one: Arc::new(Semaphore::new(1)), asking: AtomicUsize::new(0) });
        let of = addresses.entry(address).or_insert_with(none);
        // The counter changes only under the lock.
        if of.asking.load(Ordering::Relaxed) > self.most_waiting {
            return None;
        }
        of.asking.fetch_add(1, Ordering::Relaxed);
        Some(Asking { address, of: Arc::clone(of), addresses: Arc::clone(&self.addresses) })
    }
}

/// The holder of an IPv6 address usually holds its whole 64-bit network, so the network shares one
/// queue.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
#[path = "login_queue_tests.rs"]
mod tests;
