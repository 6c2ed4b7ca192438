//! What a node remembers in its data directory: who it is, and up to which epoch the directory has
//! all that is in the bucket.

use super::FILE;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Error, Result};
use serde::{Deserialize, Serialize};

/// What a node remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The URL of the cluster.
    pub(super) cluster: String,
    /// Identifies the node.
    pub(super) node: String,
    /// The last epoch in which this directory was served. 0 for none.
    pub(super) owned: u64,
}

impl Record {
    /// Reads the record of a directory, or begins one.
    pub(super) fn open(io: &Io, cluster: &str) -> Result<Self> {
        io.storage.create_directory("")?;
        if !io.storage.list("")?.iter().any(|name| name == FILE) {
            let node = format!("{:016x}", io.random.next_u64());
            let record = Self { cluster: cluster.to_owned(), node, owned: 0 };
            record.write(io)?;
            return Ok(record);
        }
        let json = io.storage.read(FILE)?.read_all()?;
        let record: Self = serde_json::from_slice(&json).map_err(|e| {
            Error::damaged(format!("{}/{FILE}: {e}", io.storage.describe()))
                .with_hint("Start the node with an empty directory.")
        })?;
        if record.cluster != cluster {
            return Err(Error::invalid(format!(
                "{} belongs to the cluster {}, not to {cluster}: choose another directory",
                io.storage.describe(),
                record.cluster
            )));
        }
        Ok(record)
    }

    /// Makes the record durable.
    pub(super) fn write(&self, io: &Io) -> Result<()> {
        crate::json_file::write(io, FILE, self)
    }
}
