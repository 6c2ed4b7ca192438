//! Tries whether a store keeps the promises on which FleetDB's log and its owners rest, and
//! measures how long writes take.

mod promises;
mod timing;

pub use promises::{PROMISES, Promise};
pub use timing::{SIZES, WriteTimes};

use crate::bucket::Bucket;
use bytes::Bytes;
use fleetdb_engine::{Error, Result};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// How thoroughly a store is tried.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The clients that write at the same time.
    pub clients: usize,
    /// How often they race for one object.
    pub rounds: usize,
    /// How long writes of each size are timed.
    pub time_per_size: Duration,
    /// The price of a million writes, in dollars.
    pub price_per_million: f64,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Each promise, and in which way the store breaks it.
    pub promises: Vec<Promise>,
    /// Writes by the size of objects and the number of clients.
    pub writes: Vec<WriteTimes>,
}

impl Report {
    /// The promises that the store does not keep.
    pub fn broken(&self) -> impl Iterator<Item = &Promise> {
        self.promises.iter().filter(|promise| promise.broken.is_some())
    }
}

/// The number of steps of a check.
pub const STEPS: usize = PROMISES + SIZES.len() * timing::CLIENTS.len();

/// Tries a store, and deletes what it wrote. `progress` is called before each of the [`STEPS`].
///
/// # Errors
/// There is no such bucket, or its credentials lack rights, or it does not answer.
pub fn check(bucket: &Bucket, effort: &Effort, progress: impl Fn()) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::io("could not start the threads of the check", &e))?;
    runtime.block_on(checked(bucket, effort, progress))
}

async fn checked(bucket: &Bucket, effort: &Effort, progress: impl Fn()) -> Result<Report> {
    bucket.find().await?;
    let id = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let within = bucket.within(&format!("check-{}-{}", id.as_micros(), std::process::id()));
    let report = tried(&within, effort, progress).await;
    let cleared = match within.list().await {
        Ok(left) => within.delete(left).await,
        Err(error) => Err(error),
    };
    let report = report?;
    cleared?;
    Ok(report)
}

async fn tried(bucket: &Bucket, effort: &Effort, progress: impl Fn()) -> Result<Report> {
    let promises = promises::tried(bucket, effort, &progress).await?;
    let writes = timing::timed(bucket, effort, &progress).await?;
    Ok(Report { promises, writes })
}

/// Bytes that no store can compress or share.
fn incompressible(bytes: usize) -> Bytes {
    let mut content = vec![0; bytes];
    Xoshiro256PlusPlus::seed_from_u64(bytes as u64).fill_bytes(&mut content);
    content.into()
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
