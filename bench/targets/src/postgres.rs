//! PostgreSQL: its own server with durable defaults and a gigabyte of buffers, or one at a URL
//! (such as TimescaleDB).

use crate::postgres_client::{BulkInsert, Wire};
use crate::process::{Instance, Process, free_port, output, program};
use crate::sql::{Dialect, dollar};
use crate::tsbs::newest_distinct;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::table::{ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Profile, Start, Target, Tier};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The entry in the list of targets.
pub const ENTRY: Entry = Entry {
    name: "postgres",
    about: "PostgreSQL, and TimescaleDB by URL",
    missing: Some(missing),
    url: Some("postgres://user:password@host:port/database"),
    start: open,
};

const DIALECT: Dialect = Dialect {
    types: |kind| match kind {
        ColumnType::Int => "BIGINT",
        ColumnType::Float => "DOUBLE PRECISION",
        ColumnType::Text | ColumnType::Json => "TEXT",
        ColumnType::Time => "TIMESTAMP",
    },
    parameter: dollar,
    time: dollar,
    bucket: |seconds| format!("date_bin('{seconds} seconds', ts, TIMESTAMP '1970-01-01')"),
    // DISTINCT ON reads all rows; this is the loose index scan from PostgreSQL's wiki.
    last_of_all: |columns| {
        format!(
            "WITH RECURSIVE hosts AS ((SELECT hostname FROM cpu ORDER BY hostname LIMIT 1) UNION ALL \
             SELECT (SELECT cpu.hostname FROM cpu WHERE cpu.hostname > hosts.hostname ORDER BY cpu.hostname LIMIT 1) \
             FROM hosts WHERE hosts.hostname IS NOT NULL) \
             SELECT {} FROM hosts CROSS JOIN LATERAL (SELECT * FROM cpu WHERE cpu.hostname = hosts.hostname \
             ORDER BY ts DESC LIMIT 1) AS newest",
            columns.split(", ").map(|name| format!("newest.{name}")).collect::<Vec<_>>().join(", ")
        )
    },
    newest: newest_distinct,
    // The average of integers is NUMERIC.
    average: |column| format!("CAST(avg({column}) AS DOUBLE PRECISION)"),
    bucket_ns: |bucket| format!("CAST(extract(epoch FROM {bucket}) * 1000000000 AS BIGINT)"),
};

/// Where Debian installs programs that are not in the path.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The folder of PostgreSQL's programs.
fn folder() -> Option<PathBuf> {
    if let Some(initdb) = program(&["initdb"]) {
        return Some(initdb.parent()?.to_owned());
    }
    let mut versions: Vec<_> =
        std::fs::read_dir(DEBIAN).ok()?.flatten().map(|entry| entry.path().join("bin")).collect();
    versions.sort();
    versions.into_iter().rev().find(|folder| folder.join("initdb").is_file())
}

fn missing() -> Option<String> {
    folder().is_none().then(|| "PostgreSQL is not installed (Debian: apt-get install postgresql)".to_owned())
}

/// A command for programs of PostgreSQL, which refuse to run as root: root runs them in a user
/// namespace with another user id.
fn not_as_root(program: &Path) -> Command {
    use std::os::unix::fs::MetadataExt;
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-user=1000", "--map-group=1000"]).arg(program);
    command
}

/// A server that speaks the PostgreSQL protocol.
pub(crate) struct Server {
    pub(crate) instance: Instance,
    pub(crate) version: String,
    pub(crate) tier: Tier,
    pub(crate) dialect: &'static Dialect,
    pub(crate) bulk: BulkInsert,
    /// Makes the server finish its background work; receives the tables, and whether the server was
    /// started here.
    pub(crate) settle: fn(&mut Wire, &[&str], bool) -> Outcome<()>,
    /// Opens the connections that are measured.
    pub(crate) connect: fn(&Self) -> Outcome<Box<dyn Connection>>,
    /// The tables to remove at a URL.
    pub(crate) tables: Vec<&'static str>,
    /// Whether TimescaleDB is installed; tables with a time then become hypertables.
    pub(crate) has_hypertables: bool,
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let mut instance = start.url.map_or_else(|| started(start), |url| Ok(Instance::at(url)))?;
    let (dialect, bulk, tables, tier) = (&DIALECT, BulkInsert::Arrays, Vec::new(), Tier::T3);
    let mut wire = Wire::connect(&instance.address, dialect, bulk)?;
    let version = wire.text("SHOW server_version")?;
    let extension = "SELECT coalesce(max(extversion), '') FROM pg_extension WHERE extname = 'timescaledb'";
    let timescale = wire.text(extension)?;
    let has_hypertables = !timescale.is_empty();
    if has_hypertables {
        instance.settings.push(format!("hypertables of TimescaleDB {timescale}"));
    }
    let connect = Server::driver;
    Ok(Box::new(Server { instance, version, tier, dialect, bulk, settle, connect, tables, has_hypertables }))
}

fn started(start: &Start<'_>) -> Outcome<Instance> {
    let folder = folder().ok_or_else(|| missing().unwrap_or_default())?;
    let data = start.directory.canonicalize()?.join("data");
    if !data.exists() {
        let mut initdb = not_as_root(&folder.join("initdb"));
        initdb.args(["--auth=trust", "--username=bench", "--no-sync", "--encoding=UTF8", "--no-locale"]);
        output(initdb.arg(&data))?;
    }
    let buffers = if start.profile == Profile::Fair { "1GB" } else { "128MB" };
    let settings = vec![format!("shared_buffers={buffers}"), "max_connections=300".to_owned()];
    let port = free_port()?;
    let mut server = not_as_root(&folder.join("postgres"));
    server.arg("-D").arg(&data).args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
    server.args(["-c", "unix_socket_directories="]);
    settings.iter().for_each(|setting| {
        server.args(["-c", setting]);
    });
    let address = format!("postgres://bench@127.0.0.1:{port}/postgres");
    let (process, ()) = Process::start(&mut server, &start.directory.join("log"), || {
        Wire::connect(&address, &DIALECT, BulkInsert::Arrays).map(|_| ())
    })?;
    Ok(Instance::started(address, process, data, settings))
}

/// Does what autovacuum and the checkpointer would do in their own time.
fn settle(wire: &mut Wire, tables: &[&str], is_ours: bool) -> Outcome<()> {
    tables.iter().try_for_each(|table| wire.run(&format!("VACUUM (ANALYZE) {table}")))?;
    // On a server that was not started here, the checkpoint may be refused.
    wire.run("CHECKPOINT").or_else(|error| if is_ours { Err(error) } else { Ok(()) })
}

impl Server {
    /// Opens a connection with the usual driver.
    pub(crate) fn driver(&self) -> Outcome<Box<dyn Connection>> {
        Ok(Box::new(self.wire()?))
    }

    /// Like [`driver`](Self::driver), for statements of the suite itself.
    pub(crate) fn wire(&self) -> Outcome<Wire> {
        Wire::connect(&self.instance.address, self.dialect, self.bulk)
    }
}

impl Target for Server {
    fn info(&self) -> Info {
        let (version, settings) = (self.version.clone(), self.instance.settings.clone());
        Info { version, tier: self.tier, settings }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        let mut wire = self.wire()?;
        for table in tables {
            wire.run(&self.dialect.create(table, self.instance.is_ours()))?;
            self.tables.push(table.name);
            let time = table.columns.iter().find(|(name, kind)| *kind == ColumnType::Time && table.key.contains(name));
            if let Some((time, _)) = time.filter(|_| self.has_hypertables) {
                wire.run(&format!("SELECT create_hypertable('{}', '{time}')", table.name))?;
            }
        }
        Ok(())
    }

    fn remove(&mut self) -> Outcome<()> {
        let mut wire = self.wire()?;
        self.tables.iter().try_for_each(|table| wire.run(&format!("DROP TABLE {table}")))
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        (self.connect)(self)
    }

    fn settle(&mut self) -> Outcome<()> {
        (self.settle)(&mut self.wire()?, &self.tables, self.instance.is_ours())
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        self.instance.disk_bytes()
    }

    fn takes_statements(&self) -> bool {
        true
    }

    fn processes(&self) -> Vec<u32> {
        self.instance.processes()
    }
}
