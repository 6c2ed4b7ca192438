//! The crash simulator: the real engine over a simulated disk, against a model that knows what must be there.
//!
//! 1. [`disk`]: files whose unsynced writes a crash loses, keeps, tears, reorders or flips bits of; fsyncs that fail;
//!    a disk that gets full. Everything is drawn from one seed.
//! 2. [`model`]: what was written, in order, and what a crash may take back at each durability level.
//! 3. [`run`]: a script of random work (writes, deletes, flushes, compactions, schema changes, retention, backups) with a crash at some sync, then recovery, comparison, and on with the work.
//!    Each seed draws its own weights (swarm testing: Groce et al., ISSTA 2012), so that rare mixtures come up.

pub mod disk;
pub mod fuzz;
pub mod model;
mod operations;
pub mod run;
