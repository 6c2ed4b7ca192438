//! The write-ahead log: every batch is here before it is acknowledged.
//!
//! 1. [`record`]: a batch as bytes.
//! 2. [`frame`]: bytes with length, checksum and sequence, in files; how a file is read back.
//! 3. [`log`]: frames to the file, by one thread; whoever waits shares one fdatasync.

pub(crate) mod frame;
pub(crate) mod log;
pub(crate) mod record;
