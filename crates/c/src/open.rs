//! Opens a database, and shares it within the process.
//!
//! 1. [`Options`] are what a program says about a database, by names.
//! 2. [`Opened::open`] opens it for writing, or shares it if this process has it open already: only one
//!    engine may write a directory. With `read_only` it opens a reader of its own.
//! 3. The last [`Opened`] closes the database.

use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Code, Database, Durability, Error, Reader, Result, Settings};
use fleetdb_query::{Refresh, Store, refuse_node};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Weak};

/// The path of a database in memory.
pub(crate) const MEMORY: &str = ":memory:";

/// The databases that this process has open for writing. The lock is held while one opens or closes, so
/// that an opening never meets one that is about to close.
static WRITERS: Mutex<BTreeMap<PathBuf, Weak<Database>>> = Mutex::new(BTreeMap::new());

/// The names of the options.
const NAMES: &str = "memory_limit, durability, sync_interval_ms, profile, read_only";

/// How a database is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Bytes; see [`Settings::memory_limit`].
    memory_limit: Option<usize>,
    sync_interval_ms: Option<u64>,
    /// The durability of the writes of this opening.
    pub(crate) durability: Option<Durability>,
    /// The settings of small devices.
    is_edge: bool,
    pub(crate) is_read_only: bool,
}

impl Options {
    /// The options in a text like `memory_limit=67108864 durability=interval`.
    ///
    /// # Errors
    /// An option is unknown, or its value does not fit.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut options = Self::default();
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or_else(|| {
                let message = format!("'{word}' is not an option: write them as in durability=interval read_only=true");
                Error::new(Code::InvalidParameter, message)
            })?;
            options.set(name, value)?;
        }
        Ok(options)
    }

    /// Sets an option.
    ///
    /// # Errors
    /// It is unknown, or its value does not fit.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "memory_limit" => self.memory_limit = Some(number(name, value, "a number of bytes")?),
            "sync_interval_ms" => self.sync_interval_ms = Some(number(name, value, "a number of milliseconds")?),
            "durability" => {
                let level = value.parse::<Durability>();
                self.durability = Some(level.map_err(|e| Error::new(Code::InvalidParameter, e.to_string()))?);
            }
            "profile" => {
                self.is_edge = match value {
                    "edge" => true,
                    "default" => false,
                    _ => return Err(wrong(name, value, "edge or default")),
                }
            }
            "read_only" => self.is_read_only = number(name, value, "true or false")?,
            _ => {
                let message = format!("unknown option '{name}': use {NAMES}");
                return Err(Error::new(Code::InvalidParameter, message));
            }
        }
        Ok(())
    }

    /// The value of an option; `None` if it is not set or unknown.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        match name {
            "memory_limit" => self.memory_limit.map(|bytes| bytes.to_string()),
            "sync_interval_ms" => self.sync_interval_ms.map(|ms| ms.to_string()),
            "durability" => self.durability.map(|level| level.to_string()),
            "profile" => Some(if self.is_edge { "edge" } else { "default" }.to_owned()),
            "read_only" => Some(self.is_read_only.to_string()),
            _ => None,
        }
    }

    fn settings(&self) -> Settings {
        let mut settings = match self.memory_limit {
            Some(limit) => Settings::with_memory_limit(limit),
            None if self.is_edge => Settings::edge(),
            None => Settings::default(),
        };
        settings.durability = self.durability.unwrap_or(settings.durability);
        settings.sync_interval_ms = self.sync_interval_ms.unwrap_or(settings.sync_interval_ms);
        settings
    }

    /// Checks that a database which is open already has the settings that are asked for. The durability
    /// is a session's own.
    fn check(&self, open: &Settings) -> Result<()> {
        let differs = |given: Option<u64>, has: u64| given.is_some_and(|given| given != has);
        if differs(self.memory_limit.map(|bytes| bytes as u64), open.memory_limit as u64)
            || differs(self.sync_interval_ms, open.sync_interval_ms)
        {
            let message = format!(
                "the database is open in this process with memory_limit={} and sync_interval_ms={}",
                open.memory_limit, open.sync_interval_ms
            );
            return Err(Error::new(Code::InvalidParameter, message).with_hint("Give the same options, or none."));
        }
        Ok(())
    }
}

fn number<T: FromStr>(name: &str, value: &str, takes: &str) -> Result<T> {
    value.parse().map_err(|_| wrong(name, value, takes))
}

/// The error of an option's value.
pub(crate) fn wrong(name: &str, value: &str, takes: &str) -> Error {
    Error::new(Code::InvalidParameter, format!("{name}={value} does not fit: give {takes}"))
}

/// An open database, perhaps shared with others in this process.
pub(crate) struct Opened {
    /// `None` only while it closes.
    store: Option<Store>,
    /// The directory, if it is open for writing.
    place: Option<PathBuf>,
}

impl Opened {
    /// Opens the database in a directory, and creates it if it is to be written and does not exist.
    ///
    /// # Errors
    /// Those of [`Database::open_with`] and [`Reader::open`]; or the process has it open with other
    /// settings.
    pub(crate) fn open(path: &str, options: &Options) -> Result<Self> {
        if path == MEMORY {
            if options.is_read_only {
                let message = "a database in memory is empty: it cannot be opened read-only";
                return Err(Error::new(Code::NotSupported, message));
            }
            let io = Io { storage: MemoryStorage::new(), ..Io::files("") };
            let db = Arc::new(Database::open_with(io, options.settings())?);
            return Ok(Self { store: Some(Store::Writer(db)), place: None });
        }
        if path.is_empty() {
            return Err(Error::invalid(format!("there is no path: give a directory, or {MEMORY}")));
        }
        if path.contains("://") {
            let message = format!("{path} is not a directory, and this library opens only directories");
            return Err(Error::new(Code::NotSupported, message));
        }
        let path = Path::new(path);
        if options.is_read_only {
            let reader = Arc::new(Reader::open(Io::files(path), options.settings())?);
            return Ok(Self { store: Some(Store::Reader(reader, Refresh::EachStatement)), place: None });
        }
        refuse_node(path)?;
        let mut writers = WRITERS.lock();
        // The directory may not exist yet.
        let known = path.canonicalize().ok();
        if let Some(db) = known.as_ref().and_then(|place| writers.get(place)?.upgrade()) {
            options.check(db.settings())?;
            return Ok(Self { store: Some(Store::Writer(db)), place: known });
        }
        let db = Arc::new(Database::open_with(Io::files(path), options.settings())?);
        let place = path.canonicalize().map_err(|e| Error::io(format_args!("find {}", path.display()), &e))?;
        writers.retain(|_, db| db.strong_count() > 0);
        writers.insert(place.clone(), Arc::downgrade(&db));
        Ok(Self { store: Some(Store::Writer(db)), place: Some(place) })
    }

    /// The same database once more.
    pub(crate) fn share(&self) -> Self {
        Self { store: self.store.clone(), place: self.place.clone() }
    }

    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().expect("it is taken only when this is closed, which takes this")
    }

    /// Gives the database back. If nobody else has it, it is closed. Sessions on it must be gone before.
    ///
    /// # Errors
    /// Something could not be made durable.
    pub(crate) fn close(mut self) -> Result<()> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<()> {
        let Some(Store::Writer(db)) = self.store.take() else { return Ok(()) };
        let mut writers = self.place.is_some().then(|| WRITERS.lock());
        let Some(db) = Arc::into_inner(db) else { return Ok(()) };
        let closed = db.close();
        if let Some(writers) = &mut writers {
            writers.retain(|_, db| db.strong_count() > 0);
        }
        closed
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // To see the error, call `close`.
        self.give_back().ok();
    }
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
