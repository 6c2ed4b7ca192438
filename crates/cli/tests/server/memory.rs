//! `memory_limit` holds: what would take more is refused, whoever else asks at the same time.

use crate::deep::simple;
use crate::http::{request, sql};
use crate::process::Server;
use std::fmt::Display;

/// What comes on top of the limit: the program itself (some 70 MiB), a text that is on its way, what a plan copies of constants,
/// and what the allocator has not given back.
const ON_TOP_MIB: u64 = 200;
/// The same for eight clients, whose texts of up to 9 MB are on their way at the same time and are not counted.
const ON_TOP_OF_EIGHT_MIB: u64 = 400;

/// What a server takes, and has taken at most, of memory.
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
        "SELECT length(string_agg(repeat('x', 5000) || name, ',')) FROM t".to_owned(),
    ]
}

/// A text put together with itself, and so on.
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
        // Where it is too much only for now, the client may come again.
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
    assert_eq!(ask(&hogs[0]), 503);
    let refused = simple(&server, &hogs[3]);
    assert!(refused.contains("C53200"), "{refused}");
    // What fits is answered.
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
