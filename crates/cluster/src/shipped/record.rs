//! What a database remembers of its shipping: the last manifest that it wrote to each bucket, and
//! what it has tried to write since.
//!
//! It tells a database from its copies. If a bucket's newest manifest is not one that this
//! directory wrote or was restored from, another copy ships there, and this one must not.

use fleetdb_engine::io::Io;
use fleetdb_engine::{Error, Generation, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The file, relative to the database directory.
const FILE: &str = "shipped.json";

/// The records of all buckets, by URL.
type Records = BTreeMap<String, Record>;

/// What is known of one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The last manifest that is known to be there; 0 for none.
    pub(super) number: u64,
    /// Its SHA-256.
    pub(super) sum: String,
    /// The sums of what may have been written as the next one.
    pub(super) tried: Vec<String>,
    /// The last generation whose rows it has.
    #[serde(default)]
    pub(super) flushed: Generation,
}

impl Record {
    /// A record of a manifest that is there.
    pub(super) fn of(number: u64, sum: String, flushed: Generation) -> Self {
        Self { number, sum, tried: Vec::new(), flushed }
    }

    /// Reads the record of a bucket.
    pub(super) fn read(io: &Io, url: &str) -> Result<Self> {
        Ok(read_all(io)?.remove(url).unwrap_or_default())
    }

    /// Makes the record of a bucket durable.
    pub(super) fn write(&self, io: &Io, url: &str) -> Result<()> {
        let mut records = read_all(io)?;
        records.insert(url.to_owned(), self.clone());
        crate::json_file::write(io, FILE, &records)
    }
}

fn read_all(io: &Io) -> Result<Records> {
    if !io.storage.list("")?.iter().any(|name| name == FILE) {
        return Ok(Records::new());
    }
    let json = io.storage.read(FILE)?.read_all()?;
    serde_json::from_slice(&json).map_err(|e| {
        Error::damaged(format!("{}/{FILE}: {e}", io.storage.describe()))
            .with_hint("Remove the file, and ship to a new prefix.")
    })
}
