//! A machine for tests.

use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use std::sync::Arc;

/// A database in memory that can lose its power.
pub(crate) struct Site {
    pub(crate) io: Io,
    pub(crate) storage: Arc<MemoryStorage>,
    db: Option<Database>,
}

impl Site {
    /// `io` uses the storage.
    pub(crate) fn new(storage: Arc<MemoryStorage>, io: Io) -> Self {
        let db = Database::open_with(io.clone(), Settings::default()).unwrap();
        Self { io, storage, db: Some(db) }
    }

    pub(crate) fn db(&self) -> &Database {
        self.db.as_ref().unwrap()
    }

    /// Loses the power, and starts again.
    pub(crate) fn crash(&mut self) {
        let after = self.storage.crash();
        self.db = None;
        self.io = Io::memory(Arc::clone(&after));
        self.storage = after;
        self.db = Some(Database::open_with(self.io.clone(), Settings::default()).unwrap());
    }
}
