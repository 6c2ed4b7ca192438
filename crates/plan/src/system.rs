//! The schema `system`: the contents and state of the database as tables.
//!
//! The tables are computed when a statement names them. `docs/sql.md` lists their columns.

use crate::store::Store;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array};
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::error::Result;
use fleetdb_engine::{ColumnType, ScanRequest, TableSchema, View};
use fleetdb_functions::errors::query_error;
use std::fmt;
use std::sync::Arc;

/// The names of the tables.
const TABLES: [&str; 5] = ["tables", "segments", "containers", "status", "settings"];

/// The schema provider. See the module documentation.
pub struct SystemTables {
    store: Store,
}

impl SystemTables {
    /// The tables about this store.
    pub fn new(store: &Store) -> Self {
        Self { store: store.clone() }
    }
}

impl fmt::Debug for SystemTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(TABLES).finish()
    }
}

#[async_trait::async_trait]
impl SchemaProvider for SystemTables {
    fn table_names(&self) -> Vec<String> {
        TABLES.map(str::to_owned).to_vec()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let rows = match name {
            "tables" => tables(&self.store),
            "segments" => segments(&self.store.view()),
            "containers" => containers(&self.store.view()),
            "status" => status(&self.store),
            "settings" => settings(&self.store),
            _ => return Ok(None),
        };
        let rows = rows.map_err(query_error)?;
        Ok(Some(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.contains(&name)
    }
}

fn text(values: impl IntoIterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn count(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> fleetdb_engine::Result<RecordBatch> {
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn names(schema: &TableSchema, places: &[usize]) -> String {
    places.iter().map(|&place| schema.columns[place].name.as_str()).collect::<Vec<_>>().join(", ")
}

fn tables(store: &Store) -> fleetdb_engine::Result<RecordBatch> {
    let (as_of_ns, view) = (store.as_of_ns(), store.view());
    let schemas: Vec<&Arc<TableSchema>> = view.tables().map(|table| table.schema()).collect();
    let rows = view.tables().map(|table| table.count()).collect::<fleetdb_engine::Result<Vec<_>>>()?;
    let as_of = TimestampMicrosecondArray::from(vec![as_of_ns / 1_000; schemas.len()]);
    let times = schemas.iter().map(|schema| schema.time.map(|place| schema.columns[place].name.clone()));
    batch(vec![
        ("table_name", text(schemas.iter().map(|schema| schema.name.clone()))),
        ("key_columns", text(schemas.iter().map(|schema| names(schema, &schema.key)))),
        ("time_column", Arc::new(times.collect::<StringArray>())),
        ("retention_seconds", Arc::new(schemas.iter().map(|schema| schema.retention_seconds).collect::<Int64Array>())),
        ("merge", text(schemas.iter().map(|schema| schema.merge.to_string()))),
        ("rows", count(rows)),
        ("segments", count(view.tables().map(|table| table.segments() as u64))),
        ("bytes", count(view.tables().map(|table| table.segment_entries().map(|entry| entry.bytes).sum()))),
        ("as_of", Arc::new(as_of.with_timezone(ColumnType::UTC))),
    ])
}

fn segments(view: &View) -> fleetdb_engine::Result<RecordBatch> {
    let entries: Vec<_> = view
        .tables()
        .flat_map(|table| table.segment_entries().map(|entry| (table.schema().name.clone(), entry)))
        .collect();
    batch(vec![
        ("table_name", text(entries.iter().map(|(name, _)| name.clone()))),
        ("segment", count(entries.iter().map(|(_, entry)| entry.id.0))),
        ("generation", count(entries.iter().map(|(_, entry)| entry.generation.0))),
        ("rows", count(entries.iter().map(|(_, entry)| entry.rows))),
        ("bytes", count(entries.iter().map(|(_, entry)| entry.bytes))),
        ("first_time", Arc::new(Int64Array::from_iter_values(entries.iter().map(|(_, entry)| entry.times.0)))),
        ("last_time", Arc::new(Int64Array::from_iter_values(entries.iter().map(|(_, entry)| entry.times.1)))),
    ])
}

fn containers(view: &View) -> fleetdb_engine::Result<RecordBatch> {
    let (mut tables, mut keys, mut rows, mut first, mut last) = (vec![], vec![], vec![], vec![], vec![]);
    for table in view.tables().filter(|table| table.schema().time.is_some()) {
        for container in table.containers(&ScanRequest::all(), &[])? {
            let container = container?;
            tables.push(table.schema().name.clone());
            keys.push(container.key.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
            rows.push(container.rows);
            first.push(container.times.0);
            last.push(container.times.1);
        }
    }
    batch(vec![
        ("table_name", text(tables)),
        ("key", text(keys)),
        ("rows", count(rows)),
        ("first_time", Arc::new(Int64Array::from(first))),
        ("last_time", Arc::new(Int64Array::from(last))),
    ])
}

fn status(store: &Store) -> fleetdb_engine::Result<RecordBatch> {
    let status = store.status();
    let error = |error: Option<fleetdb_engine::Error>| error.map(|error| error.to_string());
    let number = |number: u64| Some(number.to_string());
    let mut rows = vec![
        ("memtables", number(status.memtable_bytes as u64), "bytes"),
        ("frozen generations", number(status.frozen_generations as u64), ""),
        ("segments", number(status.segments as u64), ""),
        ("segment bytes", number(status.segment_bytes), "bytes"),
        ("cache", number(status.cache_bytes), "bytes"),
        ("scans and compaction", number(status.work_bytes as u64), "bytes"),
        ("log written", number(status.wal_bytes_written), "bytes"),
        ("log fsyncs", number(status.wal_syncs), ""),
        ("flushed", number(status.flushed_bytes), "bytes"),
        ("compacted", number(status.compacted_bytes), "bytes"),
        ("merges", number(status.compactions), ""),
        ("waiting for compaction", number(status.compaction_debt_bytes), "bytes"),
        ("writers held back", Some(status.held_back.to_string()), ""),
        ("compacting", status.compacting, ""),
        ("flush error", error(status.flush_error), ""),
        ("compaction error", error(status.compaction_error), ""),
    ];
    if let Some(shipping) = status.shipping {
        rows.extend([
            ("not shipped for", shipping.seconds.map(|seconds| seconds.to_string()), "seconds"),
            ("batches to ship", number(shipping.batches), ""),
            ("shipped", number(shipping.sent_bytes), "bytes"),
            ("shipping error", error(shipping.error), ""),
        ]);
    }
    if let Some(adopting) = status.adopting {
        rows.extend([
            ("outboxes not looked at for", adopting.seconds.map(|seconds| seconds.to_string()), "seconds"),
            ("rows adopted", number(adopting.rows), ""),
            ("devices that fail", number(adopting.failing), ""),
            ("adopting error", error(adopting.error), ""),
        ]);
    }
    if let Some(reading) = status.reading {
        rows.extend([
            ("age of what is read", number(reading.age_seconds), "seconds"),
            ("reading error", error(reading.error), ""),
        ]);
    }
    batch(vec![
        ("name", text(rows.iter().map(|(name, _, _)| (*name).to_owned()))),
        ("value", Arc::new(rows.iter().map(|(_, value, _)| value.clone()).collect::<StringArray>())),
        ("unit", text(rows.iter().map(|(_, _, unit)| (*unit).to_owned()))),
    ])
}

fn settings(store: &Store) -> fleetdb_engine::Result<RecordBatch> {
    let rows = store.settings().list();
    batch(vec![
        ("name", text(rows.iter().map(|(name, ..)| (*name).to_owned()))),
        ("value", text(rows.iter().map(|(_, value, ..)| value.clone()))),
        ("unit", text(rows.iter().map(|(_, _, unit, _)| (*unit).to_owned()))),
        ("description", text(rows.iter().map(|(.., description)| (*description).to_owned()))),
    ])
}
