//! What a database has on disk at one moment, to be copied elsewhere while writes go on.

use crate::db::Database;
use crate::error::Result;
use crate::io::{ReadFile, Storage};
use crate::manifest::{Definitions, SegmentEntry, State};
use crate::segment::file_name;
use crate::state::Shared;
use std::sync::Arc;

/// The tables and segments of one moment. The files stay until it is dropped.
pub struct Checkpoint<'a> {
    shared: &'a Shared,
    state: State,
    definitions: Definitions,
}

impl Database {
    /// What is on disk now. Rows in the log are not part of it: [`flush`](Self::flush) first to
    /// include everything acknowledged.
    ///
    /// ```
    /// use fleetdb_engine::{ColumnType, Database, Settings, TableDefinition, Unit, Value, io::Io};
    /// let directory = tempfile::tempdir().unwrap();
    /// let db = Database::open_with(Io::files(directory.path()), Settings::default()).unwrap();
    /// db.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second)).unwrap();
    /// db.container("t", &[Value::Int(1)]).unwrap().append(5, &[]).unwrap();
    /// db.flush().unwrap();
    /// let checkpoint = db.checkpoint();
    /// let segment = checkpoint.state().segments.values().next().unwrap();
    /// assert_eq!(checkpoint.file(segment).unwrap().len_bytes(), segment.bytes);
    /// ```
    pub fn checkpoint(&self) -> Checkpoint<'_> {
        // First the pin: files that the state lists must not be removed.
        self.shared.pin();
        // A copy has no log.
        let manifest = self.shared.manifest.lock();
        let state = State { log: None, ..manifest.state().clone() };
        Checkpoint { shared: &self.shared, state, definitions: manifest.definitions() }
    }
}

impl Checkpoint<'_> {
    /// The tables and segments.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The counts of its definitions.
    pub fn definitions(&self) -> Definitions {
        self.definitions
    }

    /// The file of a segment that the state lists.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn file(&self, segment: &SegmentEntry) -> Result<Arc<dyn ReadFile>> {
        self.storage().read(&file_name(segment.table, segment.id))
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        self.shared.io.storage.as_ref()
    }
}

impl Drop for Checkpoint<'_> {
    fn drop(&mut self) {
        self.shared.unpin();
    }
}
