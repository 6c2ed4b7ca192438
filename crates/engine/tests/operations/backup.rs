//! Backups.

use super::{DAY_S, create, read, with_clock, write};
use fleetdb_engine::backup::restore;
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::{Io, MemoryStorage, Storage};
use fleetdb_engine::{Database, ErrorKind, Settings};
use std::sync::Arc;

#[test]
fn a_backup_holds_what_was_acknowledged_and_grows_by_what_is_new() {
    let (source, backup, restored) = (MemoryStorage::new(), MemoryStorage::new(), MemoryStorage::new());
    let (db, _) = with_clock(&source, 0);
    create(&db, "t");
    write(&db, "t", (0..1_000).map(|n| (n % 3, n, n)));
    let to = Io::memory(Arc::clone(&backup));
    let first = db.backup(&to, |_, _| ()).unwrap();
    assert_eq!((first.segments, first.kept_bytes), (1, 0));
    write(&db, "t", (0..1_000).map(|n| (n % 3, DAY_S + n, n)));
    let second = db.backup(&to, |_, _| ()).unwrap();
    assert_eq!((second.segments, second.kept_bytes), (2, first.bytes));
    db.compact().unwrap();
    write(&db, "t", [(9, 9, 9)]);
    let from = Io::memory(Arc::clone(&backup));
    let (report, checked) = restore(&from, &Io::memory(Arc::clone(&restored)), |_, _| ()).unwrap();
    assert_eq!((report.segments, checked.rows), (2, 2_000));
    let (copy, _) = with_clock(&restored, 0);
    assert_eq!(read(&copy).len(), 2_000);
    drop(copy);
    // A foreign directory, a backup that was written to, and a damaged backup are refused.
    let error = restore(&from, &Io::memory(Arc::clone(&restored)), |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("already contains a database"), "{error}");
    let other = MemoryStorage::new();
    other.create("letter.txt").unwrap().write(b"dear").unwrap();
    let error = db.backup(&Io::memory(other), |_, _| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    let (copy, _) = with_clock(&backup, 0);
    write(&copy, "t", [(8, 8, 8)]);
    std::mem::forget(copy);
    let written_to = backup.crash();
    let error = db.backup(&Io::memory(written_to), |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("written to"), "{error}");
    let damaged = MemoryStorage::new();
    db.backup(&Io::memory(Arc::clone(&damaged)), |_, _| ()).unwrap();
    let name = damaged.list("segments/0").unwrap()[0].clone();
    damaged.tamper(&format!("segments/0/{name}"), |bytes| bytes[100] ^= 1);
    let error = restore(&Io::memory(damaged), &Io::memory(MemoryStorage::new()), |_, _| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

#[test]
fn a_backup_on_the_same_disk_is_links_and_keeps_files_that_compaction_replaces() {
    let (source, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = Database::open_with(Io::files(source.path()), Settings::default()).unwrap();
    create(&db, "t");
    for part in 0..3 {
        write(&db, "t", (0..1_000).map(|n| (n % 3, part * 1_000 + n, n)));
        db.flush().unwrap();
    }
    let report = db.backup(&Io::files(backup.path()), |_, _| ()).unwrap();
    assert_eq!((report.segments, report.copied_bytes), (3, 0));
    assert!(report.linked_bytes > 0);
    db.compact().unwrap();
    let report = db.backup(&Io::files(backup.path()), |_, _| ()).unwrap();
    assert_eq!(report.segments, 1);
    let files = std::fs::read_dir(backup.path().join("segments/0")).unwrap().count();
    assert_eq!(files, 1, "what the backup does not list any more is gone");
    db.close().unwrap();
    assert!(check(&Io::files(backup.path()), |_, _| ()).unwrap().problems.is_empty());
}

#[test]
fn only_the_owner_can_read_files_and_a_backup_never_goes_into_the_database() {
    use std::os::unix::fs::PermissionsExt;
    fn modes(directory: &std::path::Path, found: &mut Vec<(String, u32)>) {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let metadata = entry.metadata().unwrap();
            found.push((entry.path().display().to_string(), metadata.permissions().mode() & 0o777));
            if metadata.is_dir() {
                modes(&entry.path(), found);
            }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("db");
    let db = Database::open_with(Io::files(&place), Settings::default()).unwrap();
    create(&db, "t");
    write(&db, "t", [(1, 0, 1)]);
    db.flush().unwrap();
    let mut found = Vec::new();
    modes(directory.path(), &mut found);
    assert!(found.len() > 6, "{found:?}");
    for (path, mode) in found {
        let is_file = path.ends_with("LOCK") || path.rsplit('/').next().unwrap().contains('.');
        assert_eq!(mode, if is_file { 0o600 } else { 0o700 }, "{path}");
    }
    std::os::unix::fs::symlink(&place, directory.path().join("link")).unwrap();
    for inside in [place.clone(), directory.path().join("link"), place.join("backup"), place.join("../db")] {
        let error = db.backup(&Io::files(&inside), |_, _| ()).unwrap_err();
        assert!(error.to_string().contains("the database's own directory"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Input);
    }
    db.backup(&Io::files(directory.path().join("db-backup")), |_, _| ()).unwrap();
}
