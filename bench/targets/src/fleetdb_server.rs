//! FleetDB as a server in a process of its own, asked over PostgreSQL's protocol; many rows come by COPY.

use crate::fleetdb::DIALECT;
use crate::postgres::{Many, Wire};
use crate::process::Process;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::meters::disk_bytes;
use fleetdb_bench_core::table::Table;
use fleetdb_bench_core::target::{Connection, Entry, Info, Profile, Start, Target, Tier};
use fleetdb_server::{Config, Options, Server};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its line in the list.
pub const ENTRY: Entry =
    Entry { name: "fleetdb-server", about: "FleetDB, served", missing: crate::nothing, start: open };

/// The command of this program that [`serve`]s; `--directory` and `--durability` follow.
pub const COMMAND: &str = "serve-fleetdb";

/// Where the server says what it listens to.
const ADDRESS: &str = "address";

struct Served {
    process: Process,
    data: PathBuf,
    profile: Profile,
    port: u16,
}

/// Serves until it is asked to end: what [`COMMAND`] does, in a process of its own.
///
/// # Errors
/// The server's.
pub fn serve(directory: &Path, durability: &str) -> Outcome<()> {
    let any = || Some("127.0.0.1:0".to_owned());
    let options = Options {
        data: Some(directory.join("data")),
        durability: Some(durability.to_owned()),
        http: Some("off".to_owned()),
        postgres: any(),
        ..Options::default()
    };
    let server = Server::start(Config::new(options)?)?;
    let address = server.address("postgres").ok_or("the server does not listen")?;
    // Whole at once, for who looks on.
    let written = directory.join("address-being-written");
    std::fs::write(&written, address.port().to_string())?;
    std::fs::rename(written, directory.join(ADDRESS))?;
    server.wait()?;
    Ok(server.stop()?)
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let durability = if start.profile == Profile::Fair { "sync" } else { "os" };
    let mut command = Command::new(std::env::current_exe()?);
    command.args([COMMAND, "--durability", durability, "--directory"]).arg(start.directory);
    let address = start.directory.join(ADDRESS);
    let (process, port) = Process::start(&mut command, &start.directory.join("log"), || {
        Ok(std::fs::read_to_string(&address)?.parse::<u16>()?)
    })?;
    Ok(Box::new(Served { process, data: start.directory.join("data"), profile: start.profile, port }))
}

impl Served {
    fn wire(&self) -> Outcome<Wire> {
        Wire::connect(self.port, "fleetdb", &DIALECT, Many::Copy)
    }
}

impl Target for Served {
    fn info(&self) -> Info {
        let (tier, settings) = match self.profile {
            Profile::Fair => (Tier::T3, Vec::new()),
            Profile::Published => (Tier::T1, vec!["durability = os".to_owned()]),
        };
        Info { version: env!("CARGO_PKG_VERSION").to_owned(), tier, settings }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        let mut wire = self.wire()?;
        tables
            .iter()
            .try_for_each(|table| wire.run(&format!("CREATE TABLE {} ({})", table.name, DIALECT.columns(table))))
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        Ok(Box::new(self.wire()?))
    }

    /// Everything flushed and merged, more than the background would do.
    fn settle(&mut self) -> Outcome<()> {
        self.wire()?.run("VACUUM")
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        disk_bytes(&self.data)
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.process.id()]
    }
}
