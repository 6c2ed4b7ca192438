//! The database a session works on: opened for writing, or opened read-only while another process
//! writes it.

use fleetdb_engine::{Code, Database, Error, QueryMemory, Reader, Result, StoredQueries, TableId, View};
use std::sync::Arc;

/// An open database.
#[derive(Clone)]
pub enum Store {
    /// Opened for writing.
    Writer(Arc<Database>),
    /// Opened for reading while another process may write.
    Reader(Arc<Reader>),
}

impl Store {
    /// All tables as they are now, or for a reader, as of its last refresh.
    pub fn view(&self) -> View {
        match self {
            Self::Writer(db) => db.view(),
            Self::Reader(reader) => reader.view(),
        }
    }

    /// Like [`view`](Self::view), with at least these tables.
    pub fn view_of(&self, tables: &[TableId]) -> View {
        match self {
            Self::Writer(db) => db.view_of(tables),
            Self::Reader(reader) => reader.view(),
        }
    }

    /// The queries that the database keeps by name.
    pub fn stored_queries(&self) -> Arc<StoredQueries> {
        match self {
            Self::Writer(db) => db.stored_queries(),
            Self::Reader(reader) => reader.stored_queries(),
        }
    }

    /// Makes a reader see newer writes.
    pub fn refresh(&self) -> Result<()> {
        match self {
            Self::Writer(_) => Ok(()),
            Self::Reader(reader) => reader.refresh(),
        }
    }

    /// The memory budget for queries.
    pub fn query_memory(&self) -> QueryMemory {
        match self {
            Self::Writer(db) => db.query_memory(),
            Self::Reader(reader) => reader.query_memory(),
        }
    }

    /// The database for writing; an error for a reader.
    pub fn writer(&self) -> Result<&Arc<Database>> {
        match self {
            Self::Writer(db) => Ok(db),
            Self::Reader(_) => Err(Error::new(
                Code::ReadOnlyTransaction,
                "the database was opened to read it: open it without --read-only",
            )),
        }
    }
}
