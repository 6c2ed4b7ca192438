//! Rows from seeds: the same seed gives the same rows to every target, and any part can be made anywhere.

pub mod cpu;
pub mod meters;
pub mod trucks;
