//! Rows that replace whole rows, even in a table that merges fields.

use super::admit::admit;
use super::batch::{Batch, Part};
use super::value::Value;
use crate::error::{Error, Result};
use crate::key;
use crate::schema::TableSchema;
use arrow::array::{Array, RecordBatch};
use std::sync::Arc;

/// Maximum rows that [`Batch::with_replacing_rows`] deletes and rewrites; each adds a delete to the
/// manifest.
pub const MAX_REWRITTEN_ROWS: usize = 100_000;

impl Batch {
    /// Adds rows that replace the rows with the same primary keys as a whole, even in a table that
    /// merges fields. There, a row that is NULL in one of `columns` is deleted and rewritten. The
    /// rows have all columns in the table's order; `columns` are indexes into them.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if more than [`MAX_REWRITTEN_ROWS`] rows would
    /// be deleted, or the rows do not fit the table.
    pub fn with_replacing_rows(
        mut self,
        schema: &Arc<TableSchema>,
        rows: RecordBatch,
        columns: &[usize],
    ) -> Result<Self> {
        let is_renewed = |row: usize| columns.iter().any(|&place| rows.column(place).is_null(row));
        let renewed = (0..rows.num_rows()).filter(|&row| schema.merges_fields() && is_renewed(row));
        let renewed: Vec<usize> = renewed.collect();
        if renewed.len() + self.deletes.len() > MAX_REWRITTEN_ROWS {
            return Err(Error::invalid(format!(
                "table '{}' merges fields: one statement can set fields of at most {MAX_REWRITTEN_ROWS} rows to NULL; \
                 restrict the key or the time range and update in parts",
                schema.name
            )));
        }
        let part = Part::Arrow(schema.name.clone(), rows);
        if !renewed.is_empty() {
            let (admitted, types) = (admit(schema, &part)?, schema.key_types());
            for row in renewed {
                let key = key::decode(admitted.keys.get(row), &types)?;
                let key: Vec<Value> = key.iter().zip(&types).map(|(value, of)| Value::of_key(value, *of)).collect();
                let time = admitted.times[row] as i64;
                self = self.delete(&schema.name, Some(&key), time..=time);
            }
        }
        self.push_part(part);
        Ok(self)
    }
}
