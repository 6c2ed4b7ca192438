//! Changes to the list of segments: first one manifest edit, then what readers see, then the files.
//!
//! Files that are no longer listed are removed last. While a backup reads, they are kept
//! ([`Shared::pin`]).

use crate::catalog::Catalog;
use crate::compaction::plan;
use crate::error::Result;
use crate::flush;
use crate::manifest::file::Manifest;
use crate::manifest::{Edit, SegmentEntry, State};
use crate::memory::Budget;
use crate::segment::Listed;
use crate::state::Shared;
use std::sync::Arc;

impl Shared {
    /// Appends an edit that adds these segments, and publishes the new list. After an error the
    /// segments' files are removed, unless the manifest failed: it may then list them.
    pub(crate) fn list(&self, manifest: &mut Manifest, edit: &Edit, added: &[SegmentEntry]) -> Result<()> {
        let opened = added.iter().map(|entry| Listed::open(&self.io, entry, &self.cache));
        let listed = opened.collect::<Result<Vec<_>>>().and_then(|opened| {
            manifest.append(edit)?;
            Ok(opened)
        });
        match listed {
            Ok(opened) => {
                show(&mut self.catalog.write(), manifest.state(), &opened, &self.budget);
                let state = manifest.state();
                let runs = state.tables.keys().map(|id| plan::most_runs(&state.segments_of(*id).collect::<Vec<_>>()));
                let runs = runs.max().unwrap_or(0);
                let mut queue = self.queue.lock();
                queue.runs = runs;
                self.wake.notify_all();
                Ok(())
            }
            Err(error) => {
                self.fail_without_lock();
                if !manifest.has_failed() {
                    flush::remove(self.io.storage.as_ref(), added);
                }
                Err(error)
            }
        }
    }

    /// Removes files that are no longer listed, now or when no backup reads them.
    pub(crate) fn remove_files(&self, names: impl Iterator<Item = String>) -> Result<()> {
        let mut queue = self.queue.lock();
        if queue.pins > 0 {
            queue.unpinned.extend(names);
            return Ok(());
        }
        drop(queue);
        names.map(|name| self.io.storage.remove(&name)).fold(Ok(()), Result::and)
    }

    /// Keeps all files listed now until [`unpin`](Self::unpin).
    pub(crate) fn pin(&self) {
        self.queue.lock().pins += 1;
    }

    pub(crate) fn unpin(&self) {
        let mut queue = self.queue.lock();
        queue.pins -= 1;
        if queue.pins == 0 {
            for name in std::mem::take(&mut queue.unpinned) {
                // If this fails, the next open removes the file.
                self.io.storage.remove(&name).ok();
            }
        }
    }
}

/// Publishes the segments and deletes that the manifest now lists, without the memtables they
/// replace. `opened` holds the segments that the catalog does not have open yet.
fn show(catalog: &mut Catalog, state: &State, opened: &[Arc<Listed>], budget: &Arc<Budget>) {
    for (id, table) in &mut catalog.tables {
        for flushed in table.frozen.extract_if(.., |memtable| memtable.generation() <= state.flushed) {
            flushed.leave_to_views(budget);
        }
        let segments = table.segments.iter().chain(opened.iter().filter(|listed| listed.entry.table == *id));
        let listed = segments.filter_map(|listed| Some(listed.again(state.segments.get(&listed.entry.id)?)));
        table.set_segments(listed.collect(), state.deletes_of(*id));
    }
}
