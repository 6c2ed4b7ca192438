//! Metrics for Prometheus.

use fleetdb_engine::{Database, Reader, Status};
use fleetdb_query::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Label: the protocol.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Protocol {
    pub(crate) protocol: &'static str,
}

/// Labels: the protocol and the outcome.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Outcome {
    pub(crate) protocol: &'static str,
    pub(crate) outcome: &'static str,
}

/// Metrics of the statements of a protocol.
pub(crate) struct Statements {
    seconds: Histogram,
    done: Counter,
    failed: Counter,
}

impl Statements {
    /// Records that a statement ended.
    pub(crate) fn ended(&self, begun: Instant, is_done: bool) {
        self.seconds.observe(begun.elapsed().as_secs_f64());
        let outcome = if is_done { &self.done } else { &self.failed };
        outcome.inc();
    }
}

/// All metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) connections: Family<Protocol, Gauge>,
    pub(crate) requests: Family<Outcome, Counter>,
    pub(crate) lines: Family<Outcome, Counter>,
    pub(crate) postgres: Statements,
    pub(crate) http: Statements,
    pub(crate) refused_connections: Counter,
    pub(crate) failed_logins: Family<Protocol, Counter>,
    pub(crate) running: Gauge,
    pub(crate) waiting: Gauge,
}

impl Metrics {
    pub(crate) fn new(store: &Store) -> Self {
        let mut registry = Registry::with_prefix("fleetdb");
        let (connections, requests, lines) = (Family::default(), Family::default(), Family::default());
        let (statements, refused_connections) = (Family::<Outcome, Counter>::default(), Counter::default());
        let seconds: Family<Protocol, Histogram, fn() -> Histogram> = Family::new_with_constructor(histogram);
        registry.register("connections", "Open connections", connections.clone());
        registry.register("requests", "HTTP requests that were answered", requests.clone());
        registry.register("lines", "Lines of line protocol", lines.clone());
        registry.register("statements", "SQL statements", statements.clone());
        registry.register_with_unit("statement", "How long statements took", Unit::Seconds, seconds.clone());
        let refused = refused_connections.clone();
        registry.register("refused_connections", "Connections beyond max_connections", refused);
        let failed_logins = Family::<Protocol, Counter>::default();
        registry.register("failed_logins", "Wrong passwords and tokens", failed_logins.clone());
        let (running, waiting) = (Gauge::default(), Gauge::default());
        registry.register("running_jobs", "Statements and writes that run (max_running)", running.clone());
        registry.register(
            "waiting_jobs",
            "Statements and writes that wait for one to end (max_waiting)",
            waiting.clone(),
        );
        registry.register_collector(Box::new(Engine::of(store)));
        let outcome = |protocol, outcome| statements.get_or_create(&Outcome { protocol, outcome }).clone();
        let of = |protocol| Statements {
            seconds: seconds.get_or_create(&Protocol { protocol }).clone(),
            done: outcome(protocol, "done"),
            failed: outcome(protocol, "failed"),
        };
        Self {
            postgres: of("postgres"),
            http: of("http"),
            registry,
            connections,
            requests,
            lines,
            refused_connections,
            failed_logins,
            running,
            waiting,
        }
    }

    /// Records the lines of a body.
    pub(crate) fn lines(&self, protocol: &'static str, kept: usize, dropped: usize) {
        self.lines.get_or_create(&Outcome { protocol, outcome: "kept" }).inc_by(kept as u64);
        self.lines.get_or_create(&Outcome { protocol, outcome: "dropped" }).inc_by(dropped as u64);
    }

    /// The metrics in the text format that Prometheus reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        encode(&mut text, &self.registry).ok();
        text
    }
}

/// Buckets from 0.1 ms to 26 s.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 4.0, 10))
}

/// Collects the engine's metrics on request. Does not keep a database open for writing.
enum Engine {
    Writer(Weak<Database>),
    Reader(Arc<Reader>),
}

impl Engine {
    fn of(store: &Store) -> Self {
        match store {
            Store::Writer(db) => Self::Writer(Arc::downgrade(db)),
            Store::Reader(reader, _) => Self::Reader(Arc::clone(reader)),
        }
    }

    /// `None` if the database is closed.
    fn status(&self) -> Option<Status> {
        match self {
            Self::Writer(db) => db.upgrade().map(|db| db.status()),
            Self::Reader(reader) => Some(reader.status()),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

impl Collector for Engine {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(status) = self.status() else { return Ok(()) };
        for (name, help, value) in gauges(&status) {
            let gauge = ConstGauge::new(value as i64);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        for (name, help, value) in counters(&status) {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        Ok(())
    }
}

fn gauges(status: &Status) -> Vec<(&'static str, &'static str, u64)> {
    let mut gauges = vec![
        ("memtable_bytes", "Memory of the active memtables", status.memtable_bytes as u64),
        ("frozen_memtables", "Generations of memtables that wait for their flush", status.frozen_generations as u64),
        ("segments", "Segments", status.segments as u64),
        ("segment_bytes", "Bytes of all segments", status.segment_bytes),
        ("cache_bytes", "Memory of the cache", status.cache_bytes),
        ("work_bytes", "Memory that scans and compaction hold", status.work_bytes as u64),
        ("compaction_debt_bytes", "Bytes of segments that wait to be merged", status.compaction_debt_bytes),
        ("held_back", "1 while writers wait for compaction", u64::from(status.held_back)),
        (
            "background_failing",
            "1 while flush or compaction fails",
            u64::from(status.flush_error.is_some() || status.compaction_error.is_some()),
        ),
    ];
    if let Some(shipping) = &status.shipping {
        let age = "Seconds since the time up to which everything is in the bucket";
        gauges.extend(shipping.seconds.map(|seconds| ("ship_age_seconds", age, seconds)));
        gauges.push(("ship_lag_batches", "Batches that are not in the bucket yet", shipping.batches));
        gauges.push(("ship_failing", "1 while shipping fails", u64::from(shipping.error.is_some())));
    }
    if let Some(adopting) = &status.adopting {
        let age = "Seconds since the last complete look at the outboxes of devices";
        gauges.extend(adopting.seconds.map(|seconds| ("adopt_age_seconds", age, seconds)));
        gauges.push(("adopt_failing_devices", "Devices whose rows could not be adopted", adopting.failing));
    }
    if let Some(reading) = &status.reading {
        gauges.push(("read_age_seconds", "Seconds since the time of what queries see", reading.age_seconds));
        gauges.push(("read_failing", "1 while newer data cannot be read", u64::from(reading.error.is_some())));
    }
    gauges
}

fn counters(status: &Status) -> Vec<(&'static str, &'static str, u64)> {
    let mut counters = vec![
        ("wal_bytes", "Bytes written to the log", status.wal_bytes_written),
        ("wal_syncs", "Fsyncs of the log", status.wal_syncs),
        ("flushed_bytes", "Bytes of the segments that flushes wrote", status.flushed_bytes),
        ("compacted_bytes", "Bytes of the segments that compactions wrote", status.compacted_bytes),
        ("compactions", "Merges done", status.compactions),
    ];
    if let Some(adopting) = &status.adopting {
        counters.push(("adopted_rows", "Rows of devices that were adopted", adopting.rows));
    }
    if let Some(shipping) = &status.shipping {
        counters.push(("ship_bytes", "Bytes of segments that were sent to the bucket", shipping.sent_bytes));
    }
    counters
}
