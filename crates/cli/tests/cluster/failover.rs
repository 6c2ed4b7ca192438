//! What nodes of a cluster say to clients, and what they refuse.

use super::nodes::Cluster;
use super::{LIMIT, fleetdb, request, request_with, said, try_request};
use std::time::{Duration, Instant};

#[test]
fn a_node_that_stands_by_sends_writers_to_the_owner() {
    let Some(mut cluster) = Cluster::new() else { return };
    let Cluster { url, nodes: [owner, standby], .. } = &mut cluster;
    owner.start(url);
    owner.ask("CREATE TABLE t (id BIGINT PRIMARY KEY)");
    standby.start(url);
    let [at_owner, at_standby] = [owner.http, standby.http].map(|port| format!("127.0.0.1:{port}"));
    let begun = Instant::now();
    while std::net::TcpStream::connect(&at_standby).is_err() {
        assert!(begun.elapsed() < LIMIT, "{}", standby.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    let lines = "cpu,host=a usage=1 1";
    let answer = request(&at_standby, "POST", "/write?precision=s", lines);
    assert!(answer.starts_with("HTTP/1.1 307 "), "{answer}");
    assert!(answer.contains(&format!("location: http://{at_owner}/write?precision=s\r\n")), "{answer}");
    let answer = request(&at_standby, "POST", "/api/v1/sql", "INSERT INTO t VALUES (1)");
    assert!(answer.contains("25006") && answer.contains(&format!("Write to http://{at_owner}.")), "{answer}");
    for (level, reached) in [("shared", "shared (T4)"), ("local", "sync (T3)"), ("os", "os (T1)")] {
        let header = format!("X-FleetDB-Durability: {level}\r\n");
        let answer = request_with(&at_owner, "POST", "/write", &header, lines);
        assert!(answer.contains(&format!("x-fleetdb-durability: {reached}\r\n")), "{answer}");
    }
    let level = |level: &str, statement| {
        request_with(&at_owner, "POST", "/api/v1/sql", &format!("X-FleetDB-Durability: {level}\r\n"), statement)
    };
    assert!(
        level("local", "SHOW durability").contains(r#"{"durability":"sync"}"#),
        "{}",
        level("local", "SHOW durability")
    );
    assert!(level("shared", "INSERT INTO t VALUES (7)").contains("INSERT 0 1"));
    assert!(level("soon", "SELECT 1").contains("unknown durability 'soon'"));
    let answer = request_with(&at_owner, "POST", "/write", "X-FleetDB-Durability: soon\r\n", lines);
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("unknown durability 'soon'"), "{answer}");
    // Once the owner has stopped, the other node takes writes.
    owner.end("-TERM");
    let begun = Instant::now();
    let write = || try_request(&at_standby, "POST", "/write", "", lines);
    while !write().is_ok_and(|answer| answer.starts_with("HTTP/1.1 204 ")) {
        assert!(begun.elapsed() < LIMIT, "{}", standby.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    // The directory of a node is not for others.
    let output = fleetdb(&["sql", "--data", &owner.data, "-c", "SELECT 1"]).output().unwrap();
    assert!(said(&output).contains("is the directory of a node of a cluster"), "{}", said(&output));
}

#[test]
fn what_does_not_fit_a_cluster_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let url = format!("file://{}", folder.path().display());
    for (options, part) in [
        (vec!["--durability", "shared"], "option durability is shared, but the server is not a node of a cluster"),
        (vec!["--cluster", &url, "--read-only"], "option read_only excludes cluster"),
        (vec!["--cluster", &url, "--ship", &url], "option cluster excludes ship, outbox and adopt"),
        (vec!["--cluster", &url, "--takeover-after-ms", "100"], "must be at least 500"),
        (vec!["--takeover-after-ms", "1000"], "option takeover_after_ms has no effect without cluster"),
        (vec!["--advertise", "a"], "option advertise has no effect without cluster"),
        (vec!["--cluster", "bucket"], "bucket"),
    ] {
        let output = fleetdb(&[&["serve", "--check-config", "--data", &data], &options[..]].concat()).output().unwrap();
        assert!(!output.status.success() && said(&output).contains(part), "{options:?}: {}", said(&output));
    }
}

#[test]
fn a_database_that_exists_becomes_a_cluster() {
    let Some(mut cluster) = Cluster::new() else { return };
    let Cluster { url, nodes: [first, second], .. } = &mut cluster;
    let fill = "CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t VALUES (1)";
    let output = fleetdb(&["sql", "--data", &first.data, "--create", "-c", fill]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    first.start(url);
    first.ask("INSERT INTO t VALUES (2)");
    first.end("-KILL");
    std::fs::remove_dir_all(&first.data).unwrap();
    second.start(url);
    let rows = second.ask("SELECT id FROM t ORDER BY id");
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [1, 2]);
}
