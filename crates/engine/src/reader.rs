//! Reads a database that another process writes.
//!
//! 1. [`Reader::open`] takes no lock and changes nothing. It reads the manifest, opens the segments
//!    and replays the WAL as it is at that moment, up to the last complete batch.
//! 2. [`Reader::refresh`] does the same again. Segments that are still listed stay open.
//!
//! The writer may remove a file after the manifest was read and before the file is opened. The
//! manifest has then changed, and the reader starts again. An open segment stays readable after it
//! is unlinked.
//!
//! The writer also changes log files while they are read. It overwrites zeros and the frames of
//! flushed generations, and truncates a finished file after its last frame. A reader may therefore
//! find an older frame missing and a newer one present. It reads again and finds both; what is
//! damaged stays as it is.

use crate::catalog::Catalog;
use crate::constraints::StoredQueries;
use crate::error::{Error, Result};
use crate::ids::Sequence;
use crate::inspect::read_manifest;
use crate::io::Io;
use crate::manifest::State;
use crate::memory::{Budget, QueryMemory};
use crate::recovery;
use crate::scan::View;
use crate::scan::resources::ScanResources;
use crate::segment::cache::Cache;
use crate::settings::Settings;
use crate::status::{Reading, Status};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// How often a changing database is read again before the error is returned.
const TRIES: usize = 100;

/// A read-only database that another process may be writing.
///
/// ```
/// use fleetdb_engine::{ColumnType, Database, Reader, Settings, TableDefinition, Unit, Value, io::Io};
/// let directory = tempfile::tempdir().unwrap();
/// let writer = Database::open_with(Io::files(directory.path()), Settings::default()).unwrap();
/// writer.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second)).unwrap();
/// let reader = Reader::open(Io::files(directory.path()), Settings::default()).unwrap();
/// writer.container("t", &[Value::Int(1)]).unwrap().append(5, &[]).unwrap();
/// assert_eq!(reader.view().table("t").unwrap().count().unwrap(), 0);
/// reader.refresh().unwrap();
/// assert_eq!(reader.view().table("t").unwrap().count().unwrap(), 1);
/// ```
pub struct Reader {
    io: Io,
    settings: Settings,
    cache: Arc<Cache>,
    budget: Arc<Budget>,
    scans: Arc<ScanResources>,
    loaded: RwLock<Loaded>,
    /// Why the last refresh failed, until one succeeds.
    error: Mutex<Option<Error>>,
}

/// What was read of the database.
#[derive(Default)]
struct Loaded {
    catalog: Catalog,
    last: Sequence,
    as_of_ns: i64,
}

impl Reader {
    /// Opens a database as it is now.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if there is no database;
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) if stored data is damaged (the message
    /// says what is lost).
    pub fn open(io: Io, settings: Settings) -> Result<Self> {
        settings.validate()?;
        let cache = Arc::new(Cache::new(settings.cache_bytes));
        let loaded = load(&io, &settings, &cache, &Catalog::default())?;
        let budget = Budget::new(settings.work_bytes());
        let scans = ScanResources::new(&settings, &budget, &cache);
        Ok(Self { io, settings, cache, budget, scans, loaded: RwLock::new(loaded), error: Mutex::default() })
    }

    /// Reads what has been written since. Existing views do not change.
    ///
    /// # Errors
    /// As [`open`](Self::open). The reader then keeps its previous state.
    pub fn refresh(&self) -> Result<()> {
        let fresh = load(&self.io, &self.settings, &self.cache, &self.loaded.read().catalog);
        *self.error.lock() = fresh.as_ref().err().cloned();
        *self.loaded.write() = fresh?;
        Ok(())
    }

    /// The settings that it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What has been read, and how old it is.
    pub fn status(&self) -> Status {
        let loaded = self.loaded.read();
        let reading = Reading::new(loaded.as_of_ns, self.io.clock.wall_ns(), self.error.lock().clone());
        Status {
            cache_bytes: self.cache.bytes(),
            work_bytes: self.budget.used_bytes(),
            reading: Some(reading),
            ..Status::of(&loaded.catalog)
        }
    }

    /// The memory budget for queries.
    pub fn query_memory(&self) -> QueryMemory {
        QueryMemory(Arc::clone(&self.budget))
    }

    /// The queries that the database keeps by name, as of the open or the last refresh.
    pub fn stored_queries(&self) -> Arc<StoredQueries> {
        Arc::clone(&self.loaded.read().catalog.stored_queries)
    }

    /// All tables as of the open or the last refresh.
    pub fn view(&self) -> View {
        let loaded = self.loaded.read();
        let now_ns = self.io.clock.wall_ns();
        loaded.catalog.view(None, now_ns, &self.scans, || loaded.last)
    }
}

fn read_state(io: &Io) -> Result<State> {
    read_manifest(io).map(|(_, state)| state)
}

fn load(io: &Io, settings: &Settings, cache: &Arc<Cache>, known: &Catalog) -> Result<Loaded> {
    let (mut tries, mut last_error) = (0, None);
    loop {
        let now_ns = io.clock.wall_ns();
        let state = read_state(io);
        let as_of_ns = io.storage.copied_ns().unwrap_or(now_ns);
        let loaded = state.as_ref().map_err(Clone::clone).and_then(|state| {
            let mut catalog = recovery::load(io, state, cache, known)?;
            let replay = recovery::replay(io, settings, state, &mut catalog)?;
            Ok(Loaded { catalog, last: replay.last, as_of_ns })
        });
        let Err(error) = loaded else { return loaded };
        tries += 1;
        // If nothing has changed and a second reading fails in the same way, the error is real.
        let same = match (&state, &read_state(io)) {
            (Ok(before), Ok(now)) => before == now,
            (Err(_), Err(_)) => true,
            _ => false,
        };
        if tries == TRIES || (same && last_error.as_ref() == Some(&error)) {
            return Err(error);
        }
        last_error = Some(error);
    }
}
