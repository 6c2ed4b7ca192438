//! Fills a real file system of 200 MB 20 times during ingest: nothing acknowledged is lost, reads
//! go on, and ingest resumes by itself when there is room. The test mounts a loop device; without
//! the right to mount it is skipped.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test on a real disk")]

use fleetdb_engine::inspect::check;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, ColumnType, Database, ErrorKind, Rows, Settings, TableDefinition, Unit, Value};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILLS: i64 = 20;
const IMAGE_BYTES: u64 = 200 << 20;
const BATCH_ROWS: i64 = 200;

/// A mounted file system, unmounted on drop.
struct Mount {
    directory: tempfile::TempDir,
}

impl Mount {
    /// `None` if this process may not mount.
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
        let run = |program: &str, args: &[&str]| {
            Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
        };
        let mount = Self { directory };
        std::fs::create_dir(mount.path()).unwrap();
        let (image, path) = (image.to_str().unwrap().to_owned(), mount.path().to_str().unwrap().to_owned());
        (run("mkfs.ext4", &["-q", "-m", "0", &image]) && run("mount", &["-o", "loop", &image, &path])).then_some(mount)
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        Command::new("umount").arg(self.path()).output().ok();
    }
}

/// Fills the file system except for `leave_bytes`.
fn fill(path: &Path, leave_bytes: usize) {
    let mut file = std::fs::File::create(path).unwrap();
    let piece = vec![7u8; 1 << 20];
    while file.write_all(&piece).is_ok() {}
    let len = file.metadata().unwrap().len();
    file.set_len(len.saturating_sub(leave_bytes as u64)).unwrap();
    file.sync_all().ok();
}

/// A batch that does not compress; equal for equal numbers.
fn batch(db: &Database, number: i64) -> Batch {
    let mut rows = Rows::new(&db.tables()[0]);
    for row in 0..BATCH_ROWS {
        let time = number * BATCH_ROWS + row;
        let mut noise = time as u64;
        let text: String = (0..64)
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                format!("{:016x}", noise ^ (noise >> 31))
            })
            .collect();
        rows.push(&[Value::Int(time % 5), Value::Int(time), Value::Text(text)]).unwrap();
    }
    Batch::new().with_rows(rows)
}

#[test]
fn a_disk_that_is_full_twenty_times_loses_nothing_and_ingest_resumes() {
    let Some(mount) = Mount::new() else {
        println!("skipped: mounting a loop device is not allowed here");
        return;
    };
    let settings = Settings { memtable_bytes: 4 << 20, write_wait_ms: 200, ..Settings::default() };
    let db = Database::open_with(Io::files(mount.path().join("db")), settings.clone()).unwrap();
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    db.create_table(&table.field("text", ColumnType::Utf8)).unwrap();
    let filler = mount.path().join("filler");
    let (mut next, mut kept_from) = (0, 0);
    for round in 0..FILLS {
        // Room for almost nothing, for one flush, or for several.
        fill(&filler, (round as usize % 4) * (3 << 20) + 4_096);
        let refused = loop {
            match db.commit(batch(&db, next)) {
                Ok(_) => next += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::Retry, "fill {round}: {refused}");
        let count = || db.view().table("t").unwrap().count().unwrap() as i64;
        let acknowledged = (next - kept_from) * BATCH_ROWS;
        assert!([acknowledged, acknowledged + BATCH_ROWS].contains(&count()), "fill {round}: reads go on");
        std::fs::remove_file(&filler).unwrap();
        // Without help: the same batch is retried until it is accepted.
        while let Err(error) = db.commit(batch(&db, next)) {
            assert_eq!(error.kind(), ErrorKind::Retry, "fill {round}: {error}");
            std::thread::yield_now();
        }
        next += 1;
        assert_eq!(count(), (next - kept_from) * BATCH_ROWS, "fill {round}");
        if round % 5 == 4 {
            // Delete old rows, so that the next fills have room for theirs.
            kept_from = next - 10;
            db.commit(Batch::new().delete("t", None, ..kept_from * BATCH_ROWS)).unwrap();
            db.compact().unwrap();
            assert_eq!(count(), 10 * BATCH_ROWS);
        }
    }
    fill(&filler, 4_096);
    while db.commit(batch(&db, next)).is_ok() {
        next += 1;
    }
    drop(db);
    std::fs::remove_file(&filler).unwrap();
    let db = Database::open_with(Io::files(mount.path().join("db")), settings).unwrap();
    let rows = db.view().table("t").unwrap().count().unwrap() as i64;
    let acknowledged = (next - kept_from) * BATCH_ROWS;
    assert!([acknowledged, acknowledged + BATCH_ROWS].contains(&rows), "{rows} rows, {acknowledged} acknowledged");
    db.close().unwrap();
    let report = check(&Io::files(mount.path().join("db")), |_, _| ()).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert!(next > FILLS, "{next} batches");
}
