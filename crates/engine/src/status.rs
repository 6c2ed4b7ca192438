//! What operators want to know of an open database.

use crate::catalog::Catalog;
use crate::compaction::plan;
use crate::error::Error;
use crate::shipping::{AdoptingLag, ShippingLag, seconds_since};

/// Current state of the database, and totals since it was opened.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Bytes of the active memtables.
    pub memtable_bytes: usize,
    /// Frozen generations that are not in segments yet.
    pub frozen_generations: usize,
    /// Number of segments, over all tables.
    pub segments: usize,
    /// Total size of all segments.
    pub segment_bytes: u64,
    /// Bytes of decoded pages in the cache.
    pub cache_bytes: u64,
    /// Memory held by scans and compactions.
    pub work_bytes: usize,
    /// Bytes written to WAL files.
    pub wal_bytes_written: u64,
    /// Number of fdatasync calls on WAL files.
    pub wal_syncs: u64,
    /// Size of the segments written by flushes.
    pub flushed_bytes: u64,
    /// Size of the segments written by compactions.
    pub compacted_bytes: u64,
    /// Number of merges done.
    pub compactions: u64,
    /// Size of the segments that wait to be merged.
    pub compaction_debt_bytes: u64,
    /// Whether flushes, and then writers, wait for compaction because a partition has too many runs.
    pub held_back: bool,
    /// The table being compacted.
    pub compacting: Option<String>,
    /// The error of the last flush, until one succeeds.
    pub flush_error: Option<Error>,
    /// The error of the last compaction, until one succeeds.
    pub compaction_error: Option<Error>,
    /// How far the database is shipped to another place; `None` if it is not shipped.
    pub shipping: Option<ShippingLag>,
    /// How the rows of other databases are adopted; `None` if they are not.
    pub adopting: Option<AdoptingLag>,
    /// How old the rows are that a [`Reader`](crate::Reader) sees; `None` for a database that is open for
    /// writing.
    pub reading: Option<Reading>,
}

/// How old the rows are that a [`Reader`](crate::Reader) sees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The time of what the reader sees, in nanoseconds since 1970: that of the last refresh, or for a
    /// copy elsewhere, when it was complete. The copy may lack what was written while it was made.
    pub as_of_ns: i64,
    /// Seconds since then.
    pub age_seconds: u64,
    /// Why the last refresh failed, until one succeeds.
    pub error: Option<Error>,
}

impl Reading {
    pub(crate) fn new(as_of_ns: i64, now_ns: i64, error: Option<Error>) -> Self {
        Self { as_of_ns, age_seconds: seconds_since(as_of_ns, now_ns), error }
    }
}

impl Status {
    /// The part that is known from tables and segments.
    pub(crate) fn of(catalog: &Catalog) -> Self {
        let entries = || catalog.tables.values().flat_map(|table| table.segments.iter().map(|listed| &listed.entry));
        let debt = catalog.tables.values().map(|table| {
            let entries: Vec<_> = table.segments.iter().map(|listed| &listed.entry).collect();
            let times = table.segments.container_times();
            plan::debt_bytes(&entries, &|id| times.get(&id).copied())
        });
        Self {
            memtable_bytes: catalog.tables.values().map(|table| table.active.read().bytes()).sum(),
            segments: entries().count(),
            segment_bytes: entries().map(|entry| entry.bytes).sum(),
            compaction_debt_bytes: debt.sum(),
            ..Self::default()
        }
    }
}
