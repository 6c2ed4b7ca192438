//! E1's ingest: each operation is one transaction that upserts a meter and inserts one of its
//! readings.

use super::echo::Echo;
use super::mariadb::MariaDb;
use super::wire::{Connection, Parameter};
use super::{START, Served};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::meters::processor_us;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

pub(super) const HOUR_US: i64 = 3_600_000_000;

/// The text and place columns of a meter, besides its id and last reading.
pub(super) const METER_FIELDS: [&str; 9] = [
    "contact_name",
    "email",
    "phone_number",
    "description",
    "address",
    "city",
    "state_province",
    "latitude",
    "longitude",
];
/// Number of usage columns of a reading, besides its meter and time.
pub(super) const READ_FIELDS: usize = 7;

pub(super) const TABLES: [&str; 2] = [
    "CREATE TABLE meters (id BIGINT, contact_name TEXT, email TEXT, phone_number TEXT, description TEXT, address TEXT, \
     city TEXT, state_province TEXT, latitude DOUBLE, longitude DOUBLE, last_reading TIMESTAMP, PRIMARY KEY (id))",
    "CREATE TABLE meter_reads (meter_id BIGINT, ts TIMESTAMP, usage_since_read DOUBLE, hour DOUBLE, day DOUBLE, \
     week DOUBLE, month DOUBLE, year DOUBLE, all_time DOUBLE, PRIMARY KEY (meter_id, ts))",
];

/// The value of a meter's text columns.
const TEXT: &str = "a text of a meter";

pub(super) const HEADER: &str =
    "server                  connections   operations/s     p50 ms     p99 ms     max ms  server us/op  client us/op";

/// A client that reports readings.
pub(super) trait Report {
    /// Runs one operation; returns when it is acknowledged.
    async fn report(&mut self, id: i64, time_us: i64, usage: f64) -> Outcome<()>;
}

fn parameters(numbers: impl IntoIterator<Item = usize>) -> String {
    numbers.into_iter().map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

fn upsert_meter() -> String {
    let set = METER_FIELDS.iter().map(|name| format!("{name} = excluded.{name}")).collect::<Vec<_>>().join(", ");
    let values = parameters(1..=METER_FIELDS.len() + 2);
    format!(
        "INSERT INTO meters VALUES ({values}) ON CONFLICT (id) DO UPDATE SET {set}, last_reading = excluded.last_reading"
    )
}

fn insert_reading(numbers: impl IntoIterator<Item = usize>) -> String {
    format!("INSERT INTO meter_reads VALUES ({})", parameters(numbers))
}

/// An operation as BEGIN, two INSERTs and COMMIT, all sent at once.
struct Transaction(Connection);

impl Transaction {
    async fn open(server: &Served) -> Outcome<Self> {
        let mut connection = Connection::open(server.postgres).await?;
        connection.prepare("begin", "BEGIN")?;
        connection.prepare("upsert", &upsert_meter())?;
        connection.prepare("insert", &insert_reading(1..=READ_FIELDS + 2))?;
        connection.prepare("commit", "COMMIT")?;
        connection.run().await?;
        Ok(Self(connection))
    }
}

impl Report for Transaction {
    async fn report(&mut self, id: i64, time_us: i64, usage: f64) -> Outcome<()> {
        use Parameter::{Float, Int, Text, Time};
        let (time, text, usage) = (Time(time_us), Text(TEXT), Float(usage));
        self.0.execute("begin", &[])?;
        self.0.execute("upsert", &[Int(id), text, text, text, text, text, text, text, usage, usage, time])?;
        self.0.execute("insert", &[Int(id), time, usage, usage, usage, usage, usage, usage, usage])?;
        self.0.execute("commit", &[])?;
        self.0.run().await
    }
}

/// An operation as one statement that contains both INSERTs, where other databases use a procedure.
struct Statement(Connection);

impl Statement {
    async fn open(server: &Served) -> Outcome<Self> {
        // The meter and time of the reading equal the meter's id and last reading.
        let last = METER_FIELDS.len() + 2;
        let insert = insert_reading([1, last].into_iter().chain(last + 1..=last + READ_FIELDS));
        let mut connection = Connection::open(server.postgres).await?;
        connection.prepare("report", &format!("WITH meter AS ({}) {insert}", upsert_meter()))?;
        connection.run().await?;
        Ok(Self(connection))
    }
}

impl Report for Statement {
    async fn report(&mut self, id: i64, time_us: i64, usage: f64) -> Outcome<()> {
        use Parameter::{Float, Int, Text, Time};
        let (text, usage) = (Text(TEXT), Float(usage));
        let meter = [Int(id), text, text, text, text, text, text, text, usage, usage, Time(time_us)];
        let values: Vec<_> = meter.into_iter().chain([usage; READ_FIELDS]).collect();
        self.0.execute("report", &values)?;
        self.0.run().await
    }
}

/// Measures FleetDB, with each operation first as a transaction of four statements, then as one
/// statement.
pub(super) async fn fleetdb(server: &Served, connections: usize, time: Duration) -> Outcome<()> {
    let admin = server.connect().await?;
    for table in TABLES {
        admin.batch_execute(table).await?;
    }
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Transaction::open(server).await?);
    }
    let count = measure("FleetDB, transaction", server.child.id(), clients, time).await?;
    check(readings(&admin).await?, count)?;
    admin.batch_execute("TRUNCATE meter_reads; TRUNCATE meters; VACUUM").await?;
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Statement::open(server).await?);
    }
    let count = measure("FleetDB, one statement", server.child.id(), clients, time).await?;
    check(readings(&admin).await?, count)
}

async fn readings(admin: &Client) -> Outcome<usize> {
    let count: i64 = admin.query_one("SELECT count(*) FROM meter_reads", &[]).await?.get(0);
    Ok(count as usize)
}

/// Measures the exchange of an operation's bytes alone, or with a log also their way to disk.
pub(super) async fn floor(name: &str, log: Option<&Path>, connections: usize, time: Duration) -> Outcome<()> {
    let server = Echo::start(log)?;
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(server.connect().await?);
    }
    measure(name, server.child.id(), clients, time).await.map(|_| ())
}

/// Measures MariaDB, with each operation first as a transaction of four statements, then as a
/// procedure.
pub(super) async fn mariadb(server: &MariaDb, connections: usize, time: Duration) -> Outcome<()> {
    let before = server.readings().await?;
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(server.transaction().await?);
    }
    let count = measure("MariaDB, transaction", server.process(), clients, time).await?;
    check(server.readings().await? - before, count)?;
    server.forget().await?;
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(server.procedure().await?);
    }
    let count = measure("MariaDB, procedure", server.process(), clients, time).await?;
    check(server.readings().await?, count)?;
    server.forget().await
}

fn check(there: usize, acknowledged: usize) -> Outcome<()> {
    if there == acknowledged {
        return Ok(());
    }
    Err(format!("found {there} readings, but {acknowledged} were acknowledged").into())
}

/// Has each client report one reading after another; prints the times and returns the number of
/// acknowledged readings.
async fn measure<R: Report + 'static>(server: &str, process: u32, clients: Vec<R>, time: Duration) -> Outcome<usize> {
    let connections = clients.len();
    let process = process.to_string();
    let (server_us, client_us) = (processor_us(&process)?, processor_us("self")?);
    let begin = Instant::now();
    let mut runs = tokio::task::JoinSet::new();
    for (id, mut client) in (0..).zip(clients) {
        runs.spawn_local(async move {
            let mut times_ms = Vec::new();
            for number in 0.. {
                let start = Instant::now();
                let time_us = START.as_micros() as i64 + HOUR_US * number;
                let reported = client.report(id, time_us, (number % 100) as f64 * 0.25).await;
                reported.map_err(|e| e.to_string())?;
                times_ms.push(start.elapsed().as_secs_f64() * 1e3);
                if begin.elapsed() >= time {
                    break;
                }
            }
            Ok::<_, String>(times_ms)
        });
    }
    let mut times_ms = Vec::new();
    while let Some(run) = runs.join_next().await {
        times_ms.extend(run??);
    }
    let took = begin.elapsed().as_secs_f64();
    let count = times_ms.len();
    let (server_us, client_us) = (processor_us(&process)? - server_us, processor_us("self")? - client_us);
    times_ms.sort_by(f64::total_cmp);
    let at = |share: usize| times_ms[(count * share / 100).min(count - 1)];
    println!(
        "{server:<23} {connections:>11} {:>14.0} {:>10.2} {:>10.2} {:>10.2} {:>13.1} {:>13.1}",
        count as f64 / took,
        at(50),
        at(99),
        at(100),
        server_us / count as f64,
        client_us / count as f64
    );
    Ok(count)
}
