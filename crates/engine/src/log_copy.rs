//! What a copy of the log elsewhere needs: how far the log is durable, its bytes, and a place to
//! say how much of it is copied. A cluster copies the log to a bucket, so that another machine can
//! go on with it.
//!
//! The log is copied as it is on disk, in pieces of WAL files ([`Database::log_end`],
//! [`Database::read_log`]). Definitions are not in the log but in the manifest
//! ([`Database::definitions`]).

use crate::commit::{Acknowledged, completion};
use crate::db::Database;
use crate::error::{Error, Result};
use crate::ids::{Generation, Sequence, TableId};
use crate::manifest::{Definitions, State};
use crate::scan::View;
use crate::settings::Durability;
use crate::sharing::{LogCopy, Sharing};
use crate::wal::frame;
use crate::wal::log::LogEnd;
use bytes::Bytes;
use std::sync::Arc;

impl Database {
    /// From now on, batches may ask for [`Durability::Shared`], and changes of definitions wait
    /// until they are shared. Everything up to `sequence` is. Only the first call counts.
    ///
    /// ```
    /// use fleetdb_engine::{Batch, ColumnType, Database, Durability, LogCopy, Result, Rows, Settings};
    /// use fleetdb_engine::{TableDefinition, Value, io::{Io, MemoryStorage}};
    /// struct Copy;
    /// impl LogCopy for Copy {
    ///     fn wake(&self) {}
    ///     fn check_newest(&self) -> Result<()> {
    ///         Ok(())
    ///     }
    /// }
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let table = db.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64)).unwrap();
    /// db.share_log(db.log_end().sequence, std::sync::Arc::new(Copy));
    /// let mut rows = Rows::new(&table);
    /// rows.push(&[Value::Int(1)]).unwrap();
    /// let (send, receive) = std::sync::mpsc::channel();
    /// let batch = Batch::new().with_rows(rows).with_durability(Durability::Shared);
    /// db.commit_async(batch, move |outcome| send.send(outcome).unwrap()).unwrap();
    /// assert!(receive.try_recv().is_err());
    /// db.acknowledge_shared(db.log_end().sequence, Some(1));
    /// receive.recv().unwrap().unwrap();
    /// ```
    pub fn share_log(&self, sequence: Sequence, copy: Arc<dyn LogCopy>) {
        let last = Sequence(self.last_sequence());
        self.shared.log.share(Arc::new(Sharing::new(sequence, last, copy)));
    }

    /// A view to answer a client from: of all tables, or of some. If [`Settings::durability`] is
    /// [`Durability::Shared`], it shows nothing that the loss of this machine could take back: it
    /// waits until what it shows is shared, and ends the wait if `may_wait` returns an error.
    ///
    /// # Errors
    /// Another machine may have gone on with the log, the log was not shared in time, or that of
    /// `may_wait`.
    ///
    /// [`Settings::durability`]: crate::Settings::durability
    pub fn settled_view(&self, tables: Option<&[TableId]>, may_wait: &dyn Fn() -> Result<()>) -> Result<View> {
        let view = self.shared.view_of(tables);
        if self.shared.settings.durability == Durability::Shared
            && let Some(sharing) = self.shared.log.sharing()
        {
            sharing.wait_to_show(view.sequence, may_wait)?;
        }
        Ok(view)
    }

    /// How far the log is durable on this machine.
    pub fn log_end(&self) -> LogEnd {
        self.shared.log.end()
    }

    /// The bytes of a generation's WAL file from `from` on, at most `most` of them; `None` if the
    /// file is gone because the generation is in segments. The newest file may have more bytes than
    /// are durable ([`log_end`](Self::log_end)). The others are complete.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_log(&self, generation: Generation, from: u64, most: u64) -> Result<Option<Bytes>> {
        let name = frame::file_name(generation);
        let read = self.shared.io.storage.read(&name).and_then(|file| {
            let len = file.len_bytes().saturating_sub(from).min(most);
            file.read_at(from, len as usize)
        });
        // A generation in segments has no file, or a newer one has overwritten it meanwhile.
        if self.shared.manifest.lock().state().flushed >= generation {
            return Ok(None);
        }
        read.map(Some)
    }

    /// Counts the changes of definitions since the database was opened. The definitions are in a
    /// [checkpoint](Self::checkpoint), and in [`defined`](Self::defined).
    pub fn definitions(&self) -> Definitions {
        self.shared.manifest.lock().definitions()
    }

    /// The definitions: a state without rows, and its count.
    pub fn defined(&self) -> (State, Definitions) {
        let manifest = self.shared.manifest.lock();
        let mut state = State { database_id: manifest.state().database_id.clone(), ..State::default() };
        state.define(manifest.state());
        (state, manifest.definitions())
    }

    /// Waits until everything written so far is as durable as this level, and returns the last batch
    /// of it. It is for writes that did not name a level.
    ///
    /// ```
    /// use fleetdb_engine::{Database, Durability, Settings, io::{Io, MemoryStorage}};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// db.make_durable(Durability::Sync).unwrap();
    /// db.make_durable(Durability::Shared).unwrap_err();
    /// ```
    ///
    /// # Errors
    /// The log failed, or [`Durability::Shared`] is asked for outside of a cluster.
    pub fn make_durable(&self, durability: Durability) -> Result<Acknowledged> {
        let (log, sequence) = (&self.shared.log, Sequence(self.last_sequence()));
        if durability < Durability::Sync {
            return Ok(Acknowledged { sequence, durability });
        }
        if durability == Durability::Shared {
            log.check_shared()?;
        }
        log.flush(sequence)?;
        if let Some(sharing) = log.sharing() {
            // The flush may have synced what nobody else has told of.
            sharing.wake();
        }
        let (done, outcome) = completion();
        let done = move |result: Result<()>| done(result.map(|()| Acknowledged { sequence, durability }));
        log.reach(durability, sequence, Box::new(done));
        outcome.wait()
    }

    /// Checks whether batches may ask for [`Durability::Shared`].
    ///
    /// # Errors
    /// [`Code::NotSupported`](crate::Code::NotSupported): the database is not in a cluster.
    pub fn check_shared(&self) -> Result<()> {
        self.shared.log.check_shared()
    }

    /// Says that the copy has everything up to a batch, and the definitions of this
    /// [count](Definitions::count); `None` if it may lack some that the database had when it was
    /// opened.
    pub fn acknowledge_shared(&self, sequence: Sequence, definitions: Option<u64>) {
        if let Some(sharing) = self.shared.log.sharing() {
            sharing.advance(sequence, definitions.unwrap_or(0));
        }
    }

    /// Ends the wait of batches that were not shared in time. Who copies the log calls it now and
    /// then.
    pub fn expire_shared(&self) {
        if let Some(sharing) = self.shared.log.sharing() {
            sharing.expire(self.shared.io.clock.monotonic_ns());
        }
    }

    /// Waits until the definitions as they are now are shared, if the database is in a cluster.
    ///
    /// # Errors
    /// They were not shared in time.
    pub fn make_definitions_durable(&self) -> Result<()> {
        self.shared.wait_until_defined()
    }

    /// Accepts no more batches, because nothing more can be shared: those that wait get this error.
    pub fn fence(&self, error: &Error) {
        self.shared.log.fail(error);
        if let Some(sharing) = self.shared.log.sharing() {
            sharing.fail(error);
        }
    }
}
