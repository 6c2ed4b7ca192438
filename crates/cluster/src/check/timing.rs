//! How long writes take.

use super::{Effort, incompressible};
use crate::bucket::{Bucket, Outcome};
use bytes::Bytes;
use fleetdb_engine::{Error, Result};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The sizes of objects that are timed, in bytes.
pub const SIZES: [usize; 4] = [10_000, 100_000, 1_000_000, 8_000_000];

/// The numbers of clients.
pub(super) const CLIENTS: [usize; 2] = [1, 4];

/// Most bytes that are written for one size and number of clients.
const MAX_BYTES: usize = 256 << 20;

/// Fewest writes of a client.
const MIN_WRITES: usize = 3;

/// Writes of objects of one size by some clients at a time.
#[derive(Clone, Debug, Serialize)]
pub struct WriteTimes {
    /// Bytes of an object.
    pub bytes: usize,
    /// Clients that write at the same time.
    pub clients: usize,
    /// Objects that were written.
    pub writes: usize,
    /// The median, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// Writes in a second, of all clients.
    pub writes_per_second: f64,
    /// Millions of bytes written in a second, by all clients.
    pub mb_per_second: f64,
    /// The price of the writes for a billion bytes, in dollars.
    pub dollars_per_gb: f64,
}

pub(super) async fn timed(bucket: &Bucket, effort: &Effort, progress: &impl Fn()) -> Result<Vec<WriteTimes>> {
    let mut all = Vec::new();
    for bytes in SIZES {
        for clients in CLIENTS {
            progress();
            all.push(of_size(bucket, effort, bytes, clients).await?);
        }
    }
    Ok(all)
}

async fn of_size(bucket: &Bucket, effort: &Effort, bytes: usize, clients: usize) -> Result<WriteTimes> {
    let (content, time) = (incompressible(bytes), effort.time_per_size);
    let (begun, most) = (Instant::now(), (MAX_BYTES / bytes / clients).max(MIN_WRITES));
    let writing = (0..clients).map(|client| {
        let within = bucket.within(&format!("timed/{bytes}/{clients}/{client}"));
        let content = content.clone();
        tokio::spawn(async move { writes(&within, &content, begun, time, most).await })
    });
    let writing: Vec<_> = writing.collect();
    let mut took = Vec::new();
    for client in writing {
        took.extend(client.await.map_err(|e| Error::bug(format!("a client failed: {e}")))??);
    }
    let seconds = begun.elapsed().as_secs_f64();
    took.sort_unstable();
    let quantile_ms = |part: f64| {
        let place = ((took.len() as f64 * part).ceil() as usize).clamp(1, took.len());
        took[place - 1].as_secs_f64() * 1e3
    };
    let writes_per_second = took.len() as f64 / seconds;
    Ok(WriteTimes {
        bytes,
        clients,
        writes: took.len(),
        p50_ms: quantile_ms(0.5),
        p99_ms: quantile_ms(0.99),
        writes_per_second,
        mb_per_second: writes_per_second * bytes as f64 / 1e6,
        dollars_per_gb: 1e9 / bytes as f64 * effort.price_per_million / 1e6,
    })
}

/// Creates objects of this content, one after another, and returns the time that each took.
async fn writes(
    bucket: &Bucket,
    content: &Bytes,
    begun: Instant,
    time: Duration,
    most: usize,
) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    while took.len() < MIN_WRITES || took.len() < most && begun.elapsed() < time {
        let at = Instant::now();
        let outcome = bucket.create(&format!("{:010}", took.len()), content.clone()).await?;
        took.push(at.elapsed());
        if outcome == Outcome::Refused {
            return Err(Error::damaged("the store refused an object that did not exist"));
        }
    }
    Ok(took)
}
