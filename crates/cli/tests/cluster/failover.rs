//! Two nodes of a cluster while clients append and read: nodes are killed, paused and stopped, and
//! the store goes away. What is checked: nothing acknowledged is lost, and no client reads less
//! than it has read or written before.
//!
//! `FLEETDB_ROUNDS` sets the number of faults, and `FLEETDB_SEED` their order.

use super::proxy::{Proxy, Way};
use super::{BUCKET, KEY, LIMIT, SECRET, Store, fleetdb, free_port, request, request_with, said, try_request};
use rand::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, Row};

const CLIENTS: i64 = 3;
/// Kinds of faults.
const KINDS: u64 = 11;
const ROUNDS: u64 = KINDS;
const TAKEOVER_AFTER_MS: &str = "800";

/// A node of the cluster, whose process may be dead.
struct Node {
    data: String,
    http: u16,
    postgres: u16,
    log: std::path::PathBuf,
    process: Option<Child>,
    /// Its way to the store.
    proxy: Proxy,
}

impl Node {
    fn new(folder: &Path, name: &str, store: u16) -> Self {
        let data = folder.join(name).to_str().unwrap().to_owned();
        let log = folder.join(format!("{name}.log"));
        Self { data, http: free_port(), postgres: free_port(), log, process: None, proxy: Proxy::start(store) }
    }

    fn start(&mut self, url: &str) {
        let (http, postgres) = (format!("127.0.0.1:{}", self.http), format!("127.0.0.1:{}", self.postgres));
        let mut command = fleetdb(&["serve", "--cluster", url, "--data", &self.data, "--http", &http]);
        command.args(["--postgres", &postgres, "--durability", "shared", "--stop-timeout-ms", "1000"]);
        command.args(["--takeover-after-ms", TAKEOVER_AFTER_MS, "--ship-interval-ms", "300"]);
        command.args(["--advertise", "127.0.0.1"]);
        let endpoint = format!("http://127.0.0.1:{}", self.proxy.port);
        command.env("AWS_ENDPOINT_URL", endpoint).env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        self.process = Some(command.stderr(log).spawn().unwrap());
    }

    fn signal(&self, signal: &str) {
        let Some(process) = &self.process else { return };
        Command::new("kill").args([signal, &process.id().to_string()]).status().unwrap();
    }

    /// Ends the process with a signal, and waits for its end.
    fn end(&mut self, signal: &str) {
        self.signal(signal);
        if let Some(mut process) = self.process.take() {
            let begun = Instant::now();
            while process.try_wait().unwrap().is_none() {
                assert!(begun.elapsed() < LIMIT, "the node does not end: {}", self.said());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

/// A store with two nodes, which do not run yet.
struct Cluster {
    // Processes end before their directories do.
    nodes: [Node; 2],
    /// `None` while it is down.
    store: Option<Store>,
    url: String,
    port: u16,
    folder: TempDir,
    stored: TempDir,
}

impl Cluster {
    /// `None` if the store is not installed.
    fn new() -> Option<Self> {
        let (stored, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let port = free_port();
        let store = Some(Store::start_at(port, "versitygw", stored.path())?);
        let nodes = ["a", "b"].map(|name| Node::new(folder.path(), name, port));
        Some(Self { stored, folder, port, store, url: format!("s3://{BUCKET}/cluster"), nodes })
    }
}

/// What all clients have done.
#[derive(Default)]
struct History {
    tried: Mutex<BTreeSet<i64>>,
    acknowledged: Mutex<BTreeSet<i64>>,
    /// How many appends of each client were acknowledged.
    progress: [AtomicU64; CLIENTS as usize],
    reads: AtomicU64,
    wrong: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

/// A client that appends and reads, on one connection after the other, until it is over.
struct Appender {
    number: i64,
    /// How to connect to each node.
    configs: [String; 2],
    history: Arc<History>,
    next: i64,
    /// What it has read, or written with success.
    known: BTreeSet<i64>,
}

impl Appender {
    async fn run(mut self) {
        for turn in 0.. {
            if self.history.is_over.load(Ordering::Relaxed) {
                return;
            }
            // A node that is paused lets clients connect, and then does not answer. libpq gives up after
            // `connect_timeout`, but this client only stops to wait for the connection itself.
            let config = &self.configs[turn % 2];
            let connecting = tokio::time::timeout(Duration::from_millis(500), tokio_postgres::connect(config, NoTls));
            let Ok(Ok((client, connection))) = connecting.await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let driver = tokio::spawn(connection);
            while !self.history.is_over.load(Ordering::Relaxed) {
                // A node that is paused does not answer: the client goes to another one.
                let step = tokio::time::timeout(Duration::from_secs(2), self.step(&client)).await;
                if !matches!(step, Ok(Ok(()))) {
                    break;
                }
            }
            driver.abort();
        }
    }

    async fn step(&mut self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let id = self.number * 1_000_000 + self.next;
        self.next += 1;
        self.history.tried.lock().unwrap().insert(id);
        client.execute("INSERT INTO t (id) VALUES ($1)", &[&id]).await?;
        self.history.acknowledged.lock().unwrap().insert(id);
        self.history.progress[self.number as usize].fetch_add(1, Ordering::Relaxed);
        self.known.insert(id);
        let rows = client.query("SELECT id FROM t", &[]).await?;
        let seen: BTreeSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        if let Some(gone) = self.known.difference(&seen).next() {
            let wrong = format!("client {} knew row {gone}, and then read without it", self.number);
            self.history.wrong.lock().unwrap().push(wrong);
        }
        self.known = seen;
        self.history.reads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The port of the owner, as the bucket has it.
fn owner(stored: &Path) -> Option<u16> {
    let text = std::fs::read_to_string(stored.join(BUCKET).join("cluster/p/00/owner")).ok()?;
    let owner: serde_json::Value = serde_json::from_str(&text).ok()?;
    owner["addresses"]["postgres"].as_str()?.rsplit_once(':')?.1.parse().ok()
}

/// Waits until each client has had a number of appends acknowledged since now.
fn wait_for_appends(history: &History, nodes: &[Node; 2], count: u64) {
    let progress = || history.progress.each_ref().map(|of_client| of_client.load(Ordering::Relaxed));
    let (before, begun) = (progress(), Instant::now());
    while progress().iter().zip(before).any(|(now, before)| *now < before + count) {
        let said = || nodes.each_ref().map(Node::said).join("\n---\n");
        assert!(begun.elapsed() < LIMIT, "nothing is acknowledged any more\n{}", said());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How a client connects to the node that takes writes.
fn config(port: &str, host: &str) -> String {
    format!("host={host} port={port} user=fleet dbname=fleetdb target_session_attrs=read-write connect_timeout=1")
}

/// Runs a statement as soon as a node takes it.
fn ask(config: &str, statement: &str, node: &Node) -> Vec<Row> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let begun = Instant::now();
    loop {
        let answer = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(config, NoTls).await?;
            let driver = tokio::spawn(connection);
            let answer = client.query(statement, &[]).await;
            driver.abort();
            answer
        });
        match answer {
            Ok(rows) => return rows,
            Err(error) => assert!(begun.elapsed() < LIMIT, "{error}: {}", node.said()),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn a_cluster_loses_nothing_and_reads_never_go_back() {
    let Some(Cluster { stored, folder, port, mut store, url, mut nodes }) = Cluster::new() else { return };
    nodes.iter_mut().for_each(|node| node.start(&url));
    let ports = nodes.each_ref().map(|node| node.postgres.to_string());
    // As drivers are told of several nodes.
    ask(&config(&ports.join(","), "127.0.0.1,127.0.0.1"), "CREATE TABLE t (id BIGINT PRIMARY KEY)", &nodes[0]);
    let history = Arc::new(History::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let configs = ports.each_ref().map(|port| config(port, "127.0.0.1"));
            let appender = Appender { number, configs, history: Arc::clone(&history), next: 0, known: BTreeSet::new() };
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(appender.run());
            })
        })
        .collect();
    let seed = number("FLEETDB_SEED", rand::random());
    println!("repeat with FLEETDB_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for round in 0..number("FLEETDB_ROUNDS", ROUNDS) {
        wait_for_appends(&history, &nodes, 3);
        let named = owner(stored.path());
        let owner = nodes.iter().position(|node| Some(node.postgres) == named).unwrap();
        // The first faults are of each kind once.
        let fault = if round < KINDS { round } else { random.random_range(0..KINDS) };
        let begun = Instant::now();
        let what = match fault {
            0 => {
                nodes[owner].end("-KILL");
                wait_for_appends(&history, &nodes, 1);
                nodes[owner].start(&url);
                "the owner is killed, and comes back after the other one has taken over"
            }
            1 => {
                nodes[owner].signal("-STOP");
                wait_for_appends(&history, &nodes, 1);
                nodes[owner].signal("-CONT");
                "the owner is paused until the other one has taken over"
            }
            2 => {
                nodes[owner].end("-KILL");
                nodes[owner].start(&url);
                "the owner is killed, and starts again at once"
            }
            3 => {
                nodes[owner].end("-TERM");
                nodes[owner].start(&url);
                "the owner is stopped, and starts again"
            }
            4 => {
                drop(store.take());
                std::thread::sleep(Duration::from_millis(random.random_range(0..2_000)));
                store = Store::start_at(port, "versitygw", stored.path());
                "the store is killed, and starts again"
            }
            5..8 => {
                let way = [Way::Cut, Way::NoAnswers, Way::Conflict][fault as usize - 5];
                nodes[owner].proxy.set(way);
                wait_for_appends(&history, &nodes, 1);
                nodes[owner].proxy.set(Way::Open);
                [
                    "the owner is cut off from the store until the other one has taken over",
                    "the owner gets no answers from the store until the other one has taken over",
                    "the store refuses what the owner writes until the other one has taken over",
                ][fault as usize - 5]
            }
            8 | 9 => {
                let way = if fault == 8 { Way::Busy } else { Way::Cut };
                nodes.iter().for_each(|node| node.proxy.set(way));
                std::thread::sleep(Duration::from_millis(random.random_range(0..2_000)));
                nodes.iter().for_each(|node| node.proxy.set(Way::Open));
                if fault == 8 { "the store is busy for all" } else { "all are cut off from the store" }
            }
            _ => {
                nodes.iter_mut().for_each(|node| node.end("-KILL"));
                // The disk of the owner is lost.
                std::fs::remove_dir_all(&nodes[owner].data).unwrap();
                nodes.iter_mut().for_each(|node| node.start(&url));
                "both are killed, and the owner loses its disk"
            }
        };
        wait_for_appends(&history, &nodes, 1);
        println!("round {round}: {what}: {} ms", begun.elapsed().as_millis());
        let wrong = history.wrong.lock().unwrap().clone();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
    history.is_over.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    drop(store);
    // A new node has only what is in the bucket.
    nodes.iter_mut().for_each(|node| node.end("-KILL"));
    let _store = Store::start_at(port, "versitygw", stored.path()).unwrap();
    let mut last = Node::new(folder.path(), "c", port);
    last.start(&url);
    let rows = ask(&config(&last.postgres.to_string(), "127.0.0.1"), "SELECT id FROM t", &last);
    let rows: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let there: BTreeSet<i64> = rows.iter().copied().collect();
    assert_eq!(rows.len(), there.len(), "rows are there twice");
    let acknowledged = history.acknowledged.lock().unwrap();
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "{} acknowledged rows are lost: {lost:?}", lost.len());
    assert!(there.is_subset(&history.tried.lock().unwrap()));
    println!("{} appends acknowledged, {} reads", acknowledged.len(), history.reads.load(Ordering::Relaxed));
}

#[test]
fn a_node_that_stands_by_sends_writers_to_the_owner() {
    let Some(mut cluster) = Cluster::new() else { return };
    let Cluster { url, nodes: [owner, standby], .. } = &mut cluster;
    owner.start(url);
    ask(&config(&owner.postgres.to_string(), "127.0.0.1"), "CREATE TABLE t (id BIGINT PRIMARY KEY)", owner);
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
    ask(&config(&first.postgres.to_string(), "127.0.0.1"), "INSERT INTO t VALUES (2)", first);
    first.end("-KILL");
    std::fs::remove_dir_all(&first.data).unwrap();
    second.start(url);
    let rows = ask(&config(&second.postgres.to_string(), "127.0.0.1"), "SELECT id FROM t ORDER BY id", second);
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [1, 2]);
}
