//! A running scan: yields the rows of a table as Arrow batches.

use super::batch_reader::{BatchReader, RowCondition};
use super::picker::Picker;
use super::reading::Reading;
use super::{Projection, ScanBounds, ScanRequest, Sources, TableView};
use crate::error::Result;
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;

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
        let bounds = ScanBounds { newest, limit: request.limit, ..self.bounds(request)? };
        let newest_first = request.newest_first;
        if let Some(batch) = self.scan_in_memory(request, &bounds, &places, condition.as_ref()).transpose() {
            return Ok(Scan { rows: Rows::InMemory(self.schema.to_arrow_of(&places), Some(batch)), newest_first });
        }
        let sources = self.sources(&bounds, places.len())?;
        let tested = condition.iter().flat_map(|condition| &condition.places);
        let (batch_rows, row_bytes) = self.batch_size(&sources, places.iter().chain(tested));
        let order = (request.limit, request.newest_first);
        let picker = Picker::new(&self.schema, &sources.list, bounds, batch_rows, order);
        let picker = picker.with_first(request.first_rows.unwrap_or(batch_rows));
        let reader = BatchReader::new(&self.schema, &sources.list, places, condition);
        let reading = Reading::new(picker, reader, sources, &self.scans, batch_rows * row_bytes);
        Ok(Scan { rows: Rows::Read(Box::new(reading)), newest_first })
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

/// Yields the rows of a scan as Arrow batches, in (key, time) order.
pub struct Scan {
    rows: Rows,
    newest_first: bool,
}

enum Rows {
    Read(Box<Reading<BatchReader>>),
    /// The only batch, which is found when the scan begins, until it is yielded, and its schema.
    InMemory(SchemaRef, Option<Result<RecordBatch>>),
}

impl Scan {
    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        match &self.rows {
            Rows::Read(reading) => reading.reader().output(),
            Rows::InMemory(schema, _) => schema,
        }
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.rows {
            Rows::Read(reading) => {
                let batch = reading.next()?;
                Some(if self.newest_first { batch.and_then(reversed) } else { batch })
            }
            // Each container has one row.
            Rows::InMemory(_, batch) => batch.take(),
        }
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
