//! FleetDB as a server in its own process, over the PostgreSQL protocol. Many rows are written with
//! COPY.

use crate::fleetdb::DIALECT;
use crate::postgres::{BulkInsert, Server as Remote, Wire};
use crate::process::{Instance, Process};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::target::{Entry, Profile, Start, Target, Tier};
use fleetdb_server::{Config, Options, Server};
use std::path::Path;
use std::process::Command;

/// The entry in the list of targets.
pub const ENTRY: Entry = Entry {
    name: "fleetdb-server",
    about: "FleetDB, served",
    missing: Some(crate::nothing),
    url: Some("postgres://user@host:port/fleetdb"),
    start: open,
};

/// The command of this program that runs [`serve`]; `--directory` and `--durability` follow.
pub const COMMAND: &str = "serve-fleetdb";

/// The file to which the server writes its port.
const PORT: &str = "port";

/// Serves until it is asked to end; [`COMMAND`] runs this in its own process.
///
/// # Errors
/// Those of the server.
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
    let address = server.address("postgres").ok_or("the server is not listening")?;
    // Rename the file into place, so that a reader never sees a partial one.
    let written = directory.join("port-being-written");
    std::fs::write(&written, address.port().to_string())?;
    std::fs::rename(written, directory.join(PORT))?;
    server.wait()?;
    Ok(server.stop()?)
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let (tier, settings, durability) = match start.profile {
        Profile::Fair => (Tier::T3, Vec::new(), "sync"),
        Profile::Published => (Tier::T1, vec!["durability = os".to_owned()], "os"),
    };
    let instance = match start.url {
        Some(url) => Instance::at(url),
        None => started(start.directory, durability, settings)?,
    };
    let (dialect, bulk, tables, version) =
        (&DIALECT, BulkInsert::Copy, Vec::new(), env!("CARGO_PKG_VERSION").to_owned());
    Ok(Box::new(Remote { instance, version, tier, dialect, bulk, settle, tables, has_hypertables: false }))
}

fn started(directory: &Path, durability: &str, settings: Vec<String>) -> Outcome<Instance> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([COMMAND, "--durability", durability, "--directory"]).arg(directory);
    let port = directory.join(PORT);
    if port.exists() {
        // From an earlier start.
        std::fs::remove_file(&port)?;
    }
    let (process, port) =
        Process::start(&mut command, &directory.join("log"), || Ok(std::fs::read_to_string(&port)?.parse::<u16>()?))?;
    let address = format!("postgres://bench@127.0.0.1:{port}/fleetdb");
    Ok(Instance::started(address, process, directory.join("data"), settings))
}

/// Flushes everything and performs the merges that are due.
fn settle(wire: &mut Wire, _tables: &[&str], _is_ours: bool) -> Outcome<()> {
    wire.run("VACUUM")
}
