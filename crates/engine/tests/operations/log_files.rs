//! WAL files that are missing or too short.

use super::{create, write};
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::{Io, MemoryStorage, Storage};
use fleetdb_engine::{Database, ErrorKind, Settings};
use std::sync::Arc;

#[test]
fn a_newest_log_file_that_was_removed_or_cut_is_noticed() {
    type Change = fn(&MemoryStorage, &str);
    let changes: [(&str, Change); 3] = [
        ("is missing", |storage, name| storage.remove(name).unwrap()),
        ("is empty", |storage, name| storage.tamper(name, Vec::clear)),
        ("the log ends with batch 0, but batch 2", |storage, name| storage.tamper(name, |bytes| bytes.truncate(24))),
    ];
    for is_closed in [true, false] {
        for (expected, change) in &changes {
            let storage = MemoryStorage::new();
            let db = Database::open_with(Io::memory(Arc::clone(&storage)), Settings::default()).unwrap();
            create(&db, "t");
            write(&db, "t", [(1, 0, 1)]);
            write(&db, "t", [(2, 0, 2)]);
            let storage = if is_closed {
                db.close().unwrap();
                storage
            } else {
                storage.crash()
            };
            let name = format!("wal/{}", storage.list("wal").unwrap().last().unwrap());
            change(&storage, &name);
            let io = Io::memory(Arc::clone(&storage));
            // Only a clean close records how much was written since the open.
            if !is_closed && expected.starts_with("the log ends") {
                Database::open_with(io, Settings::default()).unwrap();
                continue;
            }
            let error = Database::open_with(io.clone(), Settings::default()).err().unwrap();
            assert!(error.kind() == ErrorKind::Damaged && error.to_string().contains(expected), "{error}");
            let report = check(&io, |_, _| ()).unwrap();
            assert!(report.problems.iter().any(|problem| problem.contains(expected)), "{:?}", report.problems);
            assert!(fleetdb_engine::accept_loss(&io).unwrap());
            let db = Database::open_with(io, Settings::default()).unwrap();
            write(&db, "t", [(3, 0, 3)]);
            assert_eq!(db.view().table("t").unwrap().count().unwrap(), 1);
        }
    }
    // Flushed rows are not missed, and the manifest's log mark follows the flushes.
    let storage = MemoryStorage::new();
    let db = Database::open_with(Io::memory(Arc::clone(&storage)), Settings::default()).unwrap();
    create(&db, "t");
    write(&db, "t", [(1, 0, 1)]);
    db.flush().unwrap();
    let before = storage.crash();
    Database::open_with(Io::memory(Arc::clone(&before)), Settings::default()).unwrap();
    let name = format!("wal/{}", before.list("wal").unwrap().last().unwrap());
    before.remove(&name).unwrap();
    assert!(Database::open_with(Io::memory(before), Settings::default()).is_err());
}

#[test]
fn a_flush_leaves_a_short_log() {
    let storage = MemoryStorage::new();
    let settings = Settings { memtable_bytes: 64 << 10, ..Settings::default() };
    let db = Database::open_with(Io::memory(Arc::clone(&storage)), settings).unwrap();
    create(&db, "t");
    let log_bytes = || -> u64 {
        let names = storage.list("wal").unwrap().into_iter();
        names.map(|name| storage.read(&format!("wal/{name}")).unwrap().len_bytes()).sum()
    };
    for batch in 0..100 {
        write(&db, "t", (0..200).map(|row| (row % 7, batch * 200 + row, row * row)));
    }
    // The file of an earlier generation is overwritten.
    let before = log_bytes();
    assert!(before > 10_000, "{before}");
    db.flush().unwrap();
    assert!(log_bytes() < 1_000, "{}", log_bytes());
}
