//! Reads of containers that need no SQL.

use crate::values::for_column;
use crate::work::{Results, Work};
use fleetdb_engine::{Aggregate, Result, ScanRequest, TableView, Value};

/// A range of a table's rows: those of a container, or of all, from a time on and before another.
pub(crate) struct Container {
    pub(crate) table: String,
    /// The values of the key columns; `None` for all containers.
    pub(crate) key: Option<Vec<Value>>,
    /// The first time; `i64::MIN` for no bound.
    pub(crate) from: i64,
    /// The first time behind the range; `i64::MAX` for no bound.
    pub(crate) to: i64,
}

/// Which rows of a [`Container`] are read.
#[derive(Clone, Copy)]
pub(crate) enum Which {
    All,
    Newest,
}

impl Container {
    /// The values of the key in the form of its columns.
    fn key_of(&self, table: &TableView) -> Result<Option<Vec<Value>>> {
        let (Some(key), schema) = (&self.key, table.schema()) else { return Ok(None) };
        if key.len() != schema.key.len() {
            // The engine says what the key needs.
            return Ok(Some(key.clone()));
        }
        let columns = schema.key.iter().map(|&place| schema.columns[place].column_type);
        key.iter().zip(columns).map(|(value, of)| for_column(value.clone(), of)).collect::<Result<_>>().map(Some)
    }

    /// Whether no time is in the range.
    fn is_empty(&self) -> bool {
        self.from >= self.to && self.to != i64::MAX
    }

    /// The rows.
    ///
    /// # Errors
    /// The table does not exist, the key does not fit, or reading failed.
    pub(crate) fn rows(&self, work: &Work, which: Which) -> Result<Results> {
        let begun = work.stop().begin();
        let view = work.view()?;
        let table = view.table(&self.table)?;
        let mut request = ScanRequest::all();
        request.keys = self.key_of(table)?.map(|key| vec![key]);
        request.from = (self.from != i64::MIN).then_some(self.from);
        request.to = (self.to != i64::MAX).then_some(self.to.saturating_sub(1));
        let schema = table.schema().to_arrow();
        Ok(match which {
            Which::Newest => Results::scanned(begun, schema, Box::new(table.last_rows(&request)?)),
            Which::All if self.is_empty() => Results::scanned(begun, schema, Box::new(std::iter::empty())),
            Which::All => Results::scanned(begun, schema, Box::new(table.scan(&request)?)),
        })
    }

    /// The totals of a column.
    ///
    /// # Errors
    /// As [`rows`](Self::rows); or the column does not exist or is not numeric.
    pub(crate) fn aggregate(&self, work: &Work, column: &str) -> Result<Aggregate> {
        let view = work.view()?;
        let table = view.table(&self.table)?;
        if self.is_empty() {
            table.schema().column_index(column)?;
            return Ok(Aggregate { count: 0, min: None, max: None, sum: None });
        }
        let last = if self.to == i64::MAX { i64::MAX } else { self.to.saturating_sub(1) };
        table.container(&self.key_of(table)?.unwrap_or_default())?.aggregate(column, self.from, last)
    }
}
