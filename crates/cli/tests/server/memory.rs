//! `memory_limit` holds: a request that would exceed it is refused, however many clients send
//! requests at the same time.

use crate::deep::simple;
use crate::http::{request, sql};
use crate::process::Server;
use crate::wrong::{message, startup};
use std::fmt::Display;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Memory above the limit: the program itself (about 70 MiB), a text in flight, the copies of
/// constants in plans, and memory that the allocator has not returned.
const ON_TOP_MIB: u64 = 200;
/// The same for eight clients.
const ON_TOP_OF_EIGHT_MIB: u64 = 400;

/// The most memory that a server has used so far.
pub fn most_resident_mib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

fn list<T: Display>(count: usize, item: impl Fn(usize) -> T) -> String {
    (0..count).map(|number| item(number).to_string()).collect::<Vec<_>>().join(",")
}

/// Statements that once took many times the limit, over a table `t` with `id`, `v` and `name`.
pub fn hogs() -> Vec<String> {
    let text = "repeat('x', 5000000)";
    vec![
        format!("SELECT count(*) FROM t WHERE id IN ({})", list(1_000_000, |number| number)),
        format!("SELECT count(*) FROM (VALUES {}) AS v(a)", list(500_000, |number| format!("({number})"))),
        format!("INSERT INTO t (id) VALUES {}", list(500_000, |number| format!("({})", number + 1_000_000))),
        format!("SELECT length({})", vec![text; 40].join(" || ")),
        format!("SELECT length(concat({}))", vec![text; 40].join(", ")),
        format!("SELECT {}", vec![text; 40].join(", ")),
        doubled(12),
        "SELECT max(length(w || w || w || w)) FROM (SELECT repeat('x', 20000) || name AS w FROM t) AS q".to_owned(),
        "SELECT count(*) FROM t AS a, t AS b WHERE a.id < 2000".to_owned(),
        "SELECT max(a.name || b.name) FROM t AS a, t AS b WHERE a.id < 100".to_owned(),
        "SELECT count(DISTINCT a.name || b.name) FROM t AS a, t AS b WHERE a.id < 100".to_owned(),
        // Wide rows of a cross join.
        "SELECT max(length(a.w) + b.v) FROM (SELECT repeat('x', 50000) || name AS w FROM t WHERE id < 9) AS a, t AS b"
            .to_owned(),
        "SELECT length(string_agg(repeat('x', 5000) || name, ',')) FROM t".to_owned(),
    ]
}

/// A text that is concatenated with itself several times.
fn doubled(times: usize) -> String {
    let steps: Vec<String> =
        (1..=times).map(|step| format!("q{step} AS (SELECT s || s AS s FROM q{})", step - 1)).collect();
    format!("WITH q0 AS (SELECT repeat('x', 1000000) AS s), {} SELECT length(s) FROM q{times}", steps.join(", "))
}

pub const FILL: &str = "INSERT INTO t SELECT v, v * 0.5, 'name' || v FROM generate_series(1, 20000) AS g(v)";

#[test]
fn statements_stay_within_the_memory_limit_alone_and_together() {
    const LIMIT_MIB: u64 = 64;
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--memory-limit", "64MiB"]);
    let http = server.address("http");
    sql(http, "CREATE TABLE t (id BIGINT PRIMARY KEY, v DOUBLE, name TEXT)", "json");
    sql(http, FILL, "json");
    let ask = |text: &str| {
        let answer = request(http, "POST", "/api/v1/sql", "", text.as_bytes()).unwrap();
        // 503 means that it is too much now, and that the client may retry.
        assert!(matches!(answer.status, 200 | 503), "{}: {}", &text[..60.min(text.len())], answer.body);
        answer.status
    };
    let hogs = hogs();
    for hog in &hogs {
        let status = ask(hog);
        let most = most_resident_mib(&server);
        println!("{status} {most:>5} MiB  {}", &hog[..70.min(hog.len())]);
        assert!(most < LIMIT_MIB + ON_TOP_MIB, "{most} MiB: {}", &hog[..100.min(hog.len())]);
    }
    // A list of numbers is an array; rows are expressions.
    assert_eq!(ask(&hogs[0]), 200);
    assert_eq!(ask(&hogs[1]), 503);
    let refused = simple(&server, &hogs[3]);
    assert!(refused.contains("C53200"), "{refused}");
    // Statements that fit are answered.
    for fits in [
        format!("SELECT count(*) FROM t WHERE id IN ({})", list(20_000, |number| number)),
        format!("INSERT INTO t (id) VALUES {}", list(5_000, |number| format!("({})", number + 2_000_000))),
        format!("SELECT length({text} || {text})", text = "repeat('x', 1000000)"),
    ] {
        assert_eq!(ask(&fits), 200);
    }
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (hogs, ask) = (&hogs, &ask);
            scope.spawn(move || {
                for hog in hogs.iter().cycle().skip(client).take(hogs.len()) {
                    ask(hog);
                }
            });
        }
    });
    let most = most_resident_mib(&server);
    println!("{most} MiB with eight clients");
    assert!(most < LIMIT_MIB + ON_TOP_OF_EIGHT_MIB, "{most} MiB with eight clients");
    assert_eq!(sql(http, "SELECT count(*) AS n FROM t WHERE id <= 20000", "json"), "[{\"n\":20000}]\n");
    assert!(server.terminate());
}

/// Sends as many bytes as the server accepts; returns the answer.
fn said(address: &str, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut sender = stream.try_clone().unwrap();
    let mut answer = Vec::new();
    std::thread::scope(|scope| {
        // The server may close the connection before it has read everything.
        scope.spawn(move || drop(sender.write_all(sent)));
        stream.read_to_end(&mut answer).ok();
    });
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn bodies_and_messages_are_counted_while_they_come() {
    const LIMIT_MIB: u64 = 64;
    const LONG_BYTES: usize = 50 << 20;
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--memory-limit", "64MiB"]);
    let (http, postgres) = (server.address("http"), server.address("postgres"));
    sql(http, "CREATE TABLE t (id BIGINT PRIMARY KEY, v DOUBLE)", "json");
    let long = vec![b' '; LONG_BYTES];
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&long).unwrap();
    let packed = packed.finish().unwrap();
    let post = |path: &str, headers: &str, body: &[u8]| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}");
        [format!("{head}Content-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
    };
    let query = [startup(), message(b'Q', &[&long[..], b"SELECT 1\0"].concat())].concat();
    let refused = || {
        for request in [
            post("/api/v1/sql", "", &long),
            post("/write", "", &long),
            post("/write", "Content-Encoding: gzip\r\n", &packed),
        ] {
            let answer = said(http, &request);
            assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("memory_limit"), "{answer}");
        }
        let answer = said(postgres, &query);
        assert!(answer.contains("C53200") && answer.contains("memory_limit"), "{answer}");
    };
    refused();
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(refused))));
    let most = most_resident_mib(&server);
    println!("{most} MiB");
    assert!(most < LIMIT_MIB + ON_TOP_MIB, "{most} MiB");
    // All memory has been released, and requests that fit are accepted.
    for _ in 0..20 {
        let fits = message(b'Q', &[&long[..4 << 20], b"SELECT 1\0"].concat());
        assert!(said(postgres, &[startup(), fits, message(b'X', b"")].concat()).contains("SELECT 1"));
        assert!(said(http, &post("/write", "", &long[..4 << 20])).starts_with("HTTP/1.1 204"));
    }
    assert!(server.terminate());
}
