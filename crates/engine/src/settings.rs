//! The settings of an open database. The defaults suit a machine with at least a gigabyte of
//! memory. Each setting states its unit, its range, and what gets worse in each direction.

use crate::error::{Error, Result};

/// When a write is acknowledged, and which failures it then survives.
///
/// ```
/// use fleetdb_engine::Durability;
/// assert_eq!("sync".parse::<Durability>().unwrap(), Durability::Sync);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// T1: in the operating system's page cache. Survives the death of the process. A power cut may
    /// lose everything since the system last wrote back its cache.
    Os,
    /// T2: as [`Os`](Self::Os), followed by an fsync within [`Settings::sync_interval_ms`].
    /// Survives the death of the process. A power cut loses about that interval at most.
    Interval,
    /// T3: on stable storage (`fdatasync` returned). Survives a power cut. In a cluster this is the level
    /// `local`: the loss of the machine may lose what its bucket does not have yet.
    #[default]
    Sync,
    /// T4: as [`Sync`](Self::Sync), and in the log in the cluster's bucket. Survives the loss of the
    /// machine. Only a node of a cluster has it; see [`Database::share_log`](crate::Database::share_log).
    Shared,
}

impl Durability {
    /// The tier's short name in reports: `T1` to `T4`.
    pub fn tier(self) -> &'static str {
        match self {
            Self::Os => "T1",
            Self::Interval => "T2",
            Self::Sync => "T3",
            Self::Shared => "T4",
        }
    }
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Os => "os",
            Self::Interval => "interval",
            Self::Sync => "sync",
            Self::Shared => "shared",
        })
    }
}

impl std::str::FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "os" => Ok(Self::Os),
            "interval" => Ok(Self::Interval),
            "sync" | "local" => Ok(Self::Sync),
            "shared" => Ok(Self::Shared),
            other => Err(Error::invalid(format!(
                "unknown durability '{other}': use sync, interval or os, and in a cluster shared or local"
            ))),
        }
    }
}

/// How a database behaves while it is open. No setting changes what is stored.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The durability of writes that do not name one. Default: [`Durability::Sync`].
    pub durability: Durability,
    /// Milliseconds between fsyncs for [`Durability::Interval`]. Default 200, range 1 to 60,000.
    /// Smaller: more fsyncs. Larger: a power cut loses more.
    pub sync_interval_ms: u64,
    /// Bytes of memory for everything that grows with the data: memtables, cache, flush,
    /// compaction, scans, replay. Default 1 GiB, range 32 MiB to 1 TiB, and at least 4 ×
    /// `memtable_bytes` + `cache_bytes` + 16 MiB. Smaller: large scans and compactions wait or are
    /// refused. [`with_memory_limit`](Self::with_memory_limit) sets all three in proportion.
    pub memory_limit: usize,
    /// Bytes of active memtables at which they are frozen and flushed. Default 64 MiB, range 64 KiB
    /// to 2 GiB. Smaller: more and smaller segments, slower reads. Larger: more memory (up to twice
    /// this while a flush runs) and a longer recovery.
    pub memtable_bytes: usize,
    /// Bytes of decoded pages, index blocks, and row numbers of containers in memtables, kept for
    /// later reads. Default 64 MiB, range 0 to 64 GiB. Smaller: more decoding. Larger: more memory.
    pub cache_bytes: usize,
    /// Milliseconds that a write waits for a running flush when the memtables are full, before it
    /// fails with [`ErrorKind::Retry`](crate::ErrorKind::Retry). Default 30,000, range 0 to
    /// 600,000.
    pub write_wait_ms: u64,
    /// Maximum bytes per second that compaction writes. Default 0, which means no limit; range 0 to
    /// 2^40. Smaller: compaction takes longer and disturbs less. Too small for the data rate:
    /// segments pile up until writers must wait.
    pub compaction_bytes_per_s: u64,
    /// Number of tables up to which line protocol creates new ones; SQL may create more. Default
    /// 1,000, range 1 to 100,000. Smaller: line protocol is refused sooner. Larger: with many
    /// tables, each statement and each flush costs more.
    pub max_tables: usize,
    /// Number of columns up to which line protocol adds columns to a table; SQL may add more.
    /// Default 1,000, range 1 to 4,096. Smaller: line protocol is refused sooner. Larger: each
    /// written row and each statement's plan costs more.
    pub max_columns: usize,
    /// Rows per batch of a scan. Default 8,192, range 1 to 1,048,576. Smaller: more overhead per
    /// row. Larger: more memory per scan.
    pub scan_batch_rows: usize,
    /// Threads that read the rows of long scans, including the one that asks for them. Default 0,
    /// which means one for each processor; range 0 to 256. Smaller: long scans take longer. Larger:
    /// they take more memory, and processors from other work.
    pub scan_threads: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            sync_interval_ms: 200,
            memory_limit: 1 << 30,
            memtable_bytes: 64 << 20,
            cache_bytes: 64 << 20,
            write_wait_ms: 30_000,
            compaction_bytes_per_s: 0,
            max_tables: 1_000,
            max_columns: 1_000,
            scan_batch_rows: 8_192,
            scan_threads: 0,
        }
    }
}

/// The maximum number of tables in a database.
pub(crate) const MAX_TABLES: usize = 100_000;

/// Memory always left for scans and compaction, in addition to memtables and cache.
const MIN_WORK_BYTES: usize = 16 << 20;
/// The memtable memory to reserve, in units of `memtable_bytes`: the active generation, the frozen
/// one, and twice as much again while the frozen one is sorted for its flush.
const MEMTABLE_SHARES: usize = 4;

impl Settings {
    /// Default settings for a memory limit: an eighth for the cache, a quarter for memtables and
    /// their flush, the rest for compaction and scans.
    ///
    /// ```
    /// use fleetdb_engine::Settings;
    /// let settings = Settings::with_memory_limit(256 << 20);
    /// assert_eq!(settings.memtable_bytes, 16 << 20);
    /// settings.validate().unwrap();
    /// ```
    pub fn with_memory_limit(limit: usize) -> Self {
        Self { memory_limit: limit, memtable_bytes: limit / 16, cache_bytes: limit / 8, ..Self::default() }
    }

    /// The profile for small devices: a process that ingests and answers queries within 64 MiB. The
    /// memory limit is 32 MiB; the rest is for the program itself.
    pub fn edge() -> Self {
        let settings = Self::with_memory_limit(32 << 20);
        Self { memtable_bytes: 2 << 20, cache_bytes: 3 << 20, scan_batch_rows: 4_096, ..settings }
    }

    /// The part of the limit left for scans and compaction.
    pub(crate) fn work_bytes(&self) -> usize {
        let fixed = self.memtable_bytes.saturating_mul(MEMTABLE_SHARES).saturating_add(self.cache_bytes);
        self.memory_limit.saturating_sub(fixed)
    }

    /// All settings, each with its name, value, unit and purpose.
    pub fn list(&self) -> [(&'static str, String, &'static str, &'static str); 11] {
        [
            ("durability", self.durability.to_string(), "", "default durability level of writes"),
            ("sync_interval_ms", self.sync_interval_ms.to_string(), "ms", "time between fsyncs at level interval"),
            ("memory_limit", self.memory_limit.to_string(), "bytes", "limit of all memory that grows with data"),
            ("memtable_bytes", self.memtable_bytes.to_string(), "bytes", "size at which the memtables are flushed"),
            ("cache_bytes", self.cache_bytes.to_string(), "bytes", "cache of pages, indexes and row numbers"),
            ("write_wait_ms", self.write_wait_ms.to_string(), "ms", "how long a write waits for memtable space"),
            ("compaction_bytes_per_s", self.compaction_bytes_per_s.to_string(), "bytes/s", "limit; 0 means none"),
            ("max_tables", self.max_tables.to_string(), "tables", "limit for tables added by line protocol"),
            ("max_columns", self.max_columns.to_string(), "columns", "limit for columns added by line protocol"),
            ("scan_batch_rows", self.scan_batch_rows.to_string(), "rows", "rows in one batch of a scan"),
            ("scan_threads", self.scan_threads.to_string(), "threads", "threads of long scans; 0: all processors"),
        ]
    }

    /// Checks every setting against its range.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) naming the setting, its value and its range.
    pub fn validate(&self) -> Result<()> {
        let ranges: [(&str, u64, u64, u64); 10] = [
            ("sync_interval_ms", self.sync_interval_ms, 1, 60_000),
            ("memory_limit", self.memory_limit as u64, 32 << 20, 1 << 40),
            ("memtable_bytes", self.memtable_bytes as u64, 64 << 10, 2 << 30),
            ("cache_bytes", self.cache_bytes as u64, 0, 64 << 30),
            ("write_wait_ms", self.write_wait_ms, 0, 600_000),
            ("compaction_bytes_per_s", self.compaction_bytes_per_s, 0, 1 << 40),
            ("max_tables", self.max_tables as u64, 1, MAX_TABLES as u64),
            // The limit for any table, `MAX_COLUMNS`.
            ("max_columns", self.max_columns as u64, 1, 4_096),
            ("scan_batch_rows", self.scan_batch_rows as u64, 1, 1 << 20),
            ("scan_threads", self.scan_threads as u64, 0, 256),
        ];
        for (name, value, least, most) in ranges {
            if value < least || value > most {
                return Err(Error::invalid(format!("setting {name} is {value}, but must be from {least} to {most}")));
            }
        }
        if self.work_bytes() < MIN_WORK_BYTES {
            return Err(Error::invalid(format!(
                "setting memory_limit is {}, but must be at least the sum of four times memtable_bytes ({}), \
                 cache_bytes ({}) and {MIN_WORK_BYTES}",
                self.memory_limit, self.memtable_bytes, self.cache_bytes
            )));
        }
        Ok(())
    }
}
