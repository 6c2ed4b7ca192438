//! The crash simulator: runs the real engine on a simulated disk and compares it with a model.
//!
//! 1. [`disk`]: files whose unsynced writes a crash loses, keeps, tears, reorders or corrupts;
//!    fsyncs that fail; a disk that fills up. Everything is derived from one seed.
//! 2. [`model`]: what was written, in order, and what a crash may undo at each durability level.
//! 3. [`run`]: a script of random work (writes, deletes, flushes, compactions, schema changes,
//!    retention, backups) with a crash at some sync, then recovery and comparison, repeatedly. Each
//!    seed draws its own weights (swarm testing: Groce et al., ISSTA 2012), so that rare
//!    combinations occur.
//! 4. [`takeover`]: apart from these, every state of a model of how a node takes over a partition
//!    whose log is in a bucket.

mod definitions;
pub mod disk;
pub mod fuzz;
pub mod model;
mod operations;
pub mod run;
pub mod takeover;
