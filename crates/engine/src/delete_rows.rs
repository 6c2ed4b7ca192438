//! Deletes of many rows: rewrites the segments that hold them.
//!
//! A delete in the log ([`Batch::delete`](crate::Batch::delete)) costs memory and a manifest entry,
//! too much for millions of single rows. [`Database::delete_rows`] uses bounded memory:
//!
//! 1. It takes the compaction and commit locks and flushes all memtables, so that every row is in a
//!    segment.
//! 2. The caller finds the rows and passes their primary keys in order. The keys go to a temporary
//!    file ([`DeletedKeys`]).
//! 3. Each segment that may hold some of the rows is merged by itself into a new one without them,
//!    as compaction would.
//! 4. One manifest edit replaces all these segments. It is durable before readers see it. Then the
//!    old files are removed.
//!
//! So the delete is atomic, both for readers and after a crash. A crash before the edit leaves
//! files that the next open removes. If it is unknown whether the edit is durable, the log accepts
//! no more batches.

use crate::compaction::deleted_keys::{DeletedKeys, SegmentDeletes};
use crate::compaction::{self, Job};
use crate::db::Database;
use crate::error::Result;
use crate::flush;
use crate::ids::SegmentId;
use crate::manifest::SegmentEntry;
use crate::memory::QueryMemory;
use crate::scan::View;
use crate::schema::TableSchema;
use crate::segment::Listed;
use crate::state::Shared;
use crate::write::admit::admit_keys;
use arrow::array::RecordBatch;
use std::sync::Arc;

impl Database {
    /// Deletes any number of rows of a table by their primary keys and returns how many. The delete
    /// is durable when this returns. Readers see all of it or none. Other writers, and compaction,
    /// wait meanwhile.
    ///
    /// `find` receives a view of everything written so far, and a function to call with the rows to
    /// delete: batches that hold the primary key's columns, matched by name; other columns are
    /// ignored. The rows must come in primary-key order across all batches, as a scan returns them
    /// (NULL first). `go_on` is called repeatedly and cancels the delete by returning an error.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{ColumnType, Database, ScanRequest, Settings, TableDefinition, Unit, Value};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// db.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second)).unwrap();
    /// let seven = db.container("t", &[Value::Int(7)]).unwrap();
    /// (0..10).for_each(|time| drop(seven.append(time, &[]).unwrap()));
    /// let early = ScanRequest::all().to_time(3);
    /// let found = db.delete_rows("t", |view, delete| {
    ///     view.table("t")?.scan(&early)?.try_for_each(|rows| delete(&rows?))
    /// }, || Ok(()));
    /// assert_eq!(found.unwrap(), 4);
    /// assert_eq!(db.view().table("t").unwrap().count().unwrap(), 6);
    /// ```
    ///
    /// # Errors
    /// What `find` and `go_on` return, or any error of a flush or compaction; nothing is then
    /// deleted. After a manifest error it is unknown whether the rows are deleted until the
    /// database is reopened.
    pub fn delete_rows(
        &self,
        table: &str,
        find: impl FnOnce(&View, &mut dyn FnMut(&RecordBatch) -> Result<()>) -> Result<()>,
        go_on: impl Fn() -> Result<()>,
    ) -> Result<u64> {
        let shared = &self.shared;
        let one = shared.compaction.lock();
        let mut commit = shared.open_commit()?;
        shared.flush_within(&mut commit)?;
        let view = shared.view();
        let (schema, segments) = {
            let catalog = shared.catalog.read();
            let table = catalog.get(table)?;
            (Arc::clone(&table.schema), Arc::clone(&table.segments))
        };
        if segments.is_empty() {
            return Ok(0);
        }
        let memory = QueryMemory(Arc::clone(&shared.budget));
        let entries = segments.iter().map(|listed| &listed.entry);
        let mut deleted = DeletedKeys::new(shared.io.storage.as_ref(), &schema, entries, memory)?;
        find(&view, &mut |rows| {
            let (keys, times) = admit_keys(&schema, rows)?;
            deleted.push(&keys, &times, rows.num_rows())
        })?;
        drop(view);
        let count = deleted.count();
        let deleted = deleted.finish()?;
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for (listed, deleted) in segments.iter().zip(deleted) {
            let Some(deleted) = deleted else { continue };
            match shared.without(&schema, listed, deleted, &go_on) {
                Ok(written) => added.extend(written),
                Err(error) => {
                    flush::remove(shared.io.storage.as_ref(), &added);
                    return Err(error);
                }
            }
            removed.push(listed.entry.id);
        }
        shared.exchange_deleted(&schema, removed, added)?;
        drop((commit, one));
        shared.wait_until_defined()?;
        Ok(count)
    }
}

impl Shared {
    /// Rewrites a segment without some of its rows. After an error no file is left.
    fn without(
        &self,
        schema: &Arc<TableSchema>,
        listed: &Arc<Listed>,
        mut deleted: SegmentDeletes,
        go_on: &impl Fn() -> Result<()>,
    ) -> Result<Vec<SegmentEntry>> {
        go_on()?;
        let memory_bytes = compaction::work_bytes(1) + compaction::PICKED_BYTES;
        let _charge = self.budget.charge("a DELETE of many rows", memory_bytes)?;
        let (deletes, purged) = Self::listed_deletes(self.manifest.lock().state(), schema.id);
        let job = Job {
            schema,
            inputs: std::slice::from_ref(listed),
            span: (i64::MIN, i64::MAX),
            deletes: &deletes,
            purged,
            expired: schema.expired(self.io.clock.wall_ns()),
        };
        let next_id = || self.next_segment_id();
        let mut written = compaction::merge(self.io.storage.as_ref(), &job, Some(&mut deleted), next_id, |_| go_on())?;
        if let [entry] = written.as_mut_slice() {
            entry.slices = deleted.into_slices();
        }
        Ok(written)
    }

    fn exchange_deleted(&self, schema: &TableSchema, removed: Vec<SegmentId>, added: Vec<SegmentEntry>) -> Result<()> {
        if removed.is_empty() {
            return Ok(());
        }
        match self.exchange_listed(schema, removed, Vec::new(), added) {
            Ok(names) => {
                // Readers need not wait: rows that are missing too early are not lost.
                self.manifest.lock().note_rewrite();
                // The rows are deleted. The next open removes any files left behind.
                self.remove_files(names.into_iter()).ok();
                Ok(())
            }
            Err(error) => {
                if self.manifest.lock().has_failed() {
                    self.log.fail(&error);
                }
                Err(error)
            }
        }
    }
}
