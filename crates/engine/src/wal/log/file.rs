//! The open WAL file: how it grows, becomes durable and ends.
//!
//! - **Writing.** The backlog of frames is written in order. What a full disk leaves unwritten
//!   stays in the backlog, and the file is truncated after its last whole frame
//!   ([`LogFile::write`]).
//! - **Reserving.** Small synced steps overwrite zeros that were written ahead
//!   ([`LogFile::reserve`]).
//! - **Rotating.** A new generation begins with the spare file ([`Spare`]) or a new one. The old
//!   file is first truncated after its last frame and synced, so that files become durable in order
//!   ([`LogFile::end`]).
//!
//! Owns the file, its backlog and what frames overwrite. Does not own locks, waiters or threads: it
//! is used by the thread that holds the log's writer, which decides when to sync and what an error
//! means for the waiters.

use super::progress::Progress;
use super::spare::Spare;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{Generation, Sequence};
use crate::io::{Io, WriteFile};
use crate::wal::frame;
use std::collections::VecDeque;
use std::sync::Arc;

/// Zeros written ahead of the frames in one write.
pub(super) const RESERVED_BYTES: usize = 64 << 10;

/// Maximum bytes between two syncs for which zeros are reserved. Reserving writes each byte twice,
/// but spares the file system a journal write. Journal blocks are 4 KiB, so larger steps gain
/// nothing.
pub(super) const SMALL_STEP_BYTES: u64 = 4 << 10;

/// A buffer of up to this size is kept for reuse; a larger one is freed.
const MAX_SPARE_BYTES: usize = 256 << 10;

/// Consecutive bytes for one file.
pub(super) struct FileWrite {
    /// A new file begins here.
    pub(super) begins: Option<Generation>,
    pub(super) bytes: Vec<u8>,
    pub(super) last: Sequence,
}

/// The file that is written at the moment.
pub(super) struct LogFile {
    io: Io,
    progress: Arc<Progress>,
    spare_file: Arc<Spare>,
    file: Box<dyn WriteFile>,
    /// Bytes of the file up to the last whole frame.
    good_bytes: u64,
    /// The value of `good_bytes` at the last sync.
    synced_bytes: u64,
    /// End of the bytes that frames overwrite: zeros written ahead (see [`LogFile::reserve`]), or
    /// what the spare file had. The file ends there or after its frames.
    reserved_end: u64,
    /// Writes still to do, oldest first; more than one step's only after a full disk.
    backlog: VecDeque<FileWrite>,
    /// The buffer of the last write, for reuse.
    spare_buffer: Vec<u8>,
    last_sync_ns: u64,
}

impl LogFile {
    /// Continues an existing file: its first `good_bytes` hold whole frames.
    pub(super) fn resume(io: &Io, generation: Generation, good_bytes: usize, progress: &Arc<Progress>) -> Result<Self> {
        let name = frame::file_name(generation);
        let mut file = io.storage.append(&name, good_bytes as u64)?;
        let mut good_bytes = good_bytes as u64;
        if good_bytes == 0 {
            file.write(&frame::file_header(generation))?;
            good_bytes = frame::FILE_HEADER_BYTES as u64;
        }
        file.sync()?;
        io.storage.sync_directory(frame::DIRECTORY)?;
        progress.set_file(generation, good_bytes);
        Ok(Self::with_file(io, file, good_bytes, progress))
    }

    /// Starts with a new file.
    pub(super) fn create(io: &Io, generation: Generation, progress: &Arc<Progress>) -> Result<Self> {
        let file = create_file(io, generation)?;
        progress.set_file(generation, frame::FILE_HEADER_BYTES as u64);
        Ok(Self::with_file(io, file, frame::FILE_HEADER_BYTES as u64, progress))
    }

    fn with_file(io: &Io, file: Box<dyn WriteFile>, good_bytes: u64, progress: &Arc<Progress>) -> Self {
        Self {
            io: io.clone(),
            progress: Arc::clone(progress),
            spare_file: Arc::new(Spare::new(io)),
            file,
            good_bytes,
            synced_bytes: good_bytes,
            reserved_end: good_bytes,
            backlog: VecDeque::new(),
            spare_buffer: Vec::new(),
            last_sync_ns: io.clock.monotonic_ns(),
        }
    }

    /// Adds writes to the end of the backlog.
    pub(super) fn push(&mut self, writes: Vec<FileWrite>) {
        self.backlog.extend(writes);
    }

    /// The file that the next generation overwrites.
    pub(super) fn spare_file(&self) -> &Arc<Spare> {
        &self.spare_file
    }

    /// Takes the buffer of the last write, empty but with its capacity.
    pub(super) fn take_spare_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare_buffer)
    }

    /// Nanoseconds since the last sync, or since the file was opened.
    pub(super) fn since_sync_ns(&self) -> u64 {
        self.io.clock.monotonic_ns().saturating_sub(self.last_sync_ns)
    }

    /// Writes the backlog. `Ok(Some(error))`: the disk is full, and the rest stays in the backlog.
    pub(super) fn write(&mut self) -> Result<Option<Error>> {
        while let Some(write) = self.backlog.front_mut() {
            let written = match write.begins {
                None => self.file.write(&write.bytes),
                Some(generation) => {
                    self.end()?;
                    self.begin(generation)
                }
            };
            match written {
                Err(error) if error.kind() == ErrorKind::Retry => {
                    self.cut()?;
                    // The disk is full.
                    self.spare_file.remove();
                    return Ok(Some(error));
                }
                written => written?,
            }
            let Some(write) = self.backlog.front_mut() else { break };
            if write.begins.take().is_some() {
                // Now write its bytes.
                continue;
            }
            self.good_bytes += write.bytes.len() as u64;
            self.progress.add_bytes(write.bytes.len() as u64);
            self.progress.set_written(write.last);
            if let Some(FileWrite { mut bytes, .. }) = self.backlog.pop_front()
                && bytes.capacity() <= MAX_SPARE_BYTES
            {
                bytes.clear();
                self.spare_buffer = bytes;
            }
        }
        Ok(None)
    }

    /// Goes on in the file of a new generation. After an error that can be retried nothing has
    /// changed.
    fn begin(&mut self, generation: Generation) -> Result<()> {
        let header_bytes = frame::FILE_HEADER_BYTES as u64;
        (self.file, self.reserved_end) = match self.spare_file.begin(generation)? {
            Some(spare) => spare,
            None => (create_file(&self.io, generation)?, header_bytes),
        };
        self.good_bytes = header_bytes;
        self.synced_bytes = header_bytes;
        self.progress.set_file(generation, header_bytes);
        Ok(())
    }

    /// Truncates the file after the last whole frame.
    pub(super) fn cut(&mut self) -> Result<()> {
        self.file.truncate(self.good_bytes).map_err(Error::final_io)?;
        self.reserved_end = self.good_bytes;
        Ok(())
    }

    /// Writes zeros after the frames if a small synced step has made the file longer. While steps
    /// overwrite zeros, their syncs write only frames, not the file's length. (InnoDB and
    /// PostgreSQL preallocate their log files for the same reason.)
    pub(super) fn reserve(&mut self) -> Result<()> {
        let is_longer = self.good_bytes >= self.reserved_end;
        if !is_longer || self.good_bytes - self.synced_bytes > SMALL_STEP_BYTES {
            return Ok(());
        }
        match self.file.reserve(RESERVED_BYTES) {
            Ok(()) => {
                self.reserved_end = self.good_bytes + RESERVED_BYTES as u64;
                self.progress.add_bytes(RESERVED_BYTES as u64);
                Ok(())
            }
            // The frames themselves fit.
            Err(error) if error.kind() == ErrorKind::Retry => self.cut(),
            Err(error) => Err(error),
        }
    }

    /// Makes everything written durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.file.sync().map_err(Error::final_io)?;
        self.synced_bytes = self.good_bytes;
        self.last_sync_ns = self.io.clock.monotonic_ns();
        self.progress.set_synced(self.good_bytes);
        Ok(())
    }

    /// Makes the file durable, ending with its last frame.
    pub(super) fn end(&mut self) -> Result<()> {
        let has_rest = self.reserved_end > self.good_bytes;
        if has_rest {
            self.cut()?;
        }
        if has_rest || self.progress.has_unsynced() {
            self.sync()?;
        }
        Ok(())
    }
}

/// Creates a durable file with its header. After an error there is no file.
fn create_file(io: &Io, generation: Generation) -> Result<Box<dyn WriteFile>> {
    let name = frame::file_name(generation);
    let mut file = io.storage.create(&name)?;
    let begun = file.write(&frame::file_header(generation)).and_then(|()| {
        file.sync().map_err(Error::final_io)?;
        io.storage.sync_directory(frame::DIRECTORY).map_err(Error::final_io)
    });
    if let Err(error) = begun {
        // This may fail on a full disk; the first error is the one to report.
        io.storage.remove(&name).ok();
        return Err(error);
    }
    Ok(file)
}
