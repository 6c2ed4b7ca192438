//! The database a session works on: opened for writing, or opened read-only while another process
//! writes it.

use fleetdb_engine::{
    Code, Database, Error, QueryMemory, Reader, Result, Settings, Status, StoredQueries, TableId, View,
};
use std::path::Path;
use std::sync::Arc;

/// An open database.
#[derive(Clone)]
pub enum Store {
    /// Opened for writing.
    Writer(Arc<Database>),
    /// Opened for reading while another process may write.
    Reader(Arc<Reader>, Refresh),
}

/// When a reader sees newer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// When a statement begins.
    EachStatement,
    /// When the owner of the reader calls [`Reader::refresh`].
    ByOwner,
}

impl Store {
    /// All tables as they are now, or for a reader, as of its last refresh.
    pub fn view(&self) -> View {
        match self {
            Self::Writer(db) => db.view(),
            Self::Reader(reader, _) => reader.view(),
        }
    }

    /// Like [`view`](Self::view), with at least these tables if some are given.
    pub fn view_of(&self, tables: Option<&[TableId]>) -> View {
        match (self, tables) {
            (Self::Writer(db), Some(tables)) => db.view_of(tables),
            _ => self.view(),
        }
    }

    /// A view to answer a client from, with at least these tables; see
    /// [`Database::settled_view`].
    ///
    /// # Errors
    /// As that method.
    pub fn settled_view(&self, tables: Option<&[TableId]>, may_wait: &dyn Fn() -> Result<()>) -> Result<View> {
        match self {
            Self::Writer(db) => db.settled_view(tables, may_wait),
            Self::Reader(reader, _) => Ok(reader.view()),
        }
    }

    /// The queries that the database keeps by name.
    pub fn stored_queries(&self) -> Arc<StoredQueries> {
        match self {
            Self::Writer(db) => db.stored_queries(),
            Self::Reader(reader, _) => reader.stored_queries(),
        }
    }

    /// Makes a reader see newer writes.
    pub fn refresh(&self) -> Result<()> {
        match self {
            Self::Writer(_) => Ok(()),
            Self::Reader(reader, Refresh::EachStatement) => reader.refresh(),
            Self::Reader(_, Refresh::ByOwner) => Ok(()),
        }
    }

    /// The memory budget for queries.
    pub fn query_memory(&self) -> QueryMemory {
        match self {
            Self::Writer(db) => db.query_memory(),
            Self::Reader(reader, _) => reader.query_memory(),
        }
    }

    /// What the database has and does.
    pub fn status(&self) -> Status {
        match self {
            Self::Writer(db) => db.status(),
            Self::Reader(reader, _) => reader.status(),
        }
    }

    /// The time of what is seen, in nanoseconds since 1970: now, or for a reader, [`as_of_ns`](fleetdb_engine::Reading::as_of_ns).
    pub fn as_of_ns(&self) -> i64 {
        match self {
            Self::Writer(db) => db.now_ns(),
            Self::Reader(reader, _) => reader.status().reading.unwrap_or_default().as_of_ns,
        }
    }

    /// The settings that the database was opened with.
    pub fn settings(&self) -> &Settings {
        match self {
            Self::Writer(db) => db.settings(),
            Self::Reader(reader, _) => reader.settings(),
        }
    }

    /// The database for writing; an error for a reader.
    pub fn writer(&self) -> Result<&Arc<Database>> {
        match self {
            Self::Writer(db) => Ok(db),
            Self::Reader(..) => Err(Error::new(Code::ReadOnlyTransaction, "the database was opened to read it")
                .with_hint("Write where it is opened without --read-only.")),
        }
    }
}

/// Refuses to write to the directory of a node of a cluster, which would not notice.
///
/// # Errors
/// It is one.
pub fn refuse_node(data: &Path) -> Result<()> {
    match data.join("cluster.json").exists() {
        true => Err(Error::invalid(format!("{} is the directory of a node of a cluster", data.display())).with_hint(
            "To query it, connect to the server, or add --read-only. Removing cluster.json takes it out of the cluster \
                 for ever.",
        )),
        false => Ok(()),
    }
}
