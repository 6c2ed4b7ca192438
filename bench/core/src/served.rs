//! A server under load, with the client on the same cores: E1's ingest over the PostgreSQL protocol, E2's rows as line
//! protocol over HTTP, and E1's bill as a prepared statement.

use crate::Outcome;
use crate::measure::fsync_us;
use crate::process::Scratch;
use crate::workload::{Cpu, FIELDS, TAGS};
use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampNanosecondType};
use fleetdb_server::{Config, Options, Server};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

const HOUR: Duration = Duration::from_secs(3_600);
/// 2026-01-01.
const START: Duration = Duration::from_secs(1_767_225_600);
/// Hours of a bill.
const BILL_HOURS: u32 = 744;
/// A meter's texts and places, beside its id and last reading.
const METER_FIELDS: [&str; 9] = [
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
const READ_FIELDS: [&str; 7] = ["usage_since_read", "hour", "day", "week", "month", "year", "all_time"];
/// Lines of a request.
const REQUEST_LINES: usize = 5_000;

#[derive(clap::Args)]
pub struct Args {
    /// Connections of E1's ingest, one run each
    #[arg(long, value_delimiter = ',', default_value = "32,160")]
    connections: Vec<usize>,
    /// Seconds of each run
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// E2 rows that are written as line protocol
    #[arg(long, default_value_t = 2_000_000)]
    rows: usize,
    /// Devices whose bills are asked, one run each
    #[arg(long, value_delimiter = ',', default_value = "160,1600,6400")]
    devices: Vec<i64>,
    /// Where databases are made and removed
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    #[arg(long, hide = true)]
    child: bool,
}

pub fn run(args: &Args) -> Outcome<()> {
    if args.child {
        return serve(&args.directory);
    }
    let scratch = Scratch::new(&args.directory)?;
    println!("a server and its client on the same cores, T3, fdatasync {:.0} us", fsync_us(scratch.path())?);
    println!("E1's ingest: a meter upserted and a reading inserted in one transaction, {} s each", args.seconds);
    println!("{:>12} {:>14} {:>10} {:>10} {:>10}", "connections", "operations/s", "p50 ms", "p99 ms", "max ms");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for &connections in &args.connections {
        let child = Served::start(&scratch.path().join(format!("ingest-{connections}")))?;
        let run = ingest(&child, connections, Duration::from_secs(args.seconds));
        tokio::task::LocalSet::new().block_on(&runtime, run)?;
    }
    lines(&Served::start(&scratch.path().join("lines"))?, args.rows)?;
    println!("E1's bill: {BILL_HOURS} rows of one device summed by a prepared statement, one connection, data at rest");
    println!("{:>12} {:>10} {:>10}", "devices", "p50 us", "p99 us");
    for &devices in &args.devices {
        let child = Served::start(&scratch.path().join(format!("bills-{devices}")))?;
        runtime.block_on(bills(&child, devices))?;
    }
    Ok(())
}

/// The child: a server until its standard input ends.
fn serve(directory: &Path) -> Outcome<()> {
    let any = || Some("127.0.0.1:0".to_owned());
    let options = Options { data: Some(directory.to_owned()), http: any(), postgres: any(), ..Options::default() };
    let server = Server::start(Config::new(options)?)?;
    for option in ["http", "postgres"] {
        println!("{}", server.address(option).ok_or("the server does not listen")?);
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(server.stop()?)
}

/// A server in a process of its own.
struct Served {
    child: Child,
    http: SocketAddr,
    postgres: SocketAddr,
}

impl Served {
    fn start(directory: &Path) -> Outcome<Self> {
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command.args(["served", "--child", "--directory"]).arg(directory);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut said = BufReader::new(child.stdout.take().ok_or("the server has no output")?).lines();
        let mut address = || Outcome::Ok(said.next().ok_or("the server did not start")??.parse()?);
        let (http, postgres) = (address()?, address()?);
        Ok(Self { child, http, postgres })
    }

    async fn connect(&self) -> Outcome<Client> {
        let config = format!("host=127.0.0.1 port={} user=bench dbname=fleetdb", self.postgres.port());
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

fn values(count: usize) -> String {
    (1..=count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

/// The statements of E1's ingest.
struct Operation {
    client: Client,
    begin: Statement,
    upsert: Statement,
    insert: Statement,
    commit: Statement,
}

impl Operation {
    async fn prepare(client: Client) -> Outcome<Self> {
        let set = METER_FIELDS.iter().map(|name| format!("{name} = excluded.{name}")).collect::<Vec<_>>().join(", ");
        let upsert = format!(
            "INSERT INTO meters VALUES ({}) ON CONFLICT (id) DO UPDATE SET {set}, last_reading = excluded.last_reading",
            values(METER_FIELDS.len() + 2)
        );
        let insert = format!("INSERT INTO meter_reads VALUES ({})", values(READ_FIELDS.len() + 2));
        Ok(Self {
            begin: client.prepare("BEGIN").await?,
            upsert: client.prepare(&upsert).await?,
            insert: client.prepare(&insert).await?,
            commit: client.prepare("COMMIT").await?,
            client,
        })
    }

    /// One operation, sent at once; it is acknowledged when all four answers are there.
    async fn run(&self, id: i64, number: u32) -> Outcome<()> {
        let time: SystemTime = SystemTime::UNIX_EPOCH + START + HOUR * number;
        let text = "a text of a meter";
        let usage = f64::from(number % 100) * 0.25;
        let meter: [&(dyn ToSql + Sync); 11] =
            [&id, &text, &text, &text, &text, &text, &text, &text, &usage, &usage, &time];
        let read: [&(dyn ToSql + Sync); 9] = [&id, &time, &usage, &usage, &usage, &usage, &usage, &usage, &usage];
        let Self { client, begin, upsert, insert, commit } = self;
        // In this order: they are sent when they are asked first.
        let (begun, upserted, inserted, committed) = tokio::join!(
            biased;
            client.execute(begin, &[]),
            client.execute(upsert, &meter),
            client.execute(insert, &read),
            client.execute(commit, &[])
        );
        begun.and(upserted).and(inserted).and(committed)?;
        Ok(())
    }
}

const TABLES: [&str; 2] = [
    "CREATE TABLE meters (id BIGINT, contact_name TEXT, email TEXT, phone_number TEXT, description TEXT, address TEXT, \
     city TEXT, state_province TEXT, latitude DOUBLE, longitude DOUBLE, last_reading TIMESTAMP, PRIMARY KEY (id))",
    "CREATE TABLE meter_reads (meter_id BIGINT, ts TIMESTAMP, usage_since_read DOUBLE, hour DOUBLE, day DOUBLE, \
     week DOUBLE, month DOUBLE, year DOUBLE, all_time DOUBLE, PRIMARY KEY (meter_id, ts))",
];

async fn ingest(server: &Served, connections: usize, time: Duration) -> Outcome<()> {
    let admin = server.connect().await?;
    for table in TABLES {
        admin.batch_execute(table).await?;
    }
    let mut operations = Vec::new();
    for _ in 0..connections {
        operations.push(Operation::prepare(server.connect().await?).await?);
    }
    let begin = Instant::now();
    let mut runs = tokio::task::JoinSet::new();
    for (id, operation) in operations.into_iter().enumerate() {
        runs.spawn_local(async move {
            let mut times = Vec::new();
            for number in 0.. {
                let start = Instant::now();
                operation.run(id as i64, number).await.map_err(|e| e.to_string())?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
                if begin.elapsed() >= time {
                    break;
                }
            }
            Ok::<_, String>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(run) = runs.join_next().await {
        times.extend(run??);
    }
    let took = begin.elapsed().as_secs_f64();
    let there: i64 = admin.query_one("SELECT count(*) FROM meter_reads", &[]).await?.get(0);
    if there != times.len() as i64 {
        return Err(format!("{there} readings are there, {} were acknowledged", times.len()).into());
    }
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    println!(
        "{connections:>12} {:>14.0} {:>10.2} {:>10.2} {:>10.2}",
        times.len() as f64 / took,
        at(50),
        at(99),
        at(100)
    );
    Ok(())
}

/// E2's rows as lines, each request's in a text.
fn texts(rows: usize) -> Outcome<Vec<String>> {
    let mut cpu = Cpu::edge()?;
    let mut texts = Vec::new();
    let mut text = String::new();
    for number in 1..=rows / crate::workload::BATCH_ROWS {
        let batch = cpu.next()?;
        let column = |name: &str| batch.column_by_name(name).ok_or("a column is missing");
        let tags = TAGS.iter().map(|tag| Ok(column(tag)?.as_string::<i32>())).collect::<Outcome<Vec<_>>>()?;
        let fields = FIELDS.iter().map(|f| Ok(column(f)?.as_primitive::<Int64Type>())).collect::<Outcome<Vec<_>>>()?;
        let times = column("ts")?.as_primitive::<TimestampNanosecondType>();
        for row in 0..batch.num_rows() {
            text += "cpu";
            for (name, tag) in TAGS.iter().zip(&tags) {
                write!(text, ",{name}={}", tag.value(row))?;
            }
            for (place, (name, field)) in FIELDS.iter().zip(&fields).enumerate() {
                let before = if place == 0 { ' ' } else { ',' };
                write!(text, "{before}{name}={}i", field.value(row))?;
            }
            writeln!(text, " {}", times.value(row))?;
        }
        if number % (REQUEST_LINES / crate::workload::BATCH_ROWS) == 0 {
            texts.push(std::mem::take(&mut text));
        }
    }
    Ok(texts)
}

fn lines(server: &Served, rows: usize) -> Outcome<()> {
    const CONNECTIONS: usize = 4;
    let texts = Arc::new(texts(rows)?);
    let next = Arc::new(AtomicUsize::new(0));
    let begin = Instant::now();
    let writers = (0..CONNECTIONS).map(|_| {
        let (texts, next, address) = (Arc::clone(&texts), Arc::clone(&next), server.http);
        std::thread::spawn(move || -> std::result::Result<(), String> {
            let failed = |e: std::io::Error| e.to_string();
            let mut stream = TcpStream::connect(address).map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            while let Some(text) = texts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let head = format!("POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", text.len());
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes())).map_err(failed)?;
                // An answer of 204 has no body and is shorter than this.
                let mut answer = [0; 1024];
                let read = stream.read(&mut answer).map_err(failed)?;
                if !answer[..read].starts_with(b"HTTP/1.1 204") {
                    return Err(String::from_utf8_lossy(&answer[..read]).into_owned());
                }
            }
            Ok(())
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.join().map_err(|_| "a writer ended")??;
    }
    let rows = texts.len() * REQUEST_LINES;
    let rate = rows as f64 / begin.elapsed().as_secs_f64();
    println!(
        "E2's rows as line protocol over HTTP: {rows} rows, {REQUEST_LINES} a request, {CONNECTIONS} connections: {rate:.0} rows/s"
    );
    Ok(())
}

async fn bills(server: &Served, devices: i64) -> Outcome<()> {
    let client = server.connect().await?;
    client.batch_execute(TABLES[1]).await?;
    // A device's month at a time, made by the server itself.
    for first in (0..devices).step_by(400) {
        let last = (first + 400).min(devices);
        let fill = format!(
            "INSERT INTO meter_reads SELECT d, to_timestamp(1767225600 + h * 3600), (d + h) % 100 * 0.25, 1, 2, 3, 4, 5, 6 \
             FROM (SELECT value AS d FROM generate_series({first}, {})) AS devices, (SELECT value AS h FROM generate_series(0, {})) AS hours",
            last - 1,
            BILL_HOURS - 1
        );
        client.batch_execute(&fill).await?;
    }
    client.batch_execute("VACUUM").await?;
    let bill = "SELECT sum(usage_since_read), count(*) FROM meter_reads WHERE meter_id = $1 AND ts >= $2 AND ts < $3";
    let bill = client.prepare(bill).await?;
    let (from, to) = (SystemTime::UNIX_EPOCH + START, SystemTime::UNIX_EPOCH + START + HOUR * BILL_HOURS);
    let mut times = Vec::new();
    for number in 0..2_000i64 {
        let id = number * 7_919 % devices;
        let start = Instant::now();
        let row = client.query_one(&bill, &[&id, &from, &to]).await?;
        let took = start.elapsed().as_secs_f64() * 1e6;
        let expected: i64 = (0..i64::from(BILL_HOURS)).map(|hour| (id + hour) % 100).sum();
        let (sum, rows): (f64, i64) = (row.get(0), row.get(1));
        if sum != expected as f64 * 0.25 || rows != i64::from(BILL_HOURS) {
            return Err(format!("the bill of device {id} is {sum} over {rows} rows").into());
        }
        // The first ones fill the cache.
        if number >= 200 {
            times.push(took);
        }
    }
    times.sort_by(f64::total_cmp);
    println!("{devices:>12} {:>10.1} {:>10.1}", times[times.len() / 2], times[times.len() * 99 / 100]);
    Ok(())
}
