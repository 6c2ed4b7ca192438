//! A server under load, with the client on the same cores: E1's ingest over the PostgreSQL
//! protocol, next to an exchange of its bytes alone; E1's bill as a prepared statement; both next
//! to MariaDB if it is installed; and E2's rows as line protocol over HTTP.

mod bills;
mod echo;
mod ingest;
mod lines;
mod mariadb;
mod wire;

use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::meters::{fsync_us, memory_bytes};
use fleetdb_bench_core::scratch::Scratch;
use fleetdb_server::{Config, Options, Server};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

/// 2026-01-01.
const START: Duration = Duration::from_secs(1_767_225_600);

#[derive(clap::Args)]
pub struct Args {
    /// Numbers of connections for E1's ingest, one run each
    #[arg(long, value_delimiter = ',', default_value = "32,160")]
    connections: Vec<usize>,
    /// Seconds of each run
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// E2 rows to write as line protocol
    #[arg(long, default_value_t = 2_000_000)]
    rows: usize,
    /// Numbers of devices for the bills, one run each
    #[arg(long, value_delimiter = ',', default_value = "160,1600,6400")]
    devices: Vec<i64>,
    /// Idle connections in addition to those of E1's ingest
    #[arg(long, default_value_t = 0)]
    idle: usize,
    /// Directory in which databases are created and removed
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    #[arg(long, hide = true)]
    child: bool,
    #[arg(long, hide = true)]
    echo: bool,
    #[arg(long, hide = true)]
    log: bool,
}

pub fn run(args: &Args) -> Outcome<()> {
    if args.child {
        return serve(&args.directory);
    }
    if args.echo {
        return echo::serve(args.log.then_some(args.directory.as_path()));
    }
    let scratch = Scratch::new(&args.directory)?;
    println!("a server and its client on the same cores, T3, fdatasync {:.0} us", fsync_us(scratch.path())?);
    println!("E1's ingest: a meter upserted and a reading inserted in one transaction, {} s each", args.seconds);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = tokio::task::LocalSet::new();
    let mariadb = mariadb::MariaDb::start(&scratch.path().join("mariadb"), &runtime)?;
    if mariadb.is_none() {
        println!("skipping MariaDB: mariadbd is not installed");
    }
    println!("{}", ingest::HEADER);
    let time = Duration::from_secs(args.seconds);
    for &connections in &args.connections {
        let child = Served::start(&scratch.path().join(format!("ingest-{connections}")))?;
        let idle = runtime.block_on(child.open_idle(args.idle))?;
        tasks.block_on(&runtime, ingest::fleetdb(&child, connections, time))?;
        drop(idle);
        tasks.block_on(&runtime, ingest::floor("bytes alone", None, connections, time))?;
        let log = scratch.path().join(format!("log-{connections}"));
        tasks.block_on(&runtime, ingest::floor("bytes and a log", Some(&log), connections, time))?;
        if let Some(mariadb) = &mariadb {
            tasks.block_on(&runtime, ingest::mariadb(mariadb, connections, time))?;
        }
    }
    lines::run(&Served::start(&scratch.path().join("lines"))?, args.rows)?;
    println!("E1's bill: {} rows of one device summed by a prepared statement, one connection", bills::HOURS);
    println!("{}", bills::HEADER);
    for &devices in &args.devices {
        let child = Served::start(&scratch.path().join(format!("bills-{devices}")))?;
        runtime.block_on(bills::fleetdb(&child, devices))?;
        if let Some(mariadb) = &mariadb {
            runtime.block_on(bills::mariadb(mariadb, devices))?;
        }
    }
    Ok(())
}

/// The child process: a server that runs until its standard input ends.
fn serve(directory: &Path) -> Outcome<()> {
    let any = || Some("127.0.0.1:0".to_owned());
    let options = Options { data: Some(directory.to_owned()), http: any(), postgres: any(), ..Options::default() };
    let server = Server::start(Config::new(options)?)?;
    for option in ["http", "postgres"] {
        println!("{}", server.address(option).ok_or("the server is not listening")?);
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(server.stop()?)
}

/// This program as a child process: a server that prints its addresses and ends with its standard
/// input.
struct Child(std::process::Child);

impl Child {
    fn start<const N: usize>(arguments: impl FnOnce(&mut Command) -> &mut Command) -> Outcome<(Self, [SocketAddr; N])> {
        let mut command = Command::new(std::env::current_exe()?);
        arguments(command.args(["bars", "served"])).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Self(command.spawn()?);
        let mut said = BufReader::new(child.0.stdout.take().ok_or("the server has no output")?).lines();
        let mut addresses = [SocketAddr::from(([0; 4], 0)); N];
        for address in &mut addresses {
            *address = said.next().ok_or("the server did not start")??.parse()?;
        }
        Ok((child, addresses))
    }

    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It ends when its input ends.
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}

/// A FleetDB server.
struct Served {
    child: Child,
    http: SocketAddr,
    postgres: SocketAddr,
}

impl Served {
    fn start(directory: &Path) -> Outcome<Self> {
        let (child, [http, postgres]) =
            Child::start(|command| command.args(["--child", "--directory"]).arg(directory))?;
        Ok(Self { child, http, postgres })
    }

    /// Opens idle connections, and prints the memory they cost.
    async fn open_idle(&self, count: usize) -> Outcome<Vec<wire::Connection>> {
        let mut idle = Vec::new();
        if count == 0 {
            return Ok(idle);
        }
        rlimit::increase_nofile_limit(count as u64 + 1_000)?;
        let memory = || memory_bytes(&self.child.id().to_string(), "VmRSS:");
        let before = memory()?;
        for _ in 0..count {
            idle.push(wire::Connection::open(self.postgres).await?);
        }
        println!("{count} idle connections: {} bytes of the server's memory each", (memory()? - before) / count as u64);
        Ok(idle)
    }

    async fn connect(&self) -> Outcome<Client> {
        let config = format!("host=127.0.0.1 port={} user=bench dbname=fleetdb", self.postgres.port());
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}
