//! Power cuts and damage, on storage that remembers what was synced.
#![allow(clippy::unwrap_used, reason = "a test")]

use fleetdb_engine::inspect::check;
use fleetdb_engine::io::{Io, MemoryStorage, Storage};
use fleetdb_engine::{
    Batch, ColumnType, Database, Durability, ErrorKind, Rows, ScanRequest, Settings, TableDefinition, TryCommit, Unit,
    Value,
};
use std::sync::{Arc, mpsc};

fn open(storage: &Arc<MemoryStorage>) -> fleetdb_engine::Result<Database> {
    let settings = Settings { memtable_bytes: 64 << 10, ..Settings::default() };
    Database::open_with(Io::memory(Arc::clone(storage)), settings)
}

fn create(db: &Database) -> fleetdb_engine::Result<()> {
    for name in ["a", "b"] {
        let table = TableDefinition::new(name).key("id", ColumnType::Int64).time("ts", Unit::Second);
        db.create_table(&table.field("text", ColumnType::Utf8))?;
    }
    Ok(())
}

/// Batch `n` writes 20 rows to table a and one to table b.
fn batch(db: &Database, n: i64) -> Batch {
    let tables = db.tables();
    let (mut a, mut b) = (Rows::new(&tables[0]), Rows::new(&tables[1]));
    for row in 0..20 {
        a.push(&[Value::Int(row % 3), Value::Int(n * 20 + row), Value::Text(format!("text {n} {row:0>100}"))]).unwrap();
    }
    b.push(&[Value::Null, Value::Int(n), Value::Null]).unwrap();
    Batch::new().with_rows(a).with_rows(b)
}

fn count(db: &Database, table: &str) -> u64 {
    let view = db.view();
    let rows: usize =
        view.table(table).unwrap().scan(&ScanRequest::all()).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(view.table(table).unwrap().count().unwrap(), rows as u64);
    rows as u64
}

/// Writes until the storage fails; returns the number of acknowledged batches.
fn write_until_failure(storage: &Arc<MemoryStorage>, batches: i64) -> u64 {
    let Ok(db) = open(storage) else { return 0 };
    let mut acknowledged = 0;
    if create(&db).is_ok() {
        for n in 0..batches {
            if n == batches / 2 && db.flush().is_err() {
                break;
            }
            match db.commit(batch(&db, n).with_durability(Durability::Sync)) {
                Ok(_) => acknowledged += 1,
                Err(_) => break,
            }
        }
        let has_spare = || storage.list("wal").unwrap().contains(&"spare".to_owned());
        assert!(acknowledged < batches as u64 || has_spare(), "WAL files are overwritten");
    }
    acknowledged
}

#[test]
fn a_power_cut_at_any_sync_loses_nothing_acknowledged() {
    let dry = MemoryStorage::new();
    assert_eq!(write_until_failure(&dry, 150), 150);
    let syncs = dry.syncs();
    assert!(syncs > 150, "{syncs} syncs");
    for at in 0..syncs as i64 {
        for kept in [0, 37, 100] {
            let storage = MemoryStorage::new();
            storage.fail_after(at);
            let acknowledged = write_until_failure(&storage, 150);
            let after = storage.crash_keeping(|_, unsynced| unsynced * kept / 100);
            let db = open(&after).unwrap_or_else(|e| panic!("cut at sync {at}, {kept} % kept: {e}"));
            if db.tables().len() < 2 {
                assert_eq!(acknowledged, 0, "cut at sync {at}, {kept} % kept");
                continue;
            }
            let (a, b) = (count(&db, "a"), count(&db, "b"));
            assert!(b >= acknowledged, "cut at sync {at}, {kept} % kept: {b} of {acknowledged} batches");
            assert_eq!(a, b * 20, "cut at sync {at}, {kept} % kept: a batch is whole or not there");
            db.close().unwrap();
            let report = check(&Io::memory(after), |_, _| ()).unwrap();
            assert!(report.problems.is_empty(), "cut at sync {at}: {:?}", report.problems);
        }
    }
}

#[test]
fn a_sync_of_one_batch_is_its_committers_or_the_logs_and_survives_a_power_cut() {
    let storage = MemoryStorage::new();
    let directory = tempfile::tempdir().unwrap();
    // With background threads.
    let io = Io { storage: Arc::clone(&storage) as _, ..Io::files(directory.path()) };
    let db = Database::open_with(io, Settings::default()).unwrap();
    create(&db).unwrap();
    for n in 0..20 {
        let (sender, fate) = mpsc::channel();
        let taken = db
            .try_commit(&batch(&db, n).with_durability(Durability::Sync), move |fate| sender.send(fate).unwrap())
            .unwrap();
        let TryCommit::NeedsSync(alone) = taken else { panic!("batch {n}: nobody else writes") };
        if n % 2 == 0 {
            alone.sync()
        } else {
            drop(alone)
        }
        fate.recv().unwrap().unwrap();
        let after = storage.crash_keeping(|_, _| 0);
        assert_eq!(count(&open(&after).unwrap(), "b"), n as u64 + 1);
    }
    db.close().unwrap();
}

#[test]
fn a_committer_who_never_waits_does_not_stand_behind_a_statement_that_reads_and_writes() {
    let db = open(&MemoryStorage::new()).unwrap();
    create(&db).unwrap();
    db.transact(|_| {
        let tried = db.try_commit(&batch(&db, 1), |_| panic!("nothing was taken")).unwrap();
        assert!(matches!(tried, TryCommit::Full));
        Ok(batch(&db, 2))
    })
    .unwrap();
    assert!(!matches!(db.try_commit(&batch(&db, 3), |_| ()).unwrap(), TryCommit::Full));
    assert_eq!(count(&db, "b"), 2);
}

fn filled() -> Arc<MemoryStorage> {
    let storage = MemoryStorage::new();
    fill(&storage).close().unwrap();
    storage
}

fn fill(storage: &Arc<MemoryStorage>) -> Database {
    let db = open(storage).unwrap();
    create(&db).unwrap();
    for n in 0..10 {
        db.commit(batch(&db, n)).unwrap();
    }
    db
}

fn only_file(storage: &MemoryStorage, directory: &str) -> String {
    let names = storage.list(directory).unwrap();
    format!("{directory}/{}", names.last().unwrap())
}

#[test]
fn a_torn_tail_is_dropped_and_a_damaged_frame_is_an_error() {
    let before = MemoryStorage::new();
    let db = fill(&before);
    let storage = before.crash();
    let wal = only_file(&storage, "wal");
    let cut = |bytes: &mut Vec<u8>| {
        let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
        bytes.truncate(end - 5);
    };
    storage.tamper(&wal, cut);
    assert_eq!(count(&open(&storage).unwrap(), "b"), 9, "the torn batch is gone, the others are there");
    drop(db);
    // After a clean close, it was not a crash that truncated the file.
    let storage = filled();
    storage.tamper(&wal, cut);
    let error = open(&storage).err().expect("a batch is lost");
    assert!(error.to_string().contains("the log ends with batch 9, but batch 10 had been written"), "{error}");

    let storage = filled();
    storage.tamper(&wal, |bytes| bytes[60] ^= 4);
    let error = open(&storage).err().expect("a damaged frame in the middle");
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("wal/") && error.to_string().contains("byte 24"), "{error}");
    let report = check(&Io::memory(storage), |_, _| ()).unwrap();
    assert_eq!(report.problems.len(), 1);
}

#[test]
fn a_missing_wal_file_is_an_error() {
    let storage = MemoryStorage::new();
    let db = open(&storage).unwrap();
    create(&db).unwrap();
    db.commit(batch(&db, 0)).unwrap();
    db.close().unwrap();
    let wal = only_file(&storage, "wal");
    storage.rename(&wal, "wal/0000000000000007.wal").unwrap();
    let error = open(&storage).err().expect("a generation is missing");
    assert_eq!(error.kind(), ErrorKind::Damaged);
}

#[test]
fn a_flip_in_any_byte_of_a_segment_or_manifest_is_found() {
    let storage = filled();
    let db = open(&storage).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    for directory in ["segments/0", "manifest"] {
        let name = only_file(&storage, directory);
        let len = storage.read(&name).unwrap().len_bytes() as usize;
        let mut missed = Vec::new();
        for at in 0..len {
            storage.tamper(&name, |bytes| bytes[at] ^= 0x10);
            let found = match check(&Io::memory(Arc::clone(&storage)), |_, _| ()) {
                Ok(report) => !report.problems.is_empty(),
                Err(_) => true,
            };
            if !found {
                missed.push(at);
            }
            storage.tamper(&name, |bytes| bytes[at] ^= 0x10);
        }
        assert!(missed.is_empty(), "{name}: flips at {missed:?} were not found");
    }
}

#[test]
fn a_failed_fsync_ends_all_acknowledgements() {
    let storage = MemoryStorage::new();
    let db = open(&storage).unwrap();
    create(&db).unwrap();
    db.commit(batch(&db, 0)).unwrap();
    storage.fail_after(0);
    assert_eq!(db.commit(batch(&db, 1)).unwrap_err().kind(), ErrorKind::Closed);
    storage.fail_after(-1);
    assert_eq!(db.commit(batch(&db, 2).with_durability(Durability::Os)).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn bad_input_is_refused_with_its_place_and_changes_nothing() {
    let storage = MemoryStorage::new();
    let db = open(&storage).unwrap();
    create(&db).unwrap();
    let tables = db.tables();
    let mut rows = Rows::new(&tables[0]);
    rows.push(&[Value::Int(1), Value::Int(1), Value::Null]).unwrap();
    rows.push(&[Value::Int(1), Value::Null, Value::Null]).unwrap();
    let good = batch(&db, 0);
    let bad = good.with_rows(rows);
    let error = db.commit(bad).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    let message = error.to_string();
    assert!(message.contains("'a'") && message.contains("'ts'") && message.contains("row 2"), "{message}");
    assert_eq!(count(&db, "a") + count(&db, "b"), 0);
    let empty = arrow::array::RecordBatch::new_empty(Arc::new(arrow::datatypes::Schema::empty()));
    let error = db.commit(Batch::new().with("c", empty)).unwrap_err();
    assert!(error.kind() == ErrorKind::Input && error.to_string().contains("\"c\""), "{error}");
}

#[test]
fn a_second_writer_is_refused_while_the_first_has_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let first = Database::open_with(Io::files(directory.path()), Settings::default()).unwrap();
    let error = Database::open_with(Io::files(directory.path()), Settings::default()).err().expect("a second writer");
    assert_eq!(error.kind(), ErrorKind::Retry);
    first.close().unwrap();
    Database::open_with(Io::files(directory.path()), Settings::default()).unwrap().close().unwrap();
}
