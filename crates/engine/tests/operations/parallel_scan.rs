//! Long scans by several threads give the rows of a scan by one, pass errors on, and give back what
//! they took.

use super::{create, write};
use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::Int64Type;
use fleetdb_engine::io::{Io, MemoryStorage, Storage};
use fleetdb_engine::{Database, ErrorKind, Projection, RowCondition, ScanRequest, Settings};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

const IDS: i64 = 40;
const ROWS: i64 = IDS * 500;

/// A database whose scans have 200 batches and may use this many threads.
fn database(storage: &Arc<MemoryStorage>, scan_threads: usize) -> Database {
    let settings = Settings { scan_threads, scan_batch_rows: 100, cache_bytes: 0, ..Settings::default() };
    Database::open_with(Io::memory(Arc::clone(storage)), settings).unwrap()
}

/// The value of a row; values in order do not compress.
fn value(row: i64) -> i64 {
    let mixed = (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) as i64
}

/// Three overlapping segments, and rows in memory.
fn fill(db: &Database) {
    create(db, "t");
    for part in 0..4 {
        let rows = (0..ROWS).filter(|row| row % 4 == part);
        write(db, "t", rows.map(|row| (row % IDS, row / IDS, value(row))));
        if part < 3 {
            db.flush().unwrap();
        }
    }
}

fn is_helper() -> bool {
    std::thread::current().name() == Some("fleetdb-scan")
}

fn values(batches: impl Iterator<Item = fleetdb_engine::Result<RecordBatch>>) -> Vec<i64> {
    let mut values = Vec::new();
    for batch in batches {
        values.extend_from_slice(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
    }
    values
}

fn of_v() -> ScanRequest {
    ScanRequest::all().columns(Projection::Names(vec!["v".to_owned()]))
}

/// A condition that all rows meet. It calls `seen` for each batch of rows.
fn watching(seen: impl Fn() + Send + Sync + 'static) -> RowCondition {
    let test = move |rows: &RecordBatch| {
        seen();
        Ok(BooleanArray::from(vec![true; rows.num_rows()]))
    };
    RowCondition { places: vec![2], test: Arc::new(test), stack_bytes: 0 }
}

/// Makes the thread that asks for rows wait until a helper thread has read some, or panics.
fn once_helped(then: impl Fn() + Send + Sync + 'static) -> RowCondition {
    let (send, receive): (Sender<()>, Receiver<()>) = channel();
    let receive = Mutex::new(Some(receive));
    let batches = Mutex::new(0);
    watching(move || {
        if is_helper() {
            send.send(()).ok();
            return then();
        }
        let mut batches = batches.lock().unwrap();
        *batches += 1;
        // The scan is alone for 16 batches.
        if *batches > 16
            && let Some(receive) = receive.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            receive.recv().unwrap();
        }
    })
}

#[test]
fn rows_and_their_order_do_not_depend_on_the_threads() {
    let storage = MemoryStorage::new();
    fill(&database(&storage, 1));
    let expected: Vec<i64> = (0..IDS).flat_map(|id| (0..ROWS / IDS).map(move |at| value(at * IDS + id))).collect();
    for threads in [1, 2, 4] {
        let db = database(&storage, threads);
        let view = db.view();
        let table = view.table("t").unwrap();
        assert_eq!(values(table.scan(&of_v()).unwrap()), expected);
        for limit in [0, 1_600, 1_601, 4_321] {
            assert_eq!(values(table.scan(&of_v().limit(limit)).unwrap()), expected[..limit]);
        }
        let even = |rows: &RecordBatch| {
            Ok(rows.column(0).as_primitive::<Int64Type>().iter().map(|v| v.map(|v| v % 2 == 0)).collect())
        };
        let even = RowCondition { places: vec![2], test: Arc::new(even), stack_bytes: 1 << 20 };
        let evens: Vec<i64> = expected.iter().copied().filter(|v| v % 2 == 0).collect();
        assert_eq!(values(table.scan_where(&of_v(), even).unwrap()), evens);
    }
}

#[test]
fn a_scan_that_is_dropped_gives_back_memory_and_threads() {
    let db = database(&MemoryStorage::new(), 2);
    fill(&db);
    let view = db.view();
    let table = view.table("t").unwrap();
    for _ in 0..3 {
        let mut scan = table.scan_where(&of_v(), once_helped(|| ())).unwrap();
        for _ in 0..30 {
            scan.next().unwrap().unwrap();
        }
        // The only helper is busy.
        let alone = watching(|| assert!(!is_helper()));
        assert_eq!(values(table.scan_where(&of_v(), alone).unwrap()).len() as i64, ROWS);
        assert!(db.status().work_bytes > 0);
        drop(scan);
        assert_eq!(db.status().work_bytes, 0);
    }
}

#[test]
fn errors_of_any_thread_end_the_scan() {
    let storage = MemoryStorage::new();
    let db = database(&storage, 3);
    fill(&db);
    let view = db.view();
    let table = view.table("t").unwrap();
    let panics = once_helped(|| panic!("a helper thread panics in this test"));
    let mut scan = table.scan_where(&of_v(), panics).unwrap();
    let error = scan.find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Bug);
    assert!(scan.next().is_none());
    drop(scan);
    assert_eq!(db.status().work_bytes, 0);

    // Damage in the second page of the column, which is read after much else.
    drop(view);
    drop(db);
    for name in storage.list("segments/0").unwrap() {
        storage.tamper(&format!("segments/0/{name}"), |bytes| {
            let place = bytes.len() / 6 * 5;
            bytes[place] ^= 1;
        });
    }
    let db = database(&storage, 3);
    let view = db.view();
    let mut scan = view.table("t").unwrap().scan(&of_v()).unwrap();
    let before: usize = scan.by_ref().map_while(Result::ok).map(|batch| batch.num_rows()).sum();
    assert!((2_000..ROWS as usize).contains(&before), "{before} rows were read");
    assert!(scan.next().is_none());
    let damaged = view.table("t").unwrap().scan(&of_v()).unwrap().find_map(Result::err).unwrap();
    assert_eq!(damaged.kind(), ErrorKind::Damaged);
}
