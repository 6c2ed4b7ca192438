//! Readers in other processes, and the lock against a second writer.

use super::{create, write};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, Database, ErrorKind, Reader, Rows, ScanRequest, Settings, Value};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Rows per batch of the writing process.
const BATCH_ROWS: i64 = 50;

/// Not a test on its own: the process that writes while others read.
#[test]
fn the_writer_alongside_readers() {
    let Ok(directory) = std::env::var("FLEETDB_WRITER_DIRECTORY") else { return };
    let settings = Settings { memtable_bytes: 64 << 10, ..Settings::default() };
    let db = Database::open_with(Io::files(directory), settings).unwrap();
    create(&db, "t");
    let mut out = std::io::stdout().lock();
    for batch in 0.. {
        write(&db, "t", (0..BATCH_ROWS).map(|n| (n % 7, batch * BATCH_ROWS + n, n)));
        if writeln!(out, "ack {batch}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

#[test]
fn readers_see_whole_batches_and_everything_acknowledged_while_another_process_writes() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::the_writer_alongside_readers", "--nocapture"])
        .env("FLEETDB_WRITER_DIRECTORY", directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut next_ack = || -> i64 {
        loop {
            let line = lines.next().unwrap().unwrap();
            if let Some(batch) = line.strip_prefix("ack ") {
                return batch.parse().unwrap();
            }
        }
    };
    next_ack();
    let reader = Reader::open(Io::files(directory.path()), Settings::default()).unwrap();
    let (mut before, mut segments) = (0, 0);
    for _ in 0..150 {
        // The pipe holds some thousand lines, so the writer runs ahead of what is read here.
        let acknowledged = (0..20).map(|_| next_ack()).last().unwrap();
        reader.refresh().unwrap();
        let view = reader.view();
        let table = view.table("t").unwrap();
        let rows = table.count().unwrap() as i64;
        assert_eq!(rows % BATCH_ROWS, 0, "batches are whole");
        assert!(rows >= (acknowledged + 1) * BATCH_ROWS, "{rows} rows, {acknowledged} batches acknowledged");
        assert!(rows >= before, "nothing vanishes");
        assert_eq!(table.scan(&ScanRequest::all()).unwrap().map(|b| b.unwrap().num_rows() as i64).sum::<i64>(), rows);
        (before, segments) = (rows, segments.max(table.segments()));
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(segments > 0, "the writer flushed meanwhile");
    let missing = tempfile::tempdir().unwrap();
    let Err(error) = Reader::open(Io::files(missing.path()), Settings::default()) else { panic!("nothing is there") };
    assert_eq!(error.kind(), ErrorKind::Input);
}

#[test]
fn a_refused_writer_learns_which_process_has_the_database_open() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::open_with(Io::files(directory.path()), Settings::default());
    let db = open().unwrap();
    let lock = directory.path().join("LOCK");
    assert_eq!(std::fs::read_to_string(&lock).unwrap(), std::process::id().to_string());
    assert!(open().err().unwrap().to_string().contains("is open for writing in this process: close it"));
    // As if another process had written its number.
    std::fs::write(&lock, "1").unwrap();
    let error = open().err().unwrap();
    assert!(error.to_string().contains("is open for writing in another process (1): close it there"), "{error}");
    assert!(error.hint().unwrap().contains("read_only=True"));
    db.close().unwrap();
}

#[test]
fn a_removed_lock_file_lets_no_second_process_write() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::open_with(Io::files(directory.path()), Settings::default());
    let db = open().unwrap();
    create(&db, "t");
    write(&db, "t", [(1, 0, 1)]);
    std::fs::remove_file(directory.path().join("LOCK")).unwrap();
    let second = open().err().unwrap();
    assert!(
        second.kind() == ErrorKind::Retry && second.to_string().contains("open for writing in another process"),
        "{second}"
    );
    // Not even when the file exists again: it is not the one that is locked.
    std::fs::write(directory.path().join("LOCK"), "").unwrap();
    let error = db.flush().unwrap_err().to_string();
    assert!(error.contains("LOCK was removed or replaced"), "{error}");
    let schema = db.tables().remove(0);
    let mut rows = Rows::new(&schema);
    rows.push(&[Value::Int(2), Value::Int(0), Value::Int(2)]).unwrap();
    let error = db.commit(Batch::new().with_rows(rows)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(error.to_string().contains("LOCK was removed or replaced"), "{error}");
    drop(db);
    let again = open().unwrap();
    assert_eq!(again.view().table("t").unwrap().count().unwrap(), 1, "what was acknowledged is there");
    write(&again, "t", [(2, 0, 2)]);
    again.close().unwrap();
}

#[test]
fn a_file_that_was_truncated_since_it_was_opened_is_read_to_its_new_end() {
    let directory = tempfile::tempdir().unwrap();
    let storage = Io::files(directory.path()).storage;
    let mut log = storage.create("log").unwrap();
    log.write(b"frames").unwrap();
    log.reserve(64 << 10).unwrap();
    let opened = storage.read("log").unwrap();
    // The writer ends its file after the last frame, as it does before it begins a new one.
    log.truncate(6).unwrap();
    assert_eq!(opened.read_all().unwrap(), "frames");
    assert!(opened.read_at(0, 7).is_err(), "a part that is asked for must be there");
}
