//! What a database must be able to do to be measured.

use crate::Outcome;
use crate::query::Query;
use crate::table::Table;
use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// When a write is acknowledged, printed beside every number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    /// In the process' memory, or not at all.
    T0,
    /// In the page cache: survives a killed process, not a power cut.
    T1,
    /// Synced on a timer: a bounded loss.
    T2,
    /// Synced before.
    T3,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Whose settings are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Those of the publication, its mistakes included.
    Published,
    /// One durability tier, equal keys, equal meaning.
    Fair,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Published => "published",
            Self::Fair => "fair",
        })
    }
}

/// What a target is told when it starts.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// A directory of its own, which is removed later. What an earlier start left in it is found again.
    pub directory: &'a Path,
    /// Whose settings.
    pub profile: Profile,
    /// Where it runs already; `None` to start it in the directory.
    pub url: Option<&'a str>,
}

/// What a running target says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Info {
    /// Its version, as it says it.
    pub version: String,
    /// What it has acknowledged a write at.
    pub tier: Tier,
    /// Settings that differ from its defaults.
    pub settings: Vec<String>,
}

/// A running database. It ends when it is dropped, if it was started here.
pub trait Target {
    /// What it is, and with which settings.
    fn info(&self) -> Info;

    /// Makes the tables; in a directory that was used before they are there. At a URL they must not be.
    ///
    /// # Errors
    /// The database's.
    fn create(&mut self, tables: &[Table]) -> Outcome<()>;

    /// Removes the tables that were made: asked for at a URL, where they would stay.
    ///
    /// # Errors
    /// The database's; what stays behind makes the next run say so.
    fn remove(&mut self) -> Outcome<()> {
        Ok(())
    }

    /// Opens a connection for a thread.
    ///
    /// # Errors
    /// The database's.
    fn connect(&self) -> Outcome<Box<dyn Connection>>;

    /// Waits until flushing and compaction have nothing left to do, or has it done.
    ///
    /// # Errors
    /// The database's.
    fn settle(&mut self) -> Outcome<()>;

    /// What it keeps on disk, in bytes; 0 where that cannot be seen from here.
    ///
    /// # Errors
    /// The files cannot be listed.
    fn disk_bytes(&self) -> Outcome<u64>;

    /// Processes of its own, whose children count too; none if it runs inside the client's.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Why it cannot answer a query, if so; shown in the report.
    fn lacks(&self, _query: &Query) -> Option<&'static str> {
        None
    }
}

/// A connection to a target, used by one thread.
pub trait Connection: Send {
    /// Writes rows of some tables; a row with a known key replaces the one that is there. Returns when all are
    /// acknowledged, as one transaction where the target has them.
    ///
    /// # Errors
    /// The database's; nothing is known of the rows then.
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()>;

    /// Asks; the answer has the query's [columns](Query::columns).
    ///
    /// # Errors
    /// The database's.
    fn query(&mut self, query: &Query) -> Outcome<RecordBatch>;
}

/// A target that can be named: a line in the list of all.
pub struct Entry {
    /// How the command line names it.
    pub name: &'static str,
    /// A line for people.
    pub about: &'static str,
    /// What is missing on this machine to start it, and how to get it; no function if it is never started here.
    pub missing: Option<fn() -> Option<String>>,
    /// What a URL looks like at which one that runs already is measured.
    pub url: Option<&'static str>,
    /// Starts it, or connects to it.
    pub start: fn(&Start<'_>) -> Outcome<Box<dyn Target>>,
}

impl Entry {
    /// Why it cannot be measured without a URL, if so.
    pub fn lacking(&self) -> Option<String> {
        match self.missing {
            Some(missing) => missing(),
            None => Some(format!("it is not started here: give --url {}={}", self.name, self.url.unwrap_or("URL"))),
        }
    }
}
