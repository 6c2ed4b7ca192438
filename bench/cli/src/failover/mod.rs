//! `run failover`: a database whose log is in a bucket, and that survives the loss of its machine.
//!
//! 1. `takeover`: the process of an owner is killed while it writes, and its directory is removed.
//!    Another process that stands by takes over. Every acknowledged row must be there.
//! 2. Small writes at `sync` and at `shared`, with one writer and with many.
//! 3. An ingest outside of a cluster, in one at `sync`, and in one at `shared`.

mod owner;
mod takeover;
mod writes;

pub use takeover::{NODE, NodeArguments, run_node};

use crate::soak::Test;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::target::Tier;
use serde::Serialize;
use std::time::Duration;

/// The size of the experiment.
#[derive(clap::Args, Clone, Serialize)]
pub struct Scale {
    /// The bucket, s3://BUCKET/PREFIX, where nothing is yet [default: a directory]
    #[arg(long)]
    bucket: Option<String>,
    /// How often the owner is lost
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=50))]
    losses: u64,
    /// Time in milliseconds without a renewal by the owner after which another node takes over
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(500..=60_000))]
    takeover_after_ms: u64,
    /// Rows of each ingest that is compared, in millions
    #[arg(long, default_value_t = 5.0)]
    ingest_millions: f64,
}

/// Runs the experiment.
pub fn run(test: &mut Test<'_>, scale: &Scale) -> Outcome<()> {
    let bucket = scale.bucket.as_deref();
    let settings = [
        format!("takeover_after_ms {}", scale.takeover_after_ms),
        format!("bucket: {}", bucket.unwrap_or("a directory")),
    ];
    test.describe(Tier::T3, &settings);
    let part = |name: &str| bucket.map(|bucket| format!("{bucket}/{name}"));
    let takeover_after = Duration::from_millis(scale.takeover_after_ms);
    takeover::run(test, part("takeover").as_deref(), takeover_after, scale.losses)?;
    if !test.is_stopped() {
        writes::small(test, part("small").as_deref())?;
    }
    if !test.is_stopped() {
        writes::ingest(test, bucket, (scale.ingest_millions * 1e6) as u64)?;
    }
    Ok(())
}
