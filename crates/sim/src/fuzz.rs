//! The functions behind the fuzz targets in `fuzz/`: any input must give an error or an answer,
//! never a panic.
//!
//! A wrong checksum would stop a fuzzer at once, so checksums here are correct, and only the data
//! they cover is hostile. This crate's tests run the same functions on random bytes, so that they
//! keep working.

use crate::run::random_crashes;
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::{Io, MemoryStorage, Storage};
use fleetdb_engine::{
    Batch, ColumnType, Database, Durability, LineParser, Reader, Rows, ScanRequest, Settings, TableDefinition, Unit,
    Value, body_lines,
};
use std::sync::Arc;

/// A database with two tables, partly in segments.
fn database() -> Arc<MemoryStorage> {
    let storage = MemoryStorage::new();
    let Ok(db) = Database::open_with(Io::memory(Arc::clone(&storage)), Settings::default()) else { return storage };
    let series = TableDefinition::new("series").key("device", ColumnType::Utf8).time("ts", Unit::Second);
    let series = series.field("value", ColumnType::Int64).field("text", ColumnType::Utf8);
    let items = TableDefinition::new("items").key("id", ColumnType::Int64).field("value", ColumnType::Float64);
    if let (Ok(schema), Ok(_)) = (db.create_table(&series), db.create_table(&items)) {
        let mut rows = Rows::new(&schema);
        for n in 0..500 {
            let row =
                [Value::Text(format!("d{}", n % 3)), Value::Int(n), Value::Int(n * n), Value::Text(n.to_string())];
            rows.push(&row).ok();
        }
        db.commit(Batch::new().with_rows(rows)).ok();
        db.flush().ok();
    }
    drop(db);
    storage
}

/// Opens, reads and checks whatever is there.
fn use_it(storage: &Arc<MemoryStorage>) {
    let io = || Io::memory(Arc::clone(storage));
    check(&io(), |_, _| ()).ok();
    if let Ok(reader) = Reader::open(io(), Settings::default()) {
        for table in reader.view().tables() {
            table.count().ok();
            table.scan(&ScanRequest::all()).map(|scan| scan.map_while(Result::ok).count()).ok();
            table.last_rows(&ScanRequest::all()).map(|rows| rows.map_while(Result::ok).count()).ok();
        }
    }
    if let Ok(db) = Database::open_with(io(), Settings::default()) {
        db.compact().ok();
    }
}

/// Uses the bytes as the payload of a WAL frame with a correct checksum.
pub fn wal_frame(payload: &[u8]) {
    let storage = database();
    let Some(name) = storage.list("wal").ok().and_then(|names| names.last().cloned()) else { return };
    // One batch is in segments; this is the next.
    let mut checked = 2u64.to_le_bytes().to_vec();
    checked.extend_from_slice(&1u64.to_le_bytes());
    checked.extend_from_slice(payload);
    storage.tamper(&format!("wal/{name}"), |file| {
        file.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        file.extend_from_slice(&crc32c::crc32c(&checked).to_le_bytes());
        file.extend_from_slice(&checked);
    });
    use_it(&storage);
}

/// Uses the bytes as a manifest edit with a correct checksum.
pub fn manifest_edit(content: &[u8]) {
    let storage = database();
    let Some(name) = storage.list("manifest").ok().and_then(|names| names.last().cloned()) else { return };
    storage.tamper(&format!("manifest/{name}"), |file| {
        file.extend_from_slice(&(content.len() as u32).to_le_bytes());
        file.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
        file.extend_from_slice(content);
    });
    use_it(&storage);
}

/// Uses the bytes as changes to a segment, three per change: an offset from the end of the file,
/// where the footer, the page index and the container index are, and a value.
pub fn segment(changes: &[u8]) {
    let storage = database();
    let Some(name) = storage.list("segments/0").ok().and_then(|names| names.last().cloned()) else { return };
    storage.tamper(&format!("segments/0/{name}"), |file| {
        for change in changes.chunks_exact(3) {
            let back = usize::from(u16::from_le_bytes([change[0], change[1]])) + 1;
            if let Some(byte) = file.len().checked_sub(back).and_then(|place| file.get_mut(place)) {
                *byte = change[2];
            }
        }
    });
    use_it(&storage);
}

/// Uses the bytes as line protocol.
pub fn line_protocol(text: &[u8]) {
    let storage = MemoryStorage::new();
    let Ok(db) = Database::open_with(Io::memory(storage), Settings::default()) else { return };
    let mut parser = LineParser::new(&db, Unit::Nanosecond, 0);
    for line in body_lines(text) {
        parser.parse_bytes(line.bytes).ok();
    }
    parser.commit(Durability::Sync).ok();
}

/// Uses the bytes as a seed for the crash simulator.
pub fn operations(seed: &[u8]) {
    let seed = seed.iter().take(8).fold(0u64, |seed, &byte| seed << 8 | u64::from(byte));
    random_crashes(seed, 3);
}
