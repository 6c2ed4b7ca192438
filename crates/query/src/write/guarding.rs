//! Records the rows that a transaction's writes depend on, and compares them ([`Guard`]).

use super::guard::{Encoded, Guard};
use crate::session::Session;
use crate::write::rows::{named, rows_with_keys_of};
use arrow::array::RecordBatch;
use arrow::row::{RowConverter, Rows, SortField};
use fleetdb_direct::primary_key::primary_key;
use fleetdb_engine::{Code, Error, Result, TableSchema, View};
use fleetdb_functions::errors::engine_error;
use fleetdb_plan::table::FleetTable;
use futures::StreamExt;
use std::collections::HashMap;
use std::sync::Arc;

impl Session {
    /// Records the rows that a view holds under the keys of `rows`.
    pub(crate) fn guard(&self, view: &View, schema: &Arc<TableSchema>, rows: &[RecordBatch]) -> Result<Guard> {
        let rows = named(schema, rows.to_vec())?;
        let read = rows_with_keys_of(schema, &rows)?;
        let encoder = Encoder::new(schema)?;
        let mut keys = HashMap::new();
        for rows in &rows {
            keys.extend(encoder.keys(rows)?.iter().map(|key| (Encoded::from(key.as_ref()), None)));
        }
        let mut guard = Guard { schema: Arc::clone(schema), read, rows: keys };
        guard.rows = self.read_again(&guard, &encoder, view)?;
        Ok(guard)
    }

    /// Fails if a guarded row has changed.
    ///
    /// # Errors
    /// [`ErrorKind::Retry`](fleetdb_engine::ErrorKind::Retry) if one has.
    pub(crate) fn check_guards(&self, view: &View, guards: &[Guard]) -> Result<()> {
        for guard in guards {
            let name = &guard.schema.name;
            let table = view.table(name)?;
            let is_same = Arc::ptr_eq(table.schema(), &guard.schema)
                && self.read_again(guard, &Encoder::new(&guard.schema)?, view)? == guard.rows;
            if !is_same {
                return Err(Error::new(
                    Code::Conflict,
                    format!(
                        "another transaction has changed rows of table '{name}' that this one has read and changes, and nothing \
                     of this one is written: run it again"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Reads the guarded rows from a view.
    fn read_again(&self, guard: &Guard, encoder: &Encoder, view: &View) -> Result<HashMap<Encoded, Option<Encoded>>> {
        let mut found: HashMap<Encoded, Option<Encoded>> = guard.rows.keys().map(|key| (key.clone(), None)).collect();
        let table = FleetTable::within(&self.store, view.table(&guard.schema.name)?.clone(), guard.read.clone());
        let rows = async {
            let mut stream = self.context.read_table(Arc::new(table))?.execute_stream().await?;
            while let Some(rows) = stream.next().await {
                let rows = named(&guard.schema, vec![rows?]).and_then(|rows| {
                    rows.iter().try_for_each(|rows| {
                        for (key, row) in encoder.keys(rows)?.iter().zip(encoder.rows(rows)?.iter()) {
                            if let Some(found) = found.get_mut(key.as_ref()) {
                                *found = Some(Encoded::from(row.as_ref()));
                            }
                        }
                        Ok(())
                    })
                });
                if let Err(error) = rows {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        };
        let watch = self.limits.watch();
        self.runtime.block_on(watch.until_stopped(rows))?.map_err(engine_error)??;
        Ok(found)
    }
}

/// Encodes a table's keys and rows as comparable bytes.
struct Encoder {
    key: Vec<usize>,
    keys: RowConverter,
    rows: RowConverter,
}

impl Encoder {
    fn new(schema: &TableSchema) -> Result<Self> {
        let key = primary_key(schema);
        let field = |place: usize| SortField::new(schema.columns[place].column_type.to_arrow());
        let keys = RowConverter::new(key.iter().copied().map(field).collect())?;
        let rows = RowConverter::new((0..schema.columns.len()).map(field).collect())?;
        Ok(Self { key, keys, rows })
    }

    fn keys(&self, rows: &RecordBatch) -> Result<Rows> {
        let columns: Vec<_> = self.key.iter().map(|&place| Arc::clone(rows.column(place))).collect();
        Ok(self.keys.convert_columns(&columns)?)
    }

    fn rows(&self, rows: &RecordBatch) -> Result<Rows> {
        Ok(self.rows.convert_columns(rows.columns())?)
    }
}
