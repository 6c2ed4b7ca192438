//! MariaDB as the competitor for E1: its own server in a temporary directory, with its durable
//! defaults (T3: the log is flushed at each commit), a gigabyte of buffer, and the primary key that
//! the publication of the experiment left out.

use super::ingest::{METER_FIELDS, READ_FIELDS, Report};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_targets::mariadb::{Server, connect, url};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Statement, Value};
use std::path::Path;
use tokio::runtime::Runtime;

const DATABASE: &str = "e1";

/// A running server.
pub(super) struct MariaDb(Server);

impl MariaDb {
    /// Starts a server; `None` if MariaDB is not installed.
    pub(super) fn start(directory: &Path, runtime: &Runtime) -> Outcome<Option<Self>> {
        if fleetdb_bench_targets::mariadb::ENTRY.lacking().is_some() {
            return Ok(None);
        }
        std::fs::create_dir(directory)?;
        let started = Self(Server::start(directory, &["innodb-buffer-pool-size=1G"])?);
        runtime.block_on(started.make_tables())?;
        Ok(Some(started))
    }

    async fn connect(&self, database: &str) -> Outcome<Conn> {
        connect(&url(self.0.port(), database)).await
    }

    async fn make_tables(&self) -> Outcome<()> {
        let fields = |kind: &str, names: &mut dyn Iterator<Item = String>| {
            names.map(|name| format!("{name} {kind}")).collect::<Vec<_>>().join(", ")
        };
        let texts = fields("TEXT", &mut METER_FIELDS[..7].iter().map(|name| (*name).to_owned()));
        let reads = fields("DOUBLE", &mut (0..READ_FIELDS).map(|number| format!("usage_{number}")));
        let parameters = fields("TEXT", &mut METER_FIELDS[..7].iter().map(|name| format!("a_{name}")));
        let arguments = METER_FIELDS[..7].iter().map(|name| format!("a_{name}")).collect::<Vec<_>>().join(", ");
        let mut root = self.connect("mysql").await?;
        for statement in [
            format!("CREATE DATABASE {DATABASE}"),
            format!("USE {DATABASE}"),
            format!(
                "CREATE TABLE meters (id BIGINT PRIMARY KEY, {texts}, latitude DOUBLE, longitude DOUBLE, \
                 last_reading DATETIME)"
            ),
            format!("CREATE TABLE meter_reads (meter_id BIGINT, ts DATETIME, {reads}, PRIMARY KEY (meter_id, ts))"),
            format!(
                "CREATE PROCEDURE report(a_id BIGINT, {parameters}, a_latitude DOUBLE, a_longitude DOUBLE, a_ts BIGINT, \
                 {}) BEGIN START TRANSACTION; {}; {}; COMMIT; END",
                fields("DOUBLE", &mut (0..READ_FIELDS).map(|number| format!("a_usage_{number}"))),
                upsert(&format!("a_id, {arguments}, a_latitude, a_longitude, FROM_UNIXTIME(a_ts)")),
                insert(&format!(
                    "a_id, FROM_UNIXTIME(a_ts), {}",
                    (0..READ_FIELDS).map(|number| format!("a_usage_{number}")).collect::<Vec<_>>().join(", ")
                )),
            ),
        ] {
            root.query_drop(statement).await?;
        }
        Ok(())
    }

    /// Its process id.
    pub(super) fn process(&self) -> u32 {
        self.0.process()
    }

    pub(super) async fn readings(&self) -> Outcome<usize> {
        let count = self.connect(DATABASE).await?.query_first("SELECT count(*) FROM meter_reads").await?;
        Ok(count.ok_or("a count has no row")?)
    }

    /// Removes all rows.
    pub(super) async fn forget(&self) -> Outcome<()> {
        let mut connection = self.connect(DATABASE).await?;
        connection.query_drop("TRUNCATE meter_reads").await?;
        Ok(connection.query_drop("TRUNCATE meters").await?)
    }

    /// A client that sends the statements of a transaction one after another.
    pub(super) async fn transaction(&self) -> Outcome<Transaction> {
        let mut connection = self.connect(DATABASE).await?;
        let upsert = connection.prep(upsert(&format!("{}, FROM_UNIXTIME(?)", marks(METER_FIELDS.len() + 1)))).await?;
        let insert = connection.prep(insert(&format!("?, FROM_UNIXTIME(?), {}", marks(READ_FIELDS)))).await?;
        Ok(Transaction { connection, upsert, insert })
    }

    /// A client that calls a procedure for each transaction.
    pub(super) async fn procedure(&self) -> Outcome<Procedure> {
        let mut connection = self.connect(DATABASE).await?;
        let call = connection.prep(format!("CALL report({})", marks(METER_FIELDS.len() + 2 + READ_FIELDS))).await?;
        Ok(Procedure { connection, call })
    }

    /// A client that asks for bills of this many devices, whose rows are inserted first.
    pub(super) async fn bills(&self, devices: i64, hours: u32, start_s: u64) -> Outcome<(Conn, Statement)> {
        self.forget().await?;
        let mut connection = self.connect(DATABASE).await?;
        for first in (0..devices).step_by(400) {
            let last = (first + 400).min(devices) - 1;
            let fill = format!(
                "INSERT INTO meter_reads SELECT d.seq, FROM_UNIXTIME({start_s} + h.seq * 3600), (d.seq + h.seq) % 100 * 0.25, \
                 1, 2, 3, 4, 5, 6 FROM seq_{first}_to_{last} AS d JOIN seq_0_to_{} AS h",
                hours - 1
            );
            connection.query_drop(fill).await?;
        }
        let bill = "SELECT sum(usage_0), count(*) FROM meter_reads WHERE meter_id = ? AND ts >= FROM_UNIXTIME(?) \
                    AND ts < FROM_UNIXTIME(?)";
        let bill = connection.prep(bill).await?;
        Ok((connection, bill))
    }
}

fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

fn upsert(values: &str) -> String {
    let names = METER_FIELDS.iter().chain(&["last_reading"]);
    let set = names.map(|name| format!("{name} = VALUES({name})")).collect::<Vec<_>>().join(", ");
    format!("INSERT INTO meters VALUES ({values}) ON DUPLICATE KEY UPDATE {set}")
}

fn insert(values: &str) -> String {
    format!("INSERT INTO meter_reads VALUES ({values})")
}

fn meter(id: i64, usage: f64, time_s: i64) -> Vec<Value> {
    let mut values = vec![Value::from(id)];
    values.extend((0..7).map(|_| Value::from("a text of a meter")));
    values.extend([Value::from(usage), Value::from(usage), Value::from(time_s)]);
    values
}

/// See [`MariaDb::transaction`].
pub(super) struct Transaction {
    connection: Conn,
    upsert: Statement,
    insert: Statement,
}

impl Report for Transaction {
    async fn report(&mut self, id: i64, time_us: i64, usage: f64) -> Outcome<()> {
        let time_s = time_us / 1_000_000;
        let mut reading = vec![Value::from(id), Value::from(time_s)];
        reading.extend((0..READ_FIELDS).map(|_| Value::from(usage)));
        let Self { connection, upsert, insert } = self;
        connection.query_drop("START TRANSACTION").await?;
        connection.exec_drop(&*upsert, Params::Positional(meter(id, usage, time_s))).await?;
        connection.exec_drop(&*insert, Params::Positional(reading)).await?;
        Ok(connection.query_drop("COMMIT").await?)
    }
}

/// See [`MariaDb::procedure`].
pub(super) struct Procedure {
    connection: Conn,
    call: Statement,
}

impl Report for Procedure {
    async fn report(&mut self, id: i64, time_us: i64, usage: f64) -> Outcome<()> {
        let mut values = meter(id, usage, time_us / 1_000_000);
        values.extend((0..READ_FIELDS).map(|_| Value::from(usage)));
        Ok(self.connection.exec_drop(&self.call, Params::Positional(values)).await?)
    }
}
