//! Statements crafted to crash a server or to keep it busy: each protocol answers or refuses them,
//! and meanwhile answers others.

use crate::http::{request, sql};
use crate::process::Server;
use crate::wrong::{answers, message, startup};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A generous limit, since all tests run on the machine at the same time.
const SOON: Duration = Duration::from_secs(5);
/// Limit for the median answer time while hostile statements run.
const MAX_OF_HALF: Duration = Duration::from_millis(100);

pub fn simple(server: &Server, text: &str) -> String {
    answers(server, &[startup(), message(b'Q', &[text.as_bytes(), b"\0"].concat()), message(b'X', b"")].concat())
}

/// Whether the server is ready for another statement, as it was after the login.
pub fn is_ready_again(said: &str) -> bool {
    said.matches("Z\0\0\0\u{5}").count() >= 2
}

/// Prepares, describes, runs and closes a statement.
fn extended(server: &Server, text: &str) -> String {
    let parse = message(b'P', &[b"\0", text.as_bytes(), b"\0\0\0"].concat());
    let run = [message(b'D', b"S\0"), message(b'B', b"\0\0\0\0\0\0\0\0"), message(b'E', b"\0\0\0\0\0")].concat();
    answers(server, &[startup(), parse, run, message(b'S', b""), message(b'X', b"")].concat())
}

/// Statements that each contain a chain of `count` terms.
fn chains(count: usize) -> Vec<String> {
    let chain = |begin: &str, again: &str| begin.to_owned() + &again.repeat(count);
    vec![
        chain("SELECT 1", "+1"),
        chain("SELECT 'a'", "||'a'"),
        chain("SELECT 1", "::int"),
        chain("SELECT 1", " IS NULL"),
        chain("SELECT now()", " AT TIME ZONE 'UTC'"),
        chain("SELECT 1", " UNION ALL SELECT 1"),
        chain("SELECT 1 EXCEPT SELECT 2", " EXCEPT SELECT 2"),
        chain("SELECT id FROM t WHERE id = 1", " OR id = 2"),
        chain("SELECT 1 FROM t", ", t"),
        chain("SELECT ", "(") + "1",
        chain("SELECT id FROM t WHERE id = 1", " OR (id = 2 AND v = 1)") + " oops(",
    ]
}

#[test]
fn a_chain_of_any_length_is_answered_or_refused_by_each_protocol() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path(), &[]);
    let http = server.address("http").to_owned();
    sql(&http, "CREATE TABLE t (id BIGINT, v DOUBLE, PRIMARY KEY (id))", "json");
    for text in chains(1_000).into_iter().chain(chains(10_000)).chain(chains(100_000)) {
        let begins = &text[..40];
        let status = request(&http, "POST", "/api/v1/sql", "", text.as_bytes()).unwrap().status;
        assert!([200, 400].contains(&status), "{begins}: {status}");
        let wrapped = [
            format!("EXPLAIN {text}"),
            format!("COPY ({text}) TO STDOUT"),
            format!("BEGIN; DECLARE c CURSOR FOR {text}; FETCH 1 FROM c"),
            format!("PREPARE p AS {text}; EXECUTE p"),
        ];
        for said in wrapped.iter().map(|text| simple(&server, text)).chain([extended(&server, &text)]) {
            // Whatever the answer, the server is ready for the next statement; a message that is
            // too long is only refused.
            assert!(is_ready_again(&said), "{begins}: {}", said.escape_debug());
        }
    }
    let refused = simple(&server, &chains(100_000)[0]);
    assert!(refused.contains("C54001") && refused.contains("the statement is nested too deeply"), "{refused}");
    assert!(server.process.try_wait().unwrap().is_none());
    assert!(server.terminate());
}

#[test]
fn ten_thousand_terms_of_a_program_that_writes_sql_are_answered() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let http = server.address("http");
    sql(http, "CREATE TABLE t (id BIGINT, v DOUBLE, PRIMARY KEY (id))", "json");
    sql(http, "INSERT INTO t VALUES (1, 1), (7000, 2), (20000, 3)", "json");
    let terms: Vec<String> = (0..10_000).map(|id| format!("(id = {id} AND v > 0)")).collect();
    let text = format!("SELECT count(*) AS n FROM t WHERE {}", terms.join(" OR "));
    assert_eq!(sql(http, &text, "json"), "[{\"n\":2}]\n");
    let parameters: Vec<String> = (0..4_000).map(|place| format!("id = ${}", place + 1)).collect();
    let parse = format!("\0SELECT count(*) FROM t WHERE {}\0\0\0", parameters.join(" OR "));
    let value = |id: u32| {
        let text = id.to_string();
        [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
    };
    let values: Vec<u8> = (0..4_000).flat_map(value).collect();
    let bind = [b"\0\0\0\0", &4_000u16.to_be_bytes()[..], &values, b"\0\0"].concat();
    let said = answers(
        &server,
        &[
            startup(),
            message(b'P', parse.as_bytes()),
            message(b'B', &bind),
            message(b'E', b"\0\0\0\0\0"),
            message(b'S', b""),
            message(b'X', b""),
        ]
        .concat(),
    );
    assert!(said.contains("SELECT 1") && !said.contains("ERROR"), "{said}");
    assert!(server.terminate());
}

/// Statements of less than a kilobyte whose planning time once doubled with each level, and one
/// whose planning takes seconds.
pub fn hostile() -> Vec<String> {
    let nested = |begin: &str, end: &str, levels: usize| {
        format!("SELECT {}now(){} AS x", begin.repeat(levels), end.repeat(levels))
    };
    vec![
        format!("SELECT now(){}", " AT TIME ZONE 'UTC'".repeat(40)),
        nested("coalesce(", ", now())", 40),
        nested("date_trunc('day', ", ")", 40),
        nested("nullif(", ", now())", 40),
        format!("SELECT {}1.5{}", "round(".repeat(40), ")".repeat(40)),
        format!("SELECT {}1{}", "1 IN (SELECT ".repeat(40), ")".repeat(40)),
        format!("SELECT {}1{}", "coalesce(1 + ".repeat(40), ", 1)".repeat(40)),
        format!("SELECT current_schema(), {}1{}", "abs(".repeat(40), ")".repeat(40)),
        format!("SELECT {}true{}", "concat(true, ".repeat(40), ")".repeat(40)),
        format!("SELECT 1 WHERE 1 > 0{}", "+1".repeat(390)),
    ]
}

#[test]
fn others_are_answered_beside_hostile_statements() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let http = server.address("http");
    for text in hostile() {
        let begun = Instant::now();
        let said = simple(&server, &text);
        assert!(is_ready_again(&said) && begun.elapsed() < SOON, "{text}: {:?}, {said}", begun.elapsed());
    }
    sql(http, "CREATE TABLE n (id BIGINT PRIMARY KEY, v DOUBLE)", "json");
    let hostile = [hostile(), vec![format!("SELECT v FROM n WHERE v > 0{}", "+v".repeat(390))]].concat();
    let is_over = AtomicBool::new(false);
    let mut took: [(&str, Vec<Duration>); 5] =
        ["health", "sql", "login", "write", "cancel"].map(|what| (what, Vec::new()));
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (server, hostile, is_over) = (&server, &hostile, &is_over);
            scope.spawn(move || {
                for text in hostile.iter().cycle().skip(number).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    match number % 2 {
                        0 => drop(simple(server, text)),
                        _ => drop(request(server.address("http"), "POST", "/api/v1/sql", "", text.as_bytes())),
                    }
                }
            });
        }
        let probed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..50 {
                for (what, took) in &mut took {
                    let begun = Instant::now();
                    match *what {
                        "health" => assert_eq!(request(http, "GET", "/health", "", b"").unwrap().status, 200),
                        "sql" => assert_eq!(sql(http, "SELECT 1 AS n", "json"), "[{\"n\":1}]\n"),
                        "login" => assert!(simple(&server, "SELECT 1").contains("SELECT 1")),
                        "write" => {
                            assert_eq!(crate::http::write(http, "cpu,host=a usage=1.5 1000").unwrap().status, 204);
                        }
                        // A cancel request for a client that does not exist; it is looked up like
                        // any other.
                        _ => assert_eq!(answers(&server, &cancel_request()), ""),
                    }
                    took.push(begun.elapsed());
                }
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        probed.unwrap();
    });
    for (what, mut took) in took {
        took.sort_unstable();
        let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
        println!("{what}: the median of {} is {median:?}, the longest {most:?}", took.len());
        assert!(median < MAX_OF_HALF && most < SOON, "{what}: {median:?}, {most:?}");
    }
    assert!(server.terminate());
}

/// A cancel request for a client's running statement.
fn cancel_request() -> Vec<u8> {
    const CANCEL: u32 = 80_877_102;
    [16_u32, CANCEL, 1, 2].iter().flat_map(|number| number.to_be_bytes()).collect()
}
