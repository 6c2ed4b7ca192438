//! Clients that append and read while nodes fail. What is checked: nothing acknowledged is lost, a read
//! sees all that was acknowledged before it began, and no client reads less than it has read before.

use super::LIMIT;
use super::nodes::{Cluster, Node};
use rand::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};

/// Clients that append and read.
const APPENDERS: usize = 3;
/// Stands for no node.
const NONE: usize = usize::MAX;

/// What all clients have done.
pub struct History {
    tried: Mutex<BTreeSet<i64>>,
    acknowledged: Mutex<BTreeSet<i64>>,
    /// How many appends of each client were acknowledged.
    progress: [AtomicU64; APPENDERS],
    reads: AtomicU64,
    wrong: Mutex<Vec<String>>,
    is_over: AtomicBool,
    /// A node that appenders leave, so that it has nothing to wait for when others read there.
    avoided: AtomicUsize,
}

impl History {
    fn new() -> Self {
        Self {
            tried: Mutex::default(),
            acknowledged: Mutex::default(),
            progress: Default::default(),
            reads: AtomicU64::new(0),
            wrong: Mutex::default(),
            is_over: AtomicBool::new(false),
            avoided: AtomicUsize::new(NONE),
        }
    }

    /// Cuts the owner off until another node has taken over. Sometimes appenders leave it before.
    pub fn without<T>(
        &self,
        owner: usize,
        cluster: &Cluster,
        random: &mut Xoshiro256PlusPlus,
        cut: impl FnOnce() -> T,
    ) {
        if random.random() {
            self.avoided.store(owner, Ordering::Relaxed);
        }
        let is_cut = cut();
        self.wait_for_takeover(owner, cluster, random);
        drop(is_cut);
        self.avoided.store(NONE, Ordering::Relaxed);
    }

    /// Waits until a node is no longer the owner, and sometimes until all clients go on.
    pub fn wait_for_takeover(&self, owner: usize, cluster: &Cluster, random: &mut Xoshiro256PlusPlus) {
        let begun = Instant::now();
        while cluster.owner() == owner {
            assert!(begun.elapsed() < LIMIT, "no other node takes over\n{}", cluster.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        if random.random() {
            self.wait_for_appends(cluster, 1);
        } else {
            std::thread::sleep(Duration::from_millis(random.random_range(0..500)));
        }
    }

    /// Waits until each client has had a number of appends acknowledged since now.
    pub fn wait_for_appends(&self, cluster: &Cluster, count: u64) {
        let progress = || self.progress.each_ref().map(|of_client| of_client.load(Ordering::Relaxed));
        let (before, begun) = (progress(), Instant::now());
        while progress().iter().zip(before).any(|(now, before)| *now < before + count) {
            assert!(begun.elapsed() < LIMIT, "nothing is acknowledged any more\n{}", cluster.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A client that appends and reads, on one connection after the other, until it is over. Those after
/// the [`APPENDERS`] only read, each from one node while it is the owner.
struct Appender {
    number: usize,
    /// How to connect to each node.
    configs: [String; 2],
    history: Arc<History>,
    next: i64,
    /// What it has read.
    known: BTreeSet<i64>,
    random: Xoshiro256PlusPlus,
}

impl Appender {
    async fn run(mut self) {
        for turn in 0.. {
            if self.history.is_over.load(Ordering::Relaxed) {
                return;
            }
            let node = if self.number < APPENDERS { turn % 2 } else { self.number - APPENDERS };
            // A node that is paused lets clients connect, and then does not answer. libpq gives up after
            // `connect_timeout`, but this client only stops to wait for the connection itself.
            let config = &self.configs[node];
            let connecting = tokio::time::timeout(Duration::from_millis(500), tokio_postgres::connect(config, NoTls));
            let Ok(Ok((client, connection))) = connecting.await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let driver = tokio::spawn(connection);
            while !self.history.is_over.load(Ordering::Relaxed) {
                if self.number < APPENDERS && self.history.avoided.load(Ordering::Relaxed) == node {
                    break;
                }
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
        if self.number < APPENDERS && self.random.random() {
            self.append(client).await
        } else {
            self.read(client).await
        }
    }

    async fn append(&mut self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let id = self.number as i64 * 1_000_000 + self.next;
        self.next += 1;
        self.history.tried.lock().unwrap().insert(id);
        client.execute("INSERT INTO t (id) VALUES ($1)", &[&id]).await?;
        self.history.acknowledged.lock().unwrap().insert(id);
        self.history.progress[self.number].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn read(&mut self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let acknowledged = self.history.acknowledged.lock().unwrap().clone();
        let rows = client.query("SELECT id FROM t", &[]).await?;
        let seen: BTreeSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        for (rows, what) in [(acknowledged, "acknowledged"), (std::mem::take(&mut self.known), "read")] {
            if let Some(gone) = rows.difference(&seen).next() {
                let wrong = format!("client {} read without row {gone}, which was {what} before", self.number);
                self.history.wrong.lock().unwrap().push(wrong);
            }
        }
        self.known = seen;
        self.history.reads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Starts a cluster and clients, and lets `fail` do faults of `kinds` kinds, which returns what it did.
/// At the end, `last` has to answer with all that was acknowledged, from the bucket alone.
///
/// The variable `FLEETDB_ROUNDS` sets the number of faults, and `FLEETDB_SEED` their order.
pub fn check(
    mut cluster: Cluster,
    mut last: Node,
    kinds: u64,
    fail: impl Fn(u64, usize, &mut Cluster, &History, &mut Xoshiro256PlusPlus) -> &'static str,
) {
    cluster.start();
    let history = Arc::new(History::new());
    let seed = number("FLEETDB_SEED", rand::random());
    println!("repeat with FLEETDB_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let clients: Vec<_> = (0..APPENDERS + cluster.nodes.len())
        .map(|number| {
            let configs = cluster.nodes.each_ref().map(Node::config);
            let (history, known) = (Arc::clone(&history), BTreeSet::new());
            let random = Xoshiro256PlusPlus::seed_from_u64(random.random());
            let appender = Appender { number, configs, history, next: 0, known, random };
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(appender.run());
            })
        })
        .collect();
    for round in 0..number("FLEETDB_ROUNDS", kinds) {
        history.wait_for_appends(&cluster, 3);
        let owner = cluster.owner();
        // The first faults are of each kind once.
        let kind = if round < kinds { round } else { random.random_range(0..kinds) };
        let begun = Instant::now();
        let what = fail(kind, owner, &mut cluster, &history, &mut random);
        history.wait_for_appends(&cluster, 1);
        println!("round {round}: {what}: {} ms", begun.elapsed().as_millis());
        let wrong = history.wrong.lock().unwrap().clone();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
    history.is_over.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    drop(cluster.store.take());
    cluster.nodes.iter_mut().for_each(|node| node.end("-KILL"));
    cluster.start_store();
    // A new node has only what is in the bucket.
    last.start(&cluster.url);
    let rows: Vec<i64> = last.ask("SELECT id FROM t").iter().map(|row| row.get(0)).collect();
    let there: BTreeSet<i64> = rows.iter().copied().collect();
    assert_eq!(rows.len(), there.len(), "rows are there twice");
    let acknowledged = history.acknowledged.lock().unwrap();
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "{} acknowledged rows are lost: {lost:?}", lost.len());
    assert!(there.is_subset(&history.tried.lock().unwrap()));
    println!("{} appends acknowledged, {} reads", acknowledged.len(), history.reads.load(Ordering::Relaxed));
}
