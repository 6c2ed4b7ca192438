//! Publishes the tables of a shipped database as [Delta tables](https://delta.io), so that other
//! programs read them truthfully.
//!
//! 1. The folder of a table's segments is the Delta table: `segments/TABLE/_delta_log/VERSION.json`
//!    lists them by their names. `delta.json` says which folder is which table.
//! 2. A version lists the oldest run of each time partition ([`oldest_runs`]). So no row is there
//!    twice. What was written later is missing until compaction has merged it.
//! 3. Each version is created only if absent, after the manifest that lists the same segments. A
//!    version is computed from the versions before it in the bucket. So a crash after the manifest
//!    leaves a Delta table that is one shipment old.
//! 4. Files that a version no longer lists stay in the bucket for a day. A program that reads an
//!    older version has that long.
//!
//! Columns that Delta has no type for are left out, and so are segments whose columns had other
//! names or types when they were written.

use super::{SEGMENTS, last_part, segment_name};
use crate::requests::Requests;
use bytes::Bytes;
use fleetdb_engine::inspect::{SegmentEntry, StoredColumn, oldest_runs, segment_file, stored_columns};
use fleetdb_engine::{Checkpoint, ColumnType, Error, Result, SegmentId, TableId, TableSchema, Unit};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

/// The folder of a Delta table's log.
const LOG: &str = "_delta_log";
/// Says which folder is which table.
const TABLES: &str = "delta.json";

/// Whether an object in the folder of segments is part of a Delta table's log.
pub(super) fn is_log(name: &str) -> bool {
    name.split('/').any(|part| part == LOG)
}

/// What is known of the Delta tables of a bucket.
#[derive(Default)]
pub(super) struct Delta {
    /// What the log of each table says; one that is not here must be read.
    tables: HashMap<TableId, Published>,
    /// The columns of segments that were looked at.
    columns: HashMap<SegmentId, Vec<(String, StoredColumn)>>,
    /// What `delta.json` says.
    listed: Option<Value>,
}

/// What the log of a Delta table says.
#[derive(Default)]
struct Published {
    /// The number of the next version.
    next: u64,
    /// The schema, as in the log.
    schema: Option<String>,
    /// The names of the files and their sizes.
    files: BTreeMap<String, u64>,
}

impl Delta {
    /// Publishes what has changed. If a table fails, the others are published all the same.
    pub(super) fn publish(&mut self, requests: &Requests, checkpoint: &Checkpoint<'_>) -> Result<()> {
        let state = checkpoint.state();
        self.columns.retain(|id, _| state.segments.contains_key(id));
        let published = state.tables.values().map(|table| self.publish_table(requests, checkpoint, table));
        let first_error = published.fold(Ok(()), Result::and);
        let tables = state.tables.values().map(|table| (table.name.clone(), json!(folder(table.id)))).collect();
        let listed = json!({ "tables": Value::Object(tables) });
        if self.listed.as_ref() != Some(&listed) {
            let text = Bytes::from(listed.to_string());
            requests.wait(|bucket| async move { bucket.write(TABLES, text).await })?;
            self.listed = Some(listed);
        }
        first_error
    }

    fn publish_table(&mut self, requests: &Requests, checkpoint: &Checkpoint<'_>, table: &TableSchema) -> Result<()> {
        let state = checkpoint.state();
        let mut files = BTreeMap::new();
        for entry in oldest_runs(state, table.id) {
            if self.fits(checkpoint, entry, table)? {
                files.insert(file_of(entry), entry);
            }
        }
        let mut published = match self.tables.remove(&table.id) {
            Some(published) => published,
            None => Published::read(requests, table.id)?,
        };
        published.publish(requests, table, &state.database_id, &files)?;
        self.tables.insert(table.id, published);
        Ok(())
    }

    /// Whether the columns of a segment are what the table's are now. It may lack new ones.
    fn fits(&mut self, checkpoint: &Checkpoint<'_>, entry: &SegmentEntry, table: &TableSchema) -> Result<bool> {
        let columns = match self.columns.get(&entry.id) {
            Some(columns) => columns,
            None => {
                let columns = stored_columns(checkpoint.file(entry)?.as_ref(), &segment_file(entry))?;
                self.columns.entry(entry.id).or_insert(columns)
            }
        };
        let fits = |(name, stored): &(String, StoredColumn)| match table.columns.iter().find(|own| own.id == stored.id)
        {
            Some(own) => own.name == *name && own.column_type == stored.column_type,
            // A column that was dropped is ignored by its name.
            None => table.find(name).is_none(),
        };
        Ok(columns.iter().all(fits))
    }
}

impl Published {
    /// Reads the log of a table.
    fn read(requests: &Requests, table: TableId) -> Result<Self> {
        let log = requests.within(&format!("{}/{LOG}", folder(table)));
        let names = log.wait(|bucket| async move { bucket.list().await })?;
        let mut published = Self::default();
        for name in names.into_iter().filter(|name| name.ends_with(".json")) {
            let wrong = |what: &str| Error::damaged(format!("{}/{name}: {what}", log.url()));
            let object = name.clone();
            let read = log.wait(|bucket| async move { bucket.read(&object).await })?;
            let (bytes, _) = read.ok_or_else(|| wrong("it is listed, but is not there"))?;
            if name != version_file(published.next) {
                return Err(wrong("a version is missing before it"));
            }
            for line in std::str::from_utf8(&bytes).map_err(|_| wrong("it is not text"))?.lines() {
                let action: Value = serde_json::from_str(line).map_err(|e| wrong(&e.to_string()))?;
                published.apply(&action);
            }
            published.next += 1;
        }
        Ok(published)
    }

    fn apply(&mut self, action: &Value) {
        if let Some(schema) = action["metaData"]["schemaString"].as_str() {
            self.schema = Some(schema.to_owned());
        }
        if let Some(path) = action["add"]["path"].as_str() {
            self.files.insert(path.to_owned(), action["add"]["size"].as_u64().unwrap_or(0));
        }
        if let Some(path) = action["remove"]["path"].as_str() {
            self.files.remove(path);
        }
    }

    /// Writes the next version, if anything has changed.
    fn publish(
        &mut self,
        requests: &Requests,
        table: &TableSchema,
        database_id: &str,
        files: &BTreeMap<String, &SegmentEntry>,
    ) -> Result<()> {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let schema = schema_of(table).to_string();
        let mut actions = Vec::new();
        if self.schema.as_ref() != Some(&schema) {
            if self.schema.is_none() {
                let features = json!(["timestampNtz"]);
                actions.push(json!({ "protocol": {
                    "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features,
                } }));
            }
            actions.push(json!({ "metaData": {
                "id": delta_id(database_id, table.id),
                "name": table.name,
                "format": { "provider": "parquet", "options": {} },
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": {},
                "createdTime": now_ms,
            } }));
        }
        for path in self.files.keys().filter(|path| !files.contains_key(*path)) {
            actions.push(json!({ "remove": { "path": path, "deletionTimestamp": now_ms, "dataChange": true } }));
        }
        for (path, entry) in files.iter().filter(|(path, _)| !self.files.contains_key(*path)) {
            actions.push(json!({ "add": {
                "path": path,
                "partitionValues": {},
                "size": entry.bytes,
                "modificationTime": now_ms,
                "dataChange": true,
                "stats": json!({ "numRecords": entry.rows }).to_string(),
            } }));
        }
        if actions.is_empty() {
            return Ok(());
        }
        actions.push(json!({ "commitInfo": { "timestamp": now_ms, "operation": "WRITE", "engineInfo": "FleetDB" } }));
        let text: String = actions.iter().map(|action| format!("{action}\n")).collect();
        let (name, text) = (format!("{}/{LOG}/{}", folder(table.id), version_file(self.next)), Bytes::from(text));
        let is_written = requests.wait(|bucket| async move { bucket.claim(&name, &text).await })?;
        if !is_written {
            // An earlier try that was taken for lost has been done since.
            *self = Self::read(requests, table.id)?;
            return Err(Error::retry(format!("{}/{} had a newer version", requests.url(), folder(table.id))));
        }
        actions.iter().for_each(|action| self.apply(action));
        self.next += 1;
        Ok(())
    }
}

/// The folder of a table's segments.
fn folder(table: TableId) -> String {
    format!("{SEGMENTS}/{}", table.0)
}

/// The name of a segment's object in the folder of its table.
fn file_of(entry: &SegmentEntry) -> String {
    last_part(&segment_name(entry)).to_owned()
}

fn version_file(version: u64) -> String {
    format!("{version:020}.json")
}

/// A UUID that names the table of a database.
fn delta_id(database_id: &str, table: TableId) -> String {
    let sum = crate::bucket::sha256(format!("{database_id}/{}", table.0).as_bytes());
    [&sum[..8], &sum[8..12], &sum[12..16], &sum[16..20], &sum[20..32]].join("-")
}

/// The schema of a table, in Delta's form.
fn schema_of(table: &TableSchema) -> Value {
    let field = |(name, of): (&str, Value)| json!({ "name": name, "type": of, "nullable": true, "metadata": {} });
    let columns = table.columns.iter().filter_map(|column| Some((column.name.as_str(), type_of(column.column_type)?)));
    json!({ "type": "struct", "fields": columns.map(field).collect::<Vec<_>>() })
}

/// Delta's type for a column; `None` if there is none.
fn type_of(column_type: ColumnType) -> Option<Value> {
    Some(match column_type {
        ColumnType::Boolean => json!("boolean"),
        ColumnType::Int8 => json!("byte"),
        ColumnType::Int16 | ColumnType::UInt8 => json!("short"),
        ColumnType::Int32 | ColumnType::UInt16 => json!("integer"),
        ColumnType::Int64 | ColumnType::UInt32 => json!("long"),
        ColumnType::Float32 => json!("float"),
        ColumnType::Float64 => json!("double"),
        ColumnType::Utf8 | ColumnType::Json | ColumnType::Jsonb => json!("string"),
        ColumnType::Binary | ColumnType::Uuid => json!("binary"),
        ColumnType::Date32 => json!("date"),
        ColumnType::Decimal { precision, scale } => json!(format!("decimal({precision},{scale})")),
        // Parquet has no times in seconds: the file holds their number.
        ColumnType::Timestamp(Unit::Second) | ColumnType::TimestampUtc(Unit::Second) => json!("long"),
        ColumnType::Timestamp(_) => json!("timestamp_ntz"),
        ColumnType::TimestampUtc(_) => json!("timestamp"),
        ColumnType::Array(element) => {
            json!({ "type": "array", "elementType": type_of(element.column_type())?, "containsNull": true })
        }
        ColumnType::UInt64 | ColumnType::Time => return None,
    })
}

#[cfg(test)]
#[path = "delta_tests.rs"]
mod tests;
