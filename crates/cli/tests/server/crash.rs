//! Servers that are killed or stopped under load: no acknowledged row is lost.

use crate::http::write;
use crate::process::{Server, count};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use tokio_postgres::NoTls;

/// Writers over both protocols that run until the server is gone. Counts the rows they tried to
/// write and those acknowledged.
pub struct Load {
    threads: Vec<JoinHandle<()>>,
    lines: Arc<Counts>,
    rows: Arc<Counts>,
    ends: Arc<AtomicBool>,
}

#[derive(Default)]
struct Counts {
    acknowledged: AtomicI64,
    tried: AtomicI64,
}

impl Load {
    /// `round` distinguishes the rows of one run from those of another.
    pub fn start(server: &Server, round: usize) -> Self {
        let (lines, rows, ends) = (Arc::<Counts>::default(), Arc::<Counts>::default(), Arc::<AtomicBool>::default());
        let mut threads = Vec::new();
        for writer in 0..2 {
            let (http, counts, ends) = (server.address("http").to_owned(), Arc::clone(&lines), Arc::clone(&ends));
            threads.push(std::thread::spawn(move || {
                for batch in 0.. {
                    let body: String =
                        (0..10).map(|row| format!("lines,w={writer},r={round} v=1 {}\n", batch * 10 + row)).collect();
                    counts.tried.fetch_add(10, Ordering::SeqCst);
                    match write(&http, &body) {
                        Some(answer) if answer.status == 204 => counts.acknowledged.fetch_add(10, Ordering::SeqCst),
                        _ => break,
                    };
                    if ends.load(Ordering::SeqCst) {
                        break;
                    }
                }
            }));
        }
        for writer in 0..2 {
            let config = format!("host=127.0.0.1 port={} user=me", server.port("postgres"));
            let (counts, ends) = (Arc::clone(&rows), Arc::clone(&ends));
            threads.push(std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let Ok((mut client, connection)) = tokio_postgres::connect(&config, NoTls).await else { return };
                    tokio::spawn(connection);
                    let insert = "INSERT INTO rows VALUES ($1, $2, 1)";
                    let Ok(insert) = client.prepare(insert).await else { return };
                    for number in 0i64.. {
                        counts.tried.fetch_add(2, Ordering::SeqCst);
                        // A transaction writes two rows, which must appear together or not at all.
                        let Ok(transaction) = client.transaction().await else { return };
                        let id = (round * 10 + writer) as i64;
                        for half in 0..2 {
                            if transaction.execute(&insert, &[&id, &(number * 2 + half)]).await.is_err() {
                                return;
                            }
                        }
                        if transaction.commit().await.is_err() {
                            return;
                        }
                        counts.acknowledged.fetch_add(2, Ordering::SeqCst);
                        if ends.load(Ordering::SeqCst) {
                            return;
                        }
                    }
                });
            }));
        }
        Self { threads, lines, rows, ends }
    }

    /// Waits until each kind of writer has received acknowledgements.
    pub fn wait(&self) {
        while [&self.lines, &self.rows].iter().any(|counts| counts.acknowledged.load(Ordering::SeqCst) < 40) {
            assert!(self.threads.iter().any(|thread| !thread.is_finished()), "the writers gave up");
            std::thread::yield_now();
        }
    }

    /// Stops the writers; compares the stored rows with their counts.
    pub fn compare(self, data: &Path, round: usize) {
        self.ends.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        let lines = count(data, &format!("SELECT count(*) AS n FROM lines WHERE r = '{round}'"));
        let rows = count(
            data,
            &format!("SELECT count(*) AS n FROM rows WHERE id >= {} AND id < {}", round * 10, round * 10 + 10),
        );
        for (there, counts) in [(lines, &self.lines), (rows, &self.rows)] {
            let range = counts.acknowledged.load(Ordering::SeqCst)..=counts.tried.load(Ordering::SeqCst);
            assert!(range.contains(&there), "round {round}: {there} rows are there, acknowledged and tried: {range:?}");
        }
        assert_eq!(rows % 2, 0, "half of a transaction is there");
        let torn = count(
            data,
            "SELECT count(*) AS n FROM (SELECT w, r, time / 10 AS b FROM (SELECT w, r, CAST(time AS BIGINT) AS time FROM lines) AS l GROUP BY w, r, b HAVING count(*) <> 10) AS t",
        );
        assert_eq!(torn, 0, "half of a request is there");
    }
}

pub fn make_table(data: &Path) {
    let made = crate::process::fleetdb()
        .args(["sql", "--create", "--data"])
        .arg(data)
        .args(["-c", "CREATE TABLE rows (id BIGINT, n BIGINT, v DOUBLE, PRIMARY KEY (id, n))"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// FLEETDB_KILLS sets the number of kills.
#[test]
fn a_killed_server_has_lost_nothing_acknowledged() {
    let data = tempfile::tempdir().unwrap();
    make_table(data.path());
    let kills = std::env::var("FLEETDB_KILLS").map_or(3, |kills| kills.parse().unwrap());
    for round in 0..kills {
        let server = Server::start(data.path(), &[]);
        let load = Load::start(&server, round);
        load.wait();
        server.kill();
        load.compare(data.path(), round);
    }
}

#[test]
fn a_server_that_is_told_to_end_under_load_ends_well_and_loses_nothing() {
    let data = tempfile::tempdir().unwrap();
    make_table(data.path());
    for round in 0..2 {
        let server = Server::start(data.path(), &[]);
        let load = Load::start(&server, round);
        load.wait();
        assert!(server.terminate(), "the server did not end well");
        load.compare(data.path(), round);
    }
}
