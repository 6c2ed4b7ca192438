//! Reads the rows of a scan piece by piece: with one thread, and with helpers if there are many.

use super::Sources;
use super::parallel::{CONTAINERS_OF_PICK, ParallelReader, PickReader};
use super::picker::Picker;
use super::resources::ScanResources;
use crate::error::Result;
use std::sync::Arc;

/// A scan in progress. It yields what its reader makes of the rows that are picked at once.
pub(super) struct Reading<R: PickReader> {
    progress: Progress<R>,
    reader: R,
    resources: Arc<ScanResources>,
    /// Keeps their memory charged.
    _sources: Sources,
    /// Memory of what the reader makes of the rows that are picked at once.
    batch_bytes: usize,
    /// How many times this thread has picked alone since it asked for helpers; see
    /// [`PickReader::PICKS_ALONE`].
    picks: usize,
}

/// How the rest of the rows is read.
enum Progress<R: PickReader> {
    /// By this thread.
    Alone(Box<Picker>),
    /// By this thread and helpers.
    Parallel(ParallelReader<R>),
    /// Not at all: the end has been reached, or an error was returned.
    Ended,
}

impl<R: PickReader> Reading<R> {
    pub(super) fn new(
        picker: Picker,
        reader: R,
        sources: Sources,
        resources: &Arc<ScanResources>,
        batch_bytes: usize,
    ) -> Self {
        let (progress, resources) = (Progress::Alone(Box::new(picker)), Arc::clone(resources));
        Self { progress, reader, resources, _sources: sources, batch_bytes, picks: 0 }
    }

    /// The reader of this thread.
    pub(super) fn reader(&self) -> &R {
        &self.reader
    }

    fn next_batch(&mut self) -> Result<Option<R::Output>> {
        match &mut self.progress {
            Progress::Alone(picker) => {
                let picked = picker.next(self.reader.memos())?;
                if picked.is_empty() {
                    return Ok(None);
                }
                // Helpers read what comes after these rows.
                self.ask_for_helpers();
                self.picks += 1 + picked.len() / CONTAINERS_OF_PICK;
                self.reader.read(picked).map(Some)
            }
            Progress::Parallel(parallel) => parallel.next(&mut self.reader),
            Progress::Ended => Ok(None),
        }
    }

    /// Lets helper threads read a long scan as well, if there are any.
    fn ask_for_helpers(&mut self) {
        let Progress::Alone(picker) = &self.progress else { return };
        if picker.newest_first() || self.picks < R::PICKS_ALONE {
            return;
        }
        self.picks = 0;
        if let Progress::Alone(picker) = std::mem::replace(&mut self.progress, Progress::Ended) {
            let started = ParallelReader::start(picker, &self.reader, &self.resources, self.batch_bytes);
            self.progress = started.map_or_else(Progress::Alone, Progress::Parallel);
        }
    }
}

impl<R: PickReader> Iterator for Reading<R> {
    type Item = Result<R::Output>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch();
        if !matches!(next, Ok(Some(_))) {
            self.progress = Progress::Ended;
        }
        next.transpose()
    }
}
