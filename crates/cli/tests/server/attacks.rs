//! All attacks at once: clients attack a server in every way that once crashed or blocked one,
//! while a well-behaved client is served.

use crate::access::{add_token, add_user, ask};
use crate::deep::hostile;
use crate::http::request;
use crate::memory::{FILL, hogs, most_resident_mib};
use crate::process::{Server, count, fleetdb};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::NoTls;

/// Rows that the well-behaved client writes, one after another.
const ROWS: usize = 60;
const LIMIT_MIB: u64 = 128;
/// Memory allowed beyond the limit; see the tests of the limit.
const ON_TOP_MIB: u64 = 300;
/// How long a request may be delayed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends the attacks, even if the well-behaved client has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Repeats a request until the answer is not 503.
fn insist(http: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let begun = Instant::now();
    loop {
        let answer = request(http, "POST", path, headers, body.as_bytes()).unwrap();
        if answer.status != 503 {
            return (answer.status, answer.body);
        }
        assert!(begun.elapsed() < PATIENCE, "{body}: {}", answer.body);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A user that is removed while it is connected.
fn removed(data: &Path, server: &Server, name: &str) {
    add_user(data, name, "secret", "admin");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config = format!("host=127.0.0.1 port={} user={name} password=secret", server.port("postgres"));
    let (client, connection) = runtime.block_on(tokio_postgres::connect(&config, NoTls)).unwrap();
    runtime.spawn(connection);
    runtime.block_on(client.simple_query("SELECT 1")).unwrap();
    assert!(fleetdb().args(["user", "remove", name, "--data"]).arg(data).status().unwrap().success());
    assert!(runtime.block_on(client.simple_query("SELECT 1")).is_err(), "{name} is not there any more");
}

#[test]
fn a_client_that_behaves_is_served_rightly_during_every_attack() {
    let data = tempfile::tempdir().unwrap();
    for (user, role) in [("ann", "admin"), ("ray", "read")] {
        add_user(data.path(), user, "secret", role);
    }
    let token = add_token(data.path(), "agent", "write");
    let outside = data.path().join("stolen.csv");
    let mut server = Server::start(data.path(), &["--memory-limit", "128MiB"]);
    let http = server.address("http").to_owned();
    let (ann, agent) = ("Authorization: Token ann:secret\r\n", format!("Authorization: Token {token}\r\n"));
    let ray = "Authorization: Token ray:secret\r\n";
    let admin = |sql: &str| assert_eq!(insist(&http, "/api/v1/sql", ann, sql).0, 200, "{sql}");
    admin("CREATE TABLE t (id BIGINT PRIMARY KEY, v DOUBLE, name TEXT)");
    admin(FILL);
    let (deep, hogs, is_over) = (hostile(), hogs(), AtomicBool::new(false));
    let goes_on = || !is_over.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        let (http, server, agent, goes_on) = (http.as_str(), &server, agent.as_str(), &goes_on);
        for number in 0..4 {
            let (deep, hogs) = (&deep, &hogs);
            scope.spawn(move || {
                for text in deep.iter().cycle().skip(number).take_while(|_| goes_on()) {
                    let answer = request(http, "POST", "/api/v1/sql", ray, text.as_bytes()).unwrap();
                    assert!(matches!(answer.status, 200 | 400 | 503), "{text}: {}", answer.body);
                }
            });
            scope.spawn(move || {
                for text in hogs.iter().cycle().skip(number).take_while(|_| goes_on()) {
                    let answer = request(http, "POST", "/api/v1/sql", ray, text.as_bytes()).unwrap();
                    // A user with the role `read` writes nothing.
                    let is_refused = matches!(answer.status, 403 | 503);
                    assert!(answer.status == 200 || is_refused, "{}: {}", &text[..60], answer.body);
                }
            });
            scope.spawn(move || {
                let mut guess = 0;
                while goes_on() {
                    guess += 1;
                    let path = format!("/metrics?u=ann&p=guess{number}x{guess}");
                    assert!(matches!(request(http, "GET", &path, "", b"").unwrap().status, 401 | 503));
                    let forged = format!("Authorization: Token agent.{number}x{guess}\r\n");
                    assert!(matches!(request(http, "GET", "/metrics", &forged, b"").unwrap().status, 401 | 503));
                }
            });
        }
        scope.spawn(move || {
            while goes_on() {
                let foreign = format!("{ann}Origin: https://example.com\r\n");
                for path in ["/write", "/api/v1/sql"] {
                    assert_eq!(request(http, "POST", path, &foreign, b"stolen v=1 1").unwrap().status, 403);
                }
            }
        });
        scope.spawn({
            let outside = &outside;
            move || {
                let copy = format!("COPY t TO '{}'", outside.display());
                while goes_on() {
                    let (status, said) = insist(http, "/api/v1/sql", ann, &copy);
                    assert!(status >= 400 && !outside.exists(), "{status}: {said}");
                    assert_eq!(ask(server, "ray", "secret", "DELETE FROM kept"), Err("42501".to_owned()));
                }
            }
        });
        scope.spawn({
            let data = data.path();
            move || {
                for number in (0..).take_while(|_| goes_on()) {
                    removed(data, server, &format!("guest{number}"));
                }
            }
        });
        for row in 1..=ROWS {
            let (status, said) = insist(http, "/write", agent, &format!("kept,id=a v={row} {row}"));
            assert_eq!(status, 204, "{said}");
            let (status, said) = insist(http, "/api/v1/sql?format=csv", agent, "SELECT count(*), sum(v) FROM kept");
            assert_eq!(status, 200, "{said}");
            let sum = (row * (row + 1)) as f64 / 2.0;
            assert!(said.contains(&format!("\n{row},{sum:?}\n")), "{row}: {said}");
        }
    });
    assert!(server.process.try_wait().unwrap().is_none());
    let most = most_resident_mib(&server);
    println!("{most} MiB at most");
    assert!(most < LIMIT_MIB + ON_TOP_MIB, "{most} MiB");
    assert!(server.terminate());
    assert_eq!(count(data.path(), "SELECT count(*) AS n FROM kept"), ROWS as i64);
    assert!(!outside.exists());
}
