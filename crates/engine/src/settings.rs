//! The settings of an open database. Each has a default that suits a machine with a gigabyte of
//! memory or more; each says its unit, its range, and what gets worse in each direction.

use crate::error::{Error, Result};

/// When a write is acknowledged; what survives what.
///
/// ```
/// use fleetdb_engine::Durability;
/// assert_eq!("sync".parse::<Durability>().unwrap(), Durability::Sync);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// T1: in the operating system's page cache. Survives a killed process; a power cut may lose
    /// everything since the system last wrote its cache.
    Os,
    /// T2: as [`Os`](Self::Os), and an fsync follows within [`Settings::sync_interval_ms`].
    /// Survives a killed process; a power cut loses at most about that interval.
    Interval,
    /// T3: on the medium (`fdatasync` returned). Survives a power cut.
    #[default]
    Sync,
}

impl Durability {
    /// The tier's short name in reports: `T1`, `T2` or `T3`.
    pub fn tier(self) -> &'static str {
        match self {
            Self::Os => "T1",
            Self::Interval => "T2",
            Self::Sync => "T3",
        }
    }
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Os => "os",
            Self::Interval => "interval",
            Self::Sync => "sync",
        })
    }
}

impl std::str::FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "os" => Ok(Self::Os),
            "interval" => Ok(Self::Interval),
            "sync" => Ok(Self::Sync),
            other => Err(Error::input(format!("unknown durability '{other}': use sync, interval or os"))),
        }
    }
}

/// How a database behaves while it is open; nothing here changes what is stored.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The durability of a write that names none. Default: [`Durability::Sync`].
    pub durability: Durability,
    /// Milliseconds between two fsyncs for [`Durability::Interval`]. Default 200, range 1 to
    /// 60,000. Smaller: more fsyncs; larger: more is lost in a power cut.
    pub sync_interval_ms: u64,
    /// Bytes of memory for everything that grows with data: memtables, cache, flush, compaction, scans, replay. Default
    /// 1 GiB, range 32 MiB to 1 TiB; at least four times `memtable_bytes`, `cache_bytes` and 16 MiB together. Smaller:
    /// large scans and compactions are refused or wait. [`with_memory_limit`](Self::with_memory_limit) sets the
    /// three in proportion.
    pub memory_limit: usize,
    /// Bytes of the active memtables at which they are frozen and flushed. Default 64 MiB, range
    /// 64 KiB to 2 GiB. Smaller: more and smaller segments, slower reads; larger: more memory
    /// (up to twice this while a flush runs) and a longer recovery.
    pub memtable_bytes: usize,
    /// Bytes of decoded pages and index blocks kept for the next read. Default 64 MiB, range 0 to
    /// 64 GiB. Smaller: more decoding; larger: more memory.
    pub cache_bytes: usize,
    /// Milliseconds a write waits for a running flush when the memtables are full, before it is
    /// refused with [`ErrorKind::Retry`](crate::ErrorKind::Retry). Default 30,000, range 0 to 600,000.
    pub write_wait_ms: u64,
    /// Bytes that compaction writes in a second at most. Default 0: no limit; range 0 to 2^40. Smaller: compaction takes
    /// longer and disturbs less; too small for the data rate, and segments pile up until writers are held back.
    pub compaction_bytes_per_s: u64,
    /// Tables up to which line protocol makes more; SQL may make more. Default 1,000, range 1 to 100,000. Smaller: line protocol is
    /// told sooner that it makes too many; larger: with many tables each statement and each flush costs more.
    pub max_tables: usize,
    /// Columns of a table that line protocol adds to; SQL may add more. Default 1,000, range 1 to 4,096. Smaller: line protocol
    /// is told sooner that it makes too many; larger: each row that is written costs more, as does each statement's plan.
    pub max_columns: usize,
    /// Rows in one batch of a scan. Default 8,192, range 1 to 1,048,576. Smaller: more overhead a
    /// row; larger: more memory a scan.
    pub scan_batch_rows: usize,
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
        }
    }
}

/// Tables that there may be at all.
pub(crate) const MOST_TABLES: usize = 100_000;

/// Memory that a scan or a compaction always finds, beside memtables and cache.
const LEAST_WORK_BYTES: usize = 16 << 20;
/// Generations of memtables in memory: the active one, a frozen one, and about as much again twice over while the
/// frozen one is sorted for its flush.
const MEMTABLE_SHARES: usize = 4;

impl Settings {
    /// Default settings for a memory of `limit` bytes: an eighth of it for the cache, a quarter for memtables and
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

    /// The profile for small devices: a process that ingests and answers queries within 64 MiB. A share of them is
    /// left to the program itself.
    pub fn edge() -> Self {
        let settings = Self::with_memory_limit(32 << 20);
        Self { memtable_bytes: 2 << 20, cache_bytes: 3 << 20, scan_batch_rows: 4_096, ..settings }
    }

    /// What of the limit is left for scans and compaction.
    pub(crate) fn work_bytes(&self) -> usize {
        let fixed = self.memtable_bytes.saturating_mul(MEMTABLE_SHARES).saturating_add(self.cache_bytes);
        self.memory_limit.saturating_sub(fixed)
    }

    /// Every setting: its name, its value, its unit, and what it is for.
    pub fn list(&self) -> [(&'static str, String, &'static str, &'static str); 10] {
        [
            ("durability", self.durability.to_string(), "", "when a write that names no level is acknowledged"),
            ("sync_interval_ms", self.sync_interval_ms.to_string(), "ms", "time between two fsyncs at level interval"),
            ("memory_limit", self.memory_limit.to_string(), "bytes", "memory for everything that grows with data"),
            ("memtable_bytes", self.memtable_bytes.to_string(), "bytes", "memtables at which they are flushed"),
            ("cache_bytes", self.cache_bytes.to_string(), "bytes", "decoded pages and index blocks that are kept"),
            ("write_wait_ms", self.write_wait_ms.to_string(), "ms", "how long a write waits for room in the memtables"),
            ("compaction_bytes_per_s", self.compaction_bytes_per_s.to_string(), "bytes/s", "throttle; 0 is none"),
            ("max_tables", self.max_tables.to_string(), "tables", "up to which line protocol makes more"),
            ("max_columns", self.max_columns.to_string(), "columns", "how many of a table line protocol adds to"),
            ("scan_batch_rows", self.scan_batch_rows.to_string(), "rows", "rows in one batch of a scan"),
        ]
    }

    /// Checks every setting against its range.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) that names the setting, its value and its range.
    pub fn validate(&self) -> Result<()> {
        let ranges: [(&str, u64, u64, u64); 9] = [
            ("sync_interval_ms", self.sync_interval_ms, 1, 60_000),
            ("memory_limit", self.memory_limit as u64, 32 << 20, 1 << 40),
            ("memtable_bytes", self.memtable_bytes as u64, 64 << 10, 2 << 30),
            ("cache_bytes", self.cache_bytes as u64, 0, 64 << 30),
            ("write_wait_ms", self.write_wait_ms, 0, 600_000),
            ("compaction_bytes_per_s", self.compaction_bytes_per_s, 0, 1 << 40),
            ("max_tables", self.max_tables as u64, 1, MOST_TABLES as u64),
            // What a table may have at all.
            ("max_columns", self.max_columns as u64, 1, 4_096),
            ("scan_batch_rows", self.scan_batch_rows as u64, 1, 1 << 20),
        ];
        for (name, value, least, most) in ranges {
            if value < least || value > most {
                return Err(Error::input(format!("setting {name} is {value}: it must be from {least} to {most}")));
            }
        }
        if self.work_bytes() < LEAST_WORK_BYTES {
            return Err(Error::input(format!(
                "setting memory_limit is {}: four times memtable_bytes ({}), cache_bytes ({}) and {LEAST_WORK_BYTES} must fit",
                self.memory_limit, self.memtable_bytes, self.cache_bytes
            )));
        }
        Ok(())
    }
}
