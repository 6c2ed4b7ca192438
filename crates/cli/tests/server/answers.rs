//! PostgreSQL and FleetDB give the same answers: runs each statement of `tests/postgres/same.sql`
//! and `zones.sql` on both, and those of `mixed_times.sql` in several time zones.

use crate::process::Server;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// The session's zones in which `mixed_times.sql` runs.
const ZONES: [&str; 4] = ["UTC", "Europe/Vienna", "America/New_York", "+09"];

/// Where Debian installs the programs of PostgreSQL, in a folder for each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// A PostgreSQL server started by the test.
pub struct Postgres {
    programs: PathBuf,
    data: PathBuf,
    pub port: u16,
}

impl Postgres {
    /// Starts a server; `None` if PostgreSQL is not installed.
    pub fn start(directory: &Path) -> Option<Self> {
        let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
        let programs = versions.map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").is_file())?;
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let postgres = Self { programs, data: directory.join("data"), port };
        let data = postgres.data.to_str().unwrap();
        let initdb = ["--auth=trust", "--username=me", "--no-sync", "--encoding=UTF8", "--no-locale", data];
        assert!(postgres.run("initdb", &initdb));
        let options = format!("-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c timezone=UTC");
        let log = directory.join("log");
        let start = ["-D", data, "-o", &options, "-l", log.to_str().unwrap(), "-w", "start"];
        assert!(postgres.run("pg_ctl", &start), "{}", std::fs::read_to_string(&log).unwrap_or_default());
        Some(postgres)
    }

    /// Runs one of PostgreSQL's programs. They refuse to run as root, so root runs them in a user
    /// namespace with another user id.
    fn run(&self, program: &str, args: &[&str]) -> bool {
        let program = self.programs.join(program);
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        let mut command = match is_root {
            true => Command::new("unshare"),
            false => Command::new(&program),
        };
        if is_root {
            command.args(["--user", "--map-user=1000", "--map-group=1000"]).arg(&program);
        }
        // No pipes: the server started by pg_ctl would keep them open.
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", self.data.to_str().unwrap(), "-m", "immediate", "stop"]);
    }
}

pub async fn connect(port: &str) -> Client {
    let config = format!("host=127.0.0.1 port={port} user=me dbname=postgres");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The column names, then the rows as text; an error is the server's message.
async fn answer(client: &Client, sql: &str) -> Result<Vec<Vec<String>>, String> {
    let messages = client.simple_query(sql).await.map_err(|error| {
        let said = error.as_db_error().map(|error| error.message().to_owned());
        said.unwrap_or_else(|| error.to_string())
    })?;
    let mut rows = Vec::new();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                rows.push(columns.iter().map(|column| column.name().to_owned()).collect());
            }
            SimpleQueryMessage::Row(row) => {
                let cells = 0..row.len();
                rows.push(cells.map(|cell| row.get(cell).unwrap_or("NULL").to_owned()).collect());
            }
            _ => {}
        }
    }
    let is_ordered = sql.to_ascii_uppercase().contains("ORDER BY");
    if !is_ordered && rows.len() > 1 {
        rows[1..].sort();
    }
    Ok(rows)
}

/// Floats may differ in their last digits, since PostgreSQL's numeric is a float here.
fn are_same(one: &str, other: &str) -> bool {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
    one == other || matches!((one.parse::<f64>(), other.parse::<f64>()), (Ok(a), Ok(b)) if close(a, b))
}

fn are_alike(ours: &[Vec<String>], theirs: &[Vec<String>]) -> bool {
    let same_rows =
        |(a, b): (&Vec<String>, &Vec<String>)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_same(a, b));
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(same_rows)
}

#[test]
fn answers_are_those_of_postgres() {
    let directory = tempfile::tempdir().unwrap();
    let Some(postgres) = Postgres::start(directory.path()) else {
        return println!("skipped: PostgreSQL is not installed (Debian: apt-get install postgresql)");
    };
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let different = runtime.block_on(async {
        let ours = connect(server.port("postgres")).await;
        let theirs = connect(&postgres.port.to_string()).await;
        let mut different = Vec::new();
        let files = [
            include_str!("../../../../tests/postgres/same.sql"),
            include_str!("../../../../tests/postgres/programs.sql"),
            include_str!("../../../../tests/postgres/zones.sql"),
        ];
        let mixed = include_str!("../../../../tests/postgres/mixed_times.sql");
        let in_zones = ZONES.iter().map(|zone| format!("SET timezone = '{zone}';\n{mixed}"));
        let files: Vec<String> = files.map(str::to_owned).into_iter().chain(in_zones).collect();
        for statement in files.iter().flat_map(|file| file.split(";\n")) {
            let answers = (answer(&ours, statement).await, answer(&theirs, statement).await);
            if !matches!(&answers, (Ok(ours), Ok(theirs)) if are_alike(ours, theirs)) {
                different.push(format!("{statement}\n  FleetDB: {:?}\n  PostgreSQL: {:?}", answers.0, answers.1));
            }
        }
        different
    });
    assert!(different.is_empty(), "{} answers differ:\n{}", different.len(), different.join("\n"));
    assert!(server.terminate());
}
