//! A running scan: yields the rows of a table as Arrow batches.

use super::batch_reader::{BatchReader, RowCondition};
use super::parallel::ParallelReader;
use super::picker::Picker;
use super::resources::ScanResources;
use super::{Projection, ScanBounds, ScanRequest, Sources, TableView};
use crate::error::Result;
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;

impl TableView {
    /// Scans rows in (key, time) order.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if a column or key does not fit the table.
    /// Read errors come from the iterator.
    pub fn scan(&self, request: &ScanRequest) -> Result<Scan> {
        self.scan_with(request, None)
    }

    /// Scans the rows that match a condition. The condition's columns are read first; pages of
    /// other columns are read only for matching rows ("late materialization": Abadi et al., ICDE
    /// 2007). A batch without matching rows is yielded empty, so that a reader can stop. The
    /// request's limit counts rows before the condition.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn scan_where(&self, request: &ScanRequest, condition: RowCondition) -> Result<Scan> {
        self.places(&Projection::Places(condition.places.clone()))?;
        self.scan_with(request, Some(condition))
    }

    fn scan_with(&self, request: &ScanRequest, condition: Option<RowCondition>) -> Result<Scan> {
        let places = self.places(&request.projection)?;
        let newest = request.limit.filter(|_| request.newest_first);
        let bounds = ScanBounds { newest, ..self.bounds(request)? };
        let sources = self.sources(&bounds, places.len())?;
        let tested = condition.iter().flat_map(|condition| &condition.places);
        let (batch_rows, row_bytes) = self.batch_size(&sources, places.iter().chain(tested));
        let order = (request.limit, request.newest_first);
        let picker = Picker::new(&self.schema, &sources.list, bounds, batch_rows, order);
        Ok(Scan {
            reader: BatchReader::new(&self.schema, &sources.list, places, condition),
            progress: Progress::Alone(Box::new(picker)),
            resources: Arc::clone(&self.scans),
            _sources: sources,
            batch_bytes: batch_rows * row_bytes,
            batches: 0,
        })
    }

    /// Rows per batch with these columns, fewer if texts are long, and bytes per row.
    fn batch_size<'a>(&self, sources: &Sources, places: impl Iterator<Item = &'a usize>) -> (usize, usize) {
        let text_bytes = |place: &usize| {
            let column = &self.schema.columns[*place];
            let bytes = sources.list.iter().map(|source| source.text_bytes(column.id));
            bytes.max().filter(|_| column.column_type.is_bytes()).unwrap_or(0)
        };
        let texts: Vec<usize> = places.map(text_bytes).collect();
        let longest = texts.iter().max().copied().unwrap_or(0).max(1);
        let rows = self.scans.batch_rows.min(BATCH_TEXT_BYTES / longest).max(1);
        (rows, texts.iter().map(|bytes| bytes + size_of::<u64>()).sum())
    }
}

/// Approximate maximum bytes of a text column in a batch.
pub(crate) const BATCH_TEXT_BYTES: usize = 8 << 20;

/// A scan that runs alone asks for helper threads each time it has yielded this many batches. A
/// shorter scan would not pay for their start.
const BATCHES_ALONE: usize = 16;

/// Yields the rows of a scan as Arrow batches, in (key, time) order.
pub struct Scan {
    progress: Progress,
    reader: BatchReader,
    resources: Arc<ScanResources>,
    /// Keeps their memory charged.
    _sources: Sources,
    batch_bytes: usize,
    /// The batches that this thread has read alone.
    batches: usize,
}

/// How the rest of the rows is read.
enum Progress {
    /// By this thread.
    Alone(Box<Picker>),
    /// By this thread and helpers.
    Parallel(ParallelReader),
    /// Not at all: the end has been reached, or an error was returned.
    Ended,
}

impl Scan {
    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        self.reader.output()
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.ask_for_helpers();
        match &mut self.progress {
            Progress::Alone(picker) => {
                self.batches += 1;
                let picked = picker.next(&mut self.reader.memos)?;
                if picked.is_empty() {
                    return Ok(None);
                }
                let batch = self.reader.read(picked)?;
                Ok(Some(if picker.newest_first() { reversed(batch)? } else { batch }))
            }
            Progress::Parallel(parallel) => parallel.next(&mut self.reader),
            Progress::Ended => Ok(None),
        }
    }

    /// Lets helper threads read a long scan as well, if there are any.
    fn ask_for_helpers(&mut self) {
        let Progress::Alone(picker) = &self.progress else { return };
        if picker.newest_first() || self.batches == 0 || !self.batches.is_multiple_of(BATCHES_ALONE) {
            return;
        }
        if let Progress::Alone(picker) = std::mem::replace(&mut self.progress, Progress::Ended) {
            let started = ParallelReader::start(picker, &self.reader, &self.resources, self.batch_bytes);
            self.progress = started.map_or_else(Progress::Alone, Progress::Parallel);
        }
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch();
        if !matches!(next, Ok(Some(_))) {
            self.progress = Progress::Ended;
        }
        next.transpose()
    }
}

/// The rows in reverse order.
fn reversed(batch: RecordBatch) -> Result<RecordBatch> {
    if batch.num_columns() == 0 {
        return Ok(batch);
    }
    let rows = UInt32Array::from_iter_values((0..batch.num_rows() as u32).rev());
    Ok(take_record_batch(&batch, &rows)?)
}
