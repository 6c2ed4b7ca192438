//! A database that survives the loss of its machine: its log, its segments and the name of its
//! owner are in a bucket, and another node goes on with it.
//!
//! | object in `p/00` | what it is |
//! |---|---|
//! | `owner` | the node that owns the database, replaced only if it is unchanged ([`owner`]) |
//! | `wal/EPOCH/NUMBER` | pieces of WAL files, created only if absent, in order ([`log`]) |
//! | `manifest/`, `segments/` | as of any [shipped](crate::shipped) database; a manifest also says where the log goes on |
//!
//! 1. A [`Node`] stands by: it copies the segments of the newest manifest, and watches the owner.
//! 2. It takes over ([`takeover`]): it claims the next epoch, writes the next manifest in the name
//!    of that epoch, closes the logs of earlier epochs, and rebuilds the database from what is
//!    there.
//! 3. It serves as an [`Ownership`]: [`appender`] copies the log to the bucket, [`covering`] ships
//!    manifests, so that the log can be trimmed, and [`lease`] renews the claim.
//! 4. Once another node has claimed the database, the node is fenced: its next append or renewal
//!    finds another's object in its place.
//!
//! `crates/sim/src/takeover.rs` is a model of this, whose states are visited exhaustively. The
//! bucket never has a batch that the owner's disk lacks, so an owner that is started again, and was
//! not replaced meanwhile, goes on with its own directory.

mod appender;
mod copied;
mod covering;
mod definitions;
mod lease;
mod log;
mod node;
mod owner;
mod record;
mod takeover;

pub use node::{Claim, GiveUp, Node, NodeOptions, Ownership, Taken};
pub use owner::Owner;

/// The only partition.
const PARTITION: &str = "p/00";
/// The object that names the owner.
const OWNER: &str = "owner";
/// The folder of the log.
const LOG: &str = "wal";
/// The file in the data directory with what a node remembers.
const FILE: &str = "cluster.json";

#[cfg(test)]
#[path = "failover_tests.rs"]
mod tests;
