//! Hard use that the server must withstand: a process that is suspended for a while, damaged files,
//! tables that change under load, and a user that may only read but tries to write.

use crate::access::{add_user, ask};
use crate::crash::{Load, make_table};
use crate::http::request;
use crate::process::{Server, fleetdb};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::{Path, PathBuf};
use std::process::Command;

fn signal(server: &Server, name: &str) {
    let pid = server.process.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

/// The kernel's letter for the state of a process: `T` is stopped.
fn state(server: &Server) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.process.id())).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn a_server_that_is_stopped_for_a_while_goes_on() {
    let data = tempfile::tempdir().unwrap();
    make_table(data.path());
    let server = Server::start(data.path(), &[]);
    let load = Load::start(&server, 0);
    load.wait();
    for _ in 0..5 {
        signal(&server, "-STOP");
        while state(&server) != 'T' {
            std::thread::yield_now();
        }
        // The kernel accepts the connection; the server answers it once it continues.
        let http = server.address("http").to_owned();
        let asked = std::thread::spawn(move || request(&http, "GET", "/health", "", b"").unwrap().status);
        signal(&server, "-CONT");
        assert_eq!(asked.join().unwrap(), 200);
    }
    assert!(server.terminate());
    load.compare(data.path(), 0);
}

/// Every file of a database except its lock, relative to the directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = vec![directory.to_owned()];
    while let Some(below) = next.pop() {
        for entry in std::fs::read_dir(below).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => next.push(path),
                false if path.ends_with("LOCK") => {}
                false => found.push(path.strip_prefix(directory).unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(&file);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(from.join(&file), target).unwrap();
    }
}

/// Creates rows in several segments, and rows that are only in the log.
fn fill(data: &Path) {
    let rows = |from: i64| {
        format!(
            "INSERT INTO t SELECT n % 7, n, n * 0.5, 'text ' || n FROM generate_series({from}, {}) AS g(n)",
            from + 4_999
        )
    };
    let create = "CREATE TABLE t (id BIGINT, n BIGINT, v DOUBLE, s TEXT, PRIMARY KEY (id, n))";
    for text in [create, &rows(0)] {
        let made = fleetdb().args(["sql", "--create", "--data"]).arg(data).args(["-c", text]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let backup = tempfile::tempdir().unwrap();
    // A backup has all rows in segments; rows written after it are in the log.
    let to = backup.path().join("backup");
    assert!(fleetdb().arg("backup").arg("--data").arg(data).arg(&to).output().unwrap().status.success());
    std::fs::remove_dir_all(data).unwrap();
    assert!(fleetdb().arg("restore").arg(&to).arg("--data").arg(data).output().unwrap().status.success());
    let added = fleetdb().args(["sql", "--data"]).arg(data).args(["-c", &rows(5_000)]).output().unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
}

/// All rows of the table, or the error if the database cannot be read.
fn contents(data: &Path) -> Result<String, String> {
    let query = "SELECT id, n, v, s FROM t ORDER BY id, n";
    let output = fleetdb().args(["sql", "--data"]).arg(data).args(["--format", "csv", "-c", query]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Some(1) => Err(said),
        other => panic!("ended with {other:?}: {said}"),
    }
}

/// FLEETDB_DAMAGES sets the number of damaged files; FLEETDB_SEED repeats a run.
#[test]
fn a_damaged_file_is_named_or_harms_no_answer() {
    let data = tempfile::tempdir().unwrap();
    fill(data.path());
    let right = contents(data.path()).unwrap();
    let of = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = of("FLEETDB_SEED").unwrap_or_else(rand::random);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let names = files(data.path());
    assert!(names.len() >= 3, "{names:?}");
    for number in 0..of("FLEETDB_DAMAGES").unwrap_or(152) {
        let damaged = tempfile::tempdir().unwrap();
        copy(data.path(), damaged.path());
        let name = &names[random.random_range(0..names.len())];
        let path = damaged.path().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = random.random_range(0..bytes.len().max(1));
        let what = match random.random_range(0..5) {
            0 => {
                bytes.truncate(at);
                "cut"
            }
            1 => {
                bytes.clear();
                "emptied"
            }
            2 => {
                bytes.extend((0..at).map(|_| random.random::<u8>()));
                "longer"
            }
            _ if bytes.is_empty() => "left",
            _ => {
                bytes[at] ^= 1 << random.random_range(0..8);
                "flipped"
            }
        };
        std::fs::write(&path, &bytes).unwrap();
        let case = format!("FLEETDB_SEED={seed}, {number}: {} {what} at {at}", name.display());
        match contents(damaged.path()) {
            Ok(found) => assert!(found == right, "{case}: another answer"),
            Err(said) => {
                assert!(said.starts_with("fleetdb: ") && !said.contains("panicked"), "{case}: {said}");
                let file = name.file_name().unwrap().to_str().unwrap();
                assert!(said.contains(file) || said.contains("manifest"), "{case}: no file is named: {said}");
            }
        }
    }
}

/// FLEETDB_DDL sets the number of rounds.
#[test]
fn tables_are_made_and_changed_under_load() {
    let data = tempfile::tempdir().unwrap();
    make_table(data.path());
    let server = Server::start(data.path(), &[]);
    let load = Load::start(&server, 0);
    load.wait();
    let rounds = std::env::var("FLEETDB_DDL").map_or(30, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let text = format!(
            "CREATE TABLE made (id BIGINT, v DOUBLE, PRIMARY KEY (id)); INSERT INTO made VALUES ({round}, 1); \
             ALTER TABLE made ADD COLUMN w TEXT; ALTER TABLE made RENAME COLUMN v TO x; \
             UPDATE made SET w = 'a' WHERE id = {round}; ALTER TABLE made DROP COLUMN x; \
             ALTER TABLE made RENAME TO made_{round}; \
             ALTER TABLE rows ADD COLUMN c{round} BIGINT; ALTER TABLE rows DROP COLUMN c{round}; \
             DROP TABLE made_{round}"
        );
        for statement in text.split("; ") {
            assert_eq!(ask(&server, "me", "any", statement), Ok(()), "round {round}: {statement}");
        }
    }
    assert!(server.terminate());
    load.compare(data.path(), 0);
}

/// Statements that write, change or administrate, one for each place in which such a statement can
/// appear.
fn writes() -> Vec<String> {
    let plain = [
        "INSERT INTO t VALUES (9, 9, 9, 'x')",
        "INSERT INTO t SELECT * FROM t",
        "INSERT INTO t (id, n) VALUES (9, 9) ON CONFLICT (id, n) DO UPDATE SET v = 1",
        "INSERT INTO t (id, n) VALUES (9, 9) ON CONFLICT DO NOTHING",
        "INSERT INTO t (id, n) VALUES (9, 9) RETURNING id",
        "UPDATE t SET v = 0",
        "UPDATE t SET v = 0 WHERE id = 1 RETURNING *",
        "DELETE FROM t",
        "DELETE FROM t WHERE v > 1",
        "DELETE FROM t WHERE id = 1 RETURNING n",
        "WITH a AS (INSERT INTO t (id, n) VALUES (8, 8)) INSERT INTO t (id, n) VALUES (9, 9)",
        "WITH a AS (DELETE FROM t RETURNING id) SELECT count(*) FROM a",
        "TRUNCATE t",
        "TRUNCATE TABLE t",
    ];
    let of_tables = [
        "CREATE TABLE u (id BIGINT, PRIMARY KEY (id))",
        "CREATE TABLE IF NOT EXISTS u (id BIGINT, PRIMARY KEY (id))",
        "CREATE TABLE u AS SELECT 1 AS id",
        "DROP TABLE t",
        "DROP TABLE IF EXISTS t",
        "ALTER TABLE t ADD COLUMN w BIGINT",
        "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE t SET (retention = '1 day')",
        "COPY t FROM STDIN",
        "COPY t FROM '/etc/passwd'",
        "COPY t TO '/tmp/fleetdb-stolen.csv'",
        "COPY (SELECT * FROM t) TO '/tmp/fleetdb-stolen.parquet'",
        "CREATE VIEW w AS SELECT 1",
        "CREATE INDEX i ON t (v)",
        "CREATE SCHEMA s",
        "DROP SCHEMA public",
        "CREATE DATABASE d",
        "CREATE USER u PASSWORD 'x'",
        "GRANT ALL ON t TO ray",
        "SET datafusion.runtime.memory_limit = '1G'",
        "VACUUM t",
    ];
    let mut all: Vec<String> = plain.iter().chain(&of_tables).map(|text| (*text).to_owned()).collect();
    for text in plain {
        all.push(format!("EXPLAIN ANALYZE {text}"));
        all.push(format!("COPY ({text}) TO STDOUT"));
        all.push(format!("DECLARE c CURSOR WITH HOLD FOR {text}"));
        all.push(format!("PREPARE p AS {text}; EXECUTE p"));
        all.push(format!("BEGIN; {text}; COMMIT"));
        all.push(format!("SELECT 1; {text}"));
    }
    all
}

#[test]
fn a_reader_changes_nothing_by_any_statement() {
    let data = tempfile::tempdir().unwrap();
    fill(data.path());
    let right = contents(data.path()).unwrap();
    add_user(data.path(), "ray", "readonly", "read");
    let server = Server::start(data.path(), &[]);
    let statements = writes();
    assert!(statements.len() > 107);
    let before = files(data.path());
    for statement in statements {
        assert!(ask(&server, "ray", "readonly", &statement).is_err(), "{statement}");
    }
    assert_eq!(files(data.path()), before, "a file was made or removed");
    assert!(!Path::new("/tmp/fleetdb-stolen.csv").exists() && !Path::new("/tmp/fleetdb-stolen.parquet").exists());
    assert!(server.terminate());
    assert!(contents(data.path()).unwrap() == right, "rows were changed");
}
