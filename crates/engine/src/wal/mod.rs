//! The write-ahead log. Every batch is written here before it is acknowledged.
//!
//! 1. [`record`]: a batch as bytes.
//! 2. [`frame`]: bytes with length, checksum and sequence; WAL files and how to read them back.
//! 3. [`log`]: a thread writes frames to the file; all waiters share one fdatasync.

pub(crate) mod frame;
pub(crate) mod log;
pub(crate) mod record;
