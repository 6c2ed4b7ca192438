//! Compaction and its effect on writers and memory.

use super::{DAY_S, create, create_with_partitions, read, times, with_clock, write};
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Batch, Database, Durability, ErrorKind, Rows, ScanRequest, Settings, Value};

#[test]
fn closing_does_not_wait_for_a_throttled_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { compaction_bytes_per_s: 1, ..Settings::default() };
    let db = Database::open_with(Io::files(directory.path()), settings).unwrap();
    create(&db, "t");
    for flush in 0..10 {
        write(&db, "t", (0..2_000).map(|n| (n % 7, flush * 2_000 + n, n)));
        db.flush().unwrap();
    }
    // The merge writes its only row group and then waits for hours.
    while db.status().compacting.is_none() {
        std::thread::yield_now();
    }
    let status = db.status();
    assert!(status.compaction_debt_bytes > 0 || status.segments < 10, "{status:?}");
    // If closing waited for the merge, it would take hours.
    db.close().unwrap();
    let db = Database::open_with(Io::files(directory.path()), Settings::default()).unwrap();
    assert_eq!(read(&db).len(), 20_000);
    db.close().unwrap();
    assert!(check(&Io::files(directory.path()), |_, _| ()).unwrap().problems.is_empty());
}

#[test]
fn long_containers_are_merged_only_where_their_times_overlap() {
    let (db, _) = with_clock(&MemoryStorage::new(), 0);
    create(&db, "t");
    let rows = |flush: i64| (0..10_000).map(move |n| (n % 2, flush * 5_000 + n / 2, flush));
    for flush in 0..12 {
        write(&db, "t", rows(flush));
        db.flush().unwrap();
    }
    db.settle().unwrap();
    let status = db.status();
    assert_eq!((status.segments, status.compaction_debt_bytes), (12, 0));
    let view = db.view();
    let table = view.table("t").unwrap();
    assert_eq!(table.count().unwrap(), 120_000);
    assert_eq!(table.container(&[Value::Int(1)]).unwrap().last_row().unwrap().unwrap()[1], Value::Int(59_999));
    let part = table.scan(&ScanRequest::all().container(&[Value::Int(0)]).from_time(9_990).to_time(10_010)).unwrap();
    assert_eq!(part.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 21);
    // Each of these replaces the rows of the one before.
    for _ in 0..8 {
        write(&db, "t", rows(3));
        db.flush().unwrap();
    }
    db.settle().unwrap();
    assert!(db.status().segments <= 13, "{:?}", db.status());
    assert_eq!(db.view().table("t").unwrap().count().unwrap(), 120_000);
    db.compact().unwrap();
    assert_eq!((db.status().segments, read(&db).len()), (1, 120_000));
}

#[test]
fn many_long_runs_are_merged_once_and_in_part() {
    let (db, _) = with_clock(&MemoryStorage::new(), 0);
    create_with_partitions(&db, "t", 64 * DAY_S);
    let flushes = 80;
    for flush in 0..flushes {
        write(&db, "t", (0..9_000).map(|n| (n % 2, flush * 4_500 + n / 2, flush)));
        db.flush().unwrap();
        db.settle().unwrap();
        assert!(db.status().segments <= 40, "{:?}", db.status());
    }
    let status = db.status();
    // 16 of 41 runs are merged each time.
    assert_eq!((status.segments, status.compactions), (35, 3));
    assert!(status.compacted_bytes < status.flushed_bytes, "a row was merged twice: {status:?}");
    let times: Vec<i64> = (0..2).flat_map(|_| 0..flushes * 4_500).collect();
    assert_eq!(read(&db), times);
}

#[test]
fn writers_wait_when_compaction_is_far_behind() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings {
        compaction_bytes_per_s: 1,
        memtable_bytes: 64 << 10,
        write_wait_ms: 100,
        durability: Durability::Os,
        ..Settings::default()
    };
    let db = Database::open_with(Io::files(directory.path()), settings).unwrap();
    create(&db, "t");
    let schema = db.tables().remove(0);
    let mut n = 0;
    let refused = loop {
        let mut rows = Rows::new(&schema);
        for _ in 0..1_000 {
            rows.push(&[Value::Int(n % 7), Value::Int(n % DAY_S), Value::Int(n)]).unwrap();
            n += 1;
        }
        match db.commit(Batch::new().with_rows(rows)) {
            Ok(_) => assert!(n < 10_000_000, "nothing holds the writer back: {:?}", db.status()),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Retry);
    assert!(refused.to_string().contains("compaction cannot keep up"), "{refused}");
    assert!(db.status().held_back && db.status().segments < 80, "{:?}", db.status());
    // A requested flush is not held back, and neither is the one on close.
    db.flush().unwrap();
    db.close().unwrap();
    let db = Database::open_with(Io::files(directory.path()), Settings::default()).unwrap();
    assert_eq!(read(&db).len() as i64, (n - 1_000).min(7 * DAY_S));
    // Without the throttle, compaction catches up.
    while db.status().compaction_debt_bytes > 0 {
        std::thread::yield_now();
    }
    assert!(!db.status().held_back);
}

#[test]
fn memory_kept_by_an_old_view_is_charged_to_queries() {
    let (db, _) = with_clock(&MemoryStorage::new(), 0);
    create(&db, "t");
    write(&db, "t", (0..10_000).map(|n| (n % 7, n, n)));
    let (memory, view) = (db.query_memory(), db.view());
    let held_bytes = db.status().memtable_bytes;
    assert_eq!((memory.used_bytes(), times(view.table("t").unwrap()).len()), (0, 10_000));
    db.flush().unwrap();
    assert_eq!((memory.used_bytes(), db.status().memtable_bytes < held_bytes), (held_bytes, true));
    drop(view);
    assert_eq!(memory.used_bytes(), 0);
}
