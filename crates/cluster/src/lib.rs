//! What FleetDB needs beyond one machine. The crate is not part of the default build: the command
//! has it with the feature `cluster`.
//!
//! 1. [`bucket`]: objects by name, in an object store or in a directory. A log's numbered objects
//!    are created only if absent, and the object that names an owner is replaced only if it is
//!    unchanged.
//! 2. [`check`] tries whether a store keeps these promises, and how long a write takes.
//! 3. [`shipped`]: the segments and manifests of a database in a bucket, for backups and readers.
//! 4. [`adoption`]: a server takes over the rows that devices hand over.
//! 5. [`failover`]: a database whose log is in a bucket, so that another machine can go on with it.

pub mod adoption;
mod background;
pub mod bucket;
pub mod check;
pub mod failover;
mod intervals;
mod json_file;
mod requests;
pub mod shipped;
#[cfg(test)]
mod site;
mod told;
#[cfg(test)]
mod unreliable;

pub use intervals::IntervalThread;
pub use told::Told;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic of another thread: what is locked here is whole at each moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
