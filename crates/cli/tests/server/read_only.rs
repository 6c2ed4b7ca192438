//! A server that only reads a database which another process writes.

use crate::access::{add_user, ask};
use crate::http::{request, sql};
use crate::process::{Server, fleetdb};
use std::time::{Duration, Instant};

/// Waits until a query of the reader gives a line like this.
fn wait_for(http: &str, query: &str, wanted: &str) {
    let begun = Instant::now();
    loop {
        // It may name a table that the reader does not see yet.
        let got = request(http, "POST", "/api/v1/sql?format=csv", "", query.as_bytes()).unwrap().body;
        if got.lines().any(|line| line == wanted) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{query}: {got}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_reading_server_follows_the_writer_and_refuses_writes() {
    let (data, users) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let writer = Server::start(data.path(), &[]);
    let into = writer.address("http");
    sql(into, "CREATE TABLE t (id BIGINT, ts TIMESTAMP, v DOUBLE, PRIMARY KEY (id, ts))", "json");
    sql(into, "INSERT INTO t VALUES (1, '2026-01-01', 0.5)", "json");
    let users = users.path().to_str().unwrap();
    let options = ["--read-only", "--refresh-interval-ms", "20", "--users", users];
    let reader = Server::start(data.path(), &options);
    let http = reader.address("http");
    wait_for(http, "SELECT 'rows: ' || count(*) FROM t", "rows: 1");
    sql(into, "INSERT INTO t VALUES (1, '2026-01-02', 0.5), (2, '2026-01-02', 1.5)", "json");
    wait_for(http, "SELECT 'rows: ' || count(*) FROM t", "rows: 3");
    sql(into, "CREATE TABLE later (id BIGINT PRIMARY KEY)", "json");
    wait_for(http, "SELECT 'rows: ' || count(*) FROM later", "rows: 0");
    sql(into, "ALTER TABLE t ADD COLUMN w BIGINT", "json");
    wait_for(http, "SELECT 'rows: ' || count(w) FROM t", "rows: 0");
    wait_for(http, "SELECT now() - as_of < INTERVAL '1 minute' FROM system.tables LIMIT 1", "true");
    wait_for(http, "SHOW transaction_read_only", "on");
    let metrics = request(http, "GET", "/metrics", "", b"").unwrap();
    for line in ["fleetdb_read_age_seconds", "fleetdb_read_failing 0"] {
        assert!(metrics.body.contains(line), "{}", metrics.body);
    }
    // Writes, from each protocol and in each form.
    let lines = request(http, "POST", "/write", "", b"t,id=1 v=1 1").unwrap();
    assert!(lines.status == 400 && lines.body.contains("read"), "{} {}", lines.status, lines.body);
    for write in [
        "INSERT INTO t VALUES (3, '2026-01-01', 1)",
        "INSERT INTO t SELECT * FROM t",
        "UPDATE t SET v = 1 WHERE id = 1 AND ts = '2026-01-01'",
        "UPDATE t SET v = 1",
        "DELETE FROM t WHERE id = 1",
        "BEGIN READ WRITE; INSERT INTO t VALUES (3, '2026-01-01', 1); COMMIT",
        "CREATE TABLE other (id BIGINT PRIMARY KEY)",
        "DROP TABLE t",
        "ALTER TABLE t ADD COLUMN x BIGINT",
        "COPY t FROM STDIN",
        "VACUUM FULL",
    ] {
        assert_eq!(ask(&reader, "any", "x", write), Err("25006".to_owned()), "{write}");
    }
    wait_for(http, "SELECT 'rows: ' || count(*) FROM t", "rows: 3");
    // The users are those of their own directory, also those that are added later.
    add_user(std::path::Path::new(users), "ray", "readonly", "read");
    let begun = Instant::now();
    while ask(&reader, "any", "x", "SELECT 1").is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the user is not seen");
    }
    assert_eq!(ask(&reader, "ray", "readonly", "SELECT count(*) FROM t"), Ok(()));
    assert!(writer.terminate());
    assert_eq!(ask(&reader, "ray", "readonly", "SELECT count(*) FROM t"), Ok(()));
    assert!(reader.terminate());
}

#[test]
fn a_reading_server_needs_a_database() {
    let data = tempfile::tempdir().unwrap();
    let serve = ["serve", "--read-only", "--http", "127.0.0.1:0", "--postgres", "off", "--data"];
    let output = fleetdb().args(serve).arg(data.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("is not a FleetDB database"), "{said}");
}
