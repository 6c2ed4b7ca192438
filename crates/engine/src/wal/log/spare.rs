//! The spare file: a WAL file whose generation is in segments, kept for the next generation.
//!
//! A file that overwrites another does not grow. So its syncs write no new file length and need not
//! wait for the file system's journal, and no removal of a large file holds them up. (PostgreSQL
//! and RocksDB recycle their log files for the same reasons.)
//!
//! Owns the file's name and whether it exists. Does not own what follows the frames of the new
//! generation: frames of an older one, which replay tells by their sequences
//! ([`frame`](crate::wal::frame)).

use crate::error::{Error, Result};
use crate::ids::Generation;
use crate::io::{Io, WriteFile};
use crate::wal::frame;
use parking_lot::Mutex;

/// The spare file of a log, if there is one.
pub(super) struct Spare {
    io: Io,
    exists: Mutex<bool>,
}

impl Spare {
    /// There is none yet.
    pub(super) fn new(io: &Io) -> Self {
        Self { io: io.clone(), exists: Mutex::new(false) }
    }

    /// Keeps the file of a generation, or removes it if there is a spare already.
    pub(super) fn keep(&self, generation: Generation) -> Result<()> {
        let name = frame::file_name(generation);
        let mut exists = self.exists.lock();
        if *exists {
            drop(exists);
            return self.io.storage.remove(&name);
        }
        self.io.storage.rename(&name, frame::SPARE)?;
        *exists = true;
        Ok(())
    }

    /// Makes the spare the file of a generation, if there is one: durable, with its header. Returns
    /// its length as well.
    pub(super) fn begin(&self, generation: Generation) -> Result<Option<(Box<dyn WriteFile>, u64)>> {
        let mut exists = self.exists.lock();
        if !*exists {
            return Ok(None);
        }
        let storage = &self.io.storage;
        let opened =
            storage.read(frame::SPARE).and_then(|file| Ok((storage.overwrite(frame::SPARE)?, file.len_bytes())));
        let Ok((mut file, len_bytes)) = opened else {
            // Somebody has removed it.
            *exists = false;
            return Ok(None);
        };
        file.write(&frame::file_header(generation))?;
        file.sync().map_err(Error::final_io)?;
        storage.rename(frame::SPARE, &frame::file_name(generation)).map_err(Error::final_io)?;
        *exists = false;
        storage.sync_directory(frame::DIRECTORY).map_err(Error::final_io)?;
        Ok(Some((file, len_bytes)))
    }

    /// Removes the spare, if there is one. If that fails, the next opening removes it.
    pub(super) fn remove(&self) {
        let mut exists = self.exists.lock();
        if std::mem::take(&mut *exists) {
            self.io.storage.remove(frame::SPARE).ok();
        }
    }
}
