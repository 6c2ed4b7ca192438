//! What a session works on: a database it may write, or one that another process writes.

use fleetdb_engine::{Code, Database, Error, QueryMemory, Reader, Result, TableId, View};
use std::sync::Arc;

/// An open database.
#[derive(Clone)]
pub(crate) enum Store {
    Writer(Arc<Database>),
    Reader(Arc<Reader>),
}

impl Store {
    /// All tables as they are now; for a reader, as they were when it was last refreshed.
    pub(crate) fn view(&self) -> View {
        match self {
            Self::Writer(db) => db.view(),
            Self::Reader(reader) => reader.view(),
        }
    }

    /// As [`view`](Self::view), of these tables at least.
    pub(crate) fn view_of(&self, tables: &[TableId]) -> View {
        match self {
            Self::Writer(db) => db.view_of(tables),
            Self::Reader(reader) => reader.view(),
        }
    }

    /// Lets a reader see what has been written since.
    pub(crate) fn refresh(&self) -> Result<()> {
        match self {
            Self::Writer(_) => Ok(()),
            Self::Reader(reader) => reader.refresh(),
        }
    }

    /// The memory that queries may hold.
    pub(crate) fn query_memory(&self) -> QueryMemory {
        match self {
            Self::Writer(db) => db.query_memory(),
            Self::Reader(reader) => reader.query_memory(),
        }
    }

    /// The database to write to.
    pub(crate) fn writer(&self) -> Result<&Arc<Database>> {
        match self {
            Self::Writer(db) => Ok(db),
            Self::Reader(_) => Err(Error::new(
                Code::ReadOnlyTransaction,
                "the database was opened to read it: open it without --read-only",
            )),
        }
    }
}
