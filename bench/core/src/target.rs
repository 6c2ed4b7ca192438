//! What a database must support to be measured.

use crate::Outcome;
use crate::query::Query;
use crate::statement::{Form, Parameter};
use crate::table::Table;
use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Durability at which a write is acknowledged; shown with every number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    /// In the memory of the process, or not at all.
    T0,
    /// In the page cache: survives a killed process, but not a power cut.
    T1,
    /// Synced on a timer: the loss is bounded.
    T2,
    /// Synced before the acknowledgement.
    T3,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The settings to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Those of the publication, including its mistakes.
    Published,
    /// One durability tier, the same keys, and the same semantics for all targets.
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

/// What a target receives when it starts.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// The target's own directory, which is removed later. Data from an earlier start is still
    /// there.
    pub directory: &'a Path,
    /// The settings to use.
    pub profile: Profile,
    /// The URL of a running instance; `None` starts the target in the directory.
    pub url: Option<&'a str>,
}

/// A target's description of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Info {
    /// The version it reports.
    pub version: String,
    /// The durability at which it acknowledges writes.
    pub tier: Tier,
    /// The settings that differ from its defaults.
    pub settings: Vec<String>,
}

/// A running database. If it was started by this program, dropping it stops it.
pub trait Target {
    /// The target's version, durability and settings.
    fn info(&self) -> Info;

    /// Creates the tables. In a directory used before, they already exist; at a URL they must not
    /// exist.
    ///
    /// # Errors
    /// Those of the database.
    fn create(&mut self, tables: &[Table]) -> Outcome<()>;

    /// Removes the tables that were created. Called for a target at a URL, where they would remain.
    ///
    /// # Errors
    /// Those of the database. If a table remains, the next run reports it.
    fn remove(&mut self) -> Outcome<()> {
        Ok(())
    }

    /// Opens a connection for a thread.
    ///
    /// # Errors
    /// Those of the database.
    fn connect(&self) -> Outcome<Box<dyn Connection>>;

    /// Waits until flushing and compaction have finished, or triggers them.
    ///
    /// # Errors
    /// Those of the database.
    fn settle(&mut self) -> Outcome<()>;

    /// Its size on disk in bytes; 0 if that cannot be determined from here.
    ///
    /// # Errors
    /// The files cannot be listed.
    fn disk_bytes(&self) -> Outcome<u64>;

    /// The processes it consists of, whose descendants count as well; none if it runs inside the
    /// client.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Processes other than this one that are its client, such as one that runs a client of another
    /// language.
    fn client_processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Whether it is no database but shows what cannot be undercut: it takes writes, stores nothing
    /// and answers no query.
    fn is_floor(&self) -> bool {
        false
    }

    /// Whether its connections [execute](Connection::execute) statements.
    fn takes_statements(&self) -> bool {
        false
    }

    /// The reason why it cannot answer a query, if so; shown in the report.
    fn unsupported(&self, _query: &Query) -> Option<&'static str> {
        None
    }
}

/// A connection to a target, used by one thread.
pub trait Connection: Send {
    /// Writes rows to one or more tables; a row with an existing key replaces the old row. Returns
    /// when all rows are acknowledged, as one transaction if the target has transactions.
    ///
    /// # Errors
    /// Those of the database; the state of the rows is then unknown.
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()>;

    /// Runs a query; the answer has the query's [columns](Query::columns).
    ///
    /// # Errors
    /// Those of the database.
    fn query(&mut self, query: &Query) -> Outcome<RecordBatch>;

    /// Runs a statement, prepared or with its values as literals; the answer has the form's
    /// columns.
    ///
    /// # Errors
    /// Those of the database, or it takes no statements.
    fn execute(&mut self, form: &Form, _values: &[Parameter], _is_prepared: bool) -> Outcome<RecordBatch> {
        Err(format!("{}: this target takes no statements", form.name).into())
    }
}

/// An entry in the list of all targets.
pub struct Entry {
    /// The name on the command line.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// Returns what is missing on this machine to start the target, and how to get it; `None` if
    /// the target is never started here.
    pub missing: Option<fn() -> Option<String>>,
    /// The form of a URL at which a running instance is measured.
    pub url: Option<&'static str>,
    /// Starts the target, or connects to it.
    pub start: StartTarget,
}

/// Starts a target, or connects to it.
pub type StartTarget = fn(&Start<'_>) -> Outcome<Box<dyn Target>>;

impl Entry {
    /// Why the target cannot be measured without a URL, if so.
    pub fn lacking(&self) -> Option<String> {
        match self.missing {
            Some(missing) => missing(),
            None => Some(format!("the suite does not start it: use --url {}={}", self.name, self.url.unwrap_or("URL"))),
        }
    }
}
