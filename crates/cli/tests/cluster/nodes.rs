//! Nodes of a cluster and their store.

use super::host::Host;
use super::store::{BUCKET, KEY, SECRET, Store};
use super::{LIMIT, fleetdb_on, free_port};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_postgres::{NoTls, Row};

const TAKEOVER_AFTER_MS: &str = "800";

/// A library that lets a program see another time. Debian's package is libfaketime.
pub const CLOCK: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// A node of the cluster, whose process may be dead.
pub struct Node {
    pub data: String,
    pub http: u16,
    pub postgres: u16,
    pub host: Host,
    /// How it reaches the store.
    endpoint: String,
    /// A file with the error of its clock, if a test sets the clock.
    clock: Option<PathBuf>,
    log: PathBuf,
    process: Option<Child>,
}

impl Node {
    pub fn new(folder: &Path, name: &str, host: &Host, endpoint: String) -> Self {
        let data = folder.join(name).to_str().unwrap().to_owned();
        let log = folder.join(format!("{name}.log"));
        let (http, postgres) = (free_port(), free_port());
        Self { data, http, postgres, host: host.clone(), endpoint, clock: None, log, process: None }
    }

    pub fn start(&mut self, url: &str) {
        let [http, postgres] = [self.http, self.postgres].map(|port| format!("{}:{port}", self.host.address));
        let mut command = fleetdb_on(&self.host, &["serve", "--cluster", url, "--data", &self.data, "--http", &http]);
        command.args(["--postgres", &postgres, "--durability", "shared", "--stop-timeout-ms", "1000"]);
        command.args(["--takeover-after-ms", TAKEOVER_AFTER_MS, "--ship-interval-ms", "300"]);
        command.args(["--advertise", &self.host.address, "--no-authentication"]);
        command.env("AWS_ENDPOINT_URL", &self.endpoint);
        command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        if let Some(clock) = &self.clock {
            // Time since the start of the machine goes on as it does: no clock on which leases depend jumps.
            command.env("LD_PRELOAD", CLOCK).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            command.env("FAKETIME_TIMESTAMP_FILE", clock).env("FAKETIME_NO_CACHE", "1");
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        self.process = Some(command.stderr(log).spawn().unwrap());
    }

    /// Sets the error of the node's clock.
    pub fn set_clock(&mut self, seconds: i64) {
        let path = self.log.with_extension("clock");
        // Whoever reads sees the old or the new text.
        let new = path.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}s\n")).unwrap();
        std::fs::rename(new, &path).unwrap();
        self.clock = Some(path);
    }

    pub fn signal(&self, signal: &str) {
        let Some(process) = &self.process else { return };
        Command::new("kill").args([signal, &process.id().to_string()]).status().unwrap();
    }

    /// Ends the process with a signal, and waits for its end.
    pub fn end(&mut self, signal: &str) {
        self.signal(signal);
        if let Some(mut process) = self.process.take() {
            let begun = Instant::now();
            while process.try_wait().unwrap().is_none() {
                assert!(begun.elapsed() < LIMIT, "the node does not end: {}", self.said());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How a client connects to the node.
    pub fn config(&self) -> String {
        config(&self.host.address, &self.postgres.to_string())
    }

    /// Runs a statement as soon as the node takes it.
    pub fn ask(&self, statement: &str) -> Vec<Row> {
        ask(&self.config(), statement, self)
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
pub struct Cluster {
    // Processes end before their directories do.
    pub nodes: [Node; 2],
    /// `None` while it is down.
    pub store: Option<Store>,
    pub url: String,
    /// Where the store is.
    host: Host,
    port: u16,
    pub folder: TempDir,
    stored: TempDir,
}

impl Cluster {
    /// All on this machine; `None` if the store is not installed.
    pub fn new() -> Option<Self> {
        let (here, port) = (Host::here(), free_port());
        Self::on((&here, port), [&here, &here], [(); 2].map(|()| format!("http://127.0.0.1:{port}")))
    }

    /// On these hosts, with the store on a port of its host. Each node has an endpoint by which it reaches the
    /// store.
    pub fn on((store, port): (&Host, u16), nodes: [&Host; 2], endpoints: [String; 2]) -> Option<Self> {
        let (stored, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let started = Store::start_on(store, port, "versitygw", stored.path())?;
        let [first, second] = endpoints;
        let nodes = [Node::new(folder.path(), "a", nodes[0], first), Node::new(folder.path(), "b", nodes[1], second)];
        let url = format!("s3://{BUCKET}/cluster");
        Some(Self { nodes, store: Some(started), url, host: store.clone(), port, folder, stored })
    }

    /// Starts the nodes, and creates the table of the [`super::history::History`].
    pub fn start(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.start(&self.url));
        // As drivers are told of several nodes.
        let hosts = self.nodes.each_ref().map(|node| node.host.address.clone()).join(",");
        let ports = self.nodes.each_ref().map(|node| node.postgres.to_string()).join(",");
        ask(&config(&hosts, &ports), "CREATE TABLE t (id BIGINT PRIMARY KEY)", &self.nodes[0]);
    }

    /// Starts a store that is down, with what it has stored.
    pub fn start_store(&mut self) {
        self.store = Store::start_on(&self.host, self.port, "versitygw", self.stored.path());
    }

    /// Which node is the owner, as the bucket has it.
    pub fn owner(&self) -> usize {
        let path = self.stored.path().join(BUCKET).join("cluster/p/00/owner");
        let owner: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let address = owner["addresses"]["postgres"].as_str().unwrap().to_owned();
        let of = |node: &Node| format!("{}:{}", node.host.address, node.postgres);
        self.nodes.iter().position(|node| of(node) == address).unwrap()
    }

    /// What all nodes have said.
    pub fn said(&self) -> String {
        self.nodes.each_ref().map(Node::said).join("\n---\n")
    }
}

/// How a client connects to the one of the nodes that takes writes.
fn config(hosts: &str, ports: &str) -> String {
    format!("host={hosts} port={ports} user=fleet dbname=fleetdb target_session_attrs=read-write connect_timeout=1")
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
