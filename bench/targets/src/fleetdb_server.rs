//! FleetDB as a server in its own process, over the PostgreSQL protocol. More than 100 rows are written
//! with COPY; the variants in [`WIRE`] are asked through a [lean client](crate::lean).

use crate::fleetdb::DIALECT;
use crate::lean::Form;
use crate::postgres::Server as Remote;
use crate::postgres_client::{BulkInsert, Wire};
use crate::process::{Instance, Process};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::target::{Connection, Entry, Profile, Start, StartTarget, Tier};
use fleetdb_server::{Config, Options, Server};
use std::path::Path;
use std::process::Command;

/// The entry in the list of targets.
pub const ENTRY: Entry = Entry {
    name: "fleetdb-server",
    about: "FleetDB, served",
    missing: Some(crate::nothing),
    url: Some("postgres://user@host:port/fleetdb"),
    start: |start| Ok(Box::new(open(start, Remote::driver)?)),
};

/// A server with a client that takes hardly any time itself.
const fn wire(name: &'static str, about: &'static str, start: StartTarget) -> Entry {
    Entry { name, about, missing: Some(crate::nothing), url: Some("postgres://user@host:port/fleetdb"), start }
}

/// The entries of the server with a [lean client](crate::lean).
pub const WIRE: [Entry; 6] = [
    wire("fleetdb-wire", "FleetDB, served, with a lean client in place of a driver", |start| {
        Ok(Box::new(open(start, |server| lean(server, Form::Whole))?))
    }),
    wire("fleetdb-pipeline", "fleetdb-wire, with a statement for each table", |start| {
        Ok(Box::new(open(start, |server| lean(server, Form::Pipeline))?))
    }),
    wire("fleetdb-partial", "fleetdb-pipeline; upserts change only the time of a collection's row", |start| {
        Ok(Box::new(open(start, |server| lean(server, Form::Partial))?))
    }),
    wire("fleetdb-wire-t2", "fleetdb-wire; the log is synced every 200 ms", |start| {
        Ok(Box::new(open_at(start, T2, |server| lean(server, Form::Whole))?))
    }),
    wire("fleetdb-pipeline-t2", "fleetdb-pipeline; the log is synced every 200 ms", |start| {
        Ok(Box::new(open_at(start, T2, |server| lean(server, Form::Pipeline))?))
    }),
    wire("fleetdb-partial-t2", "fleetdb-partial; the log is synced every 200 ms", |start| {
        Ok(Box::new(open_at(start, T2, |server| lean(server, Form::Partial))?))
    }),
];

fn lean(server: &Remote, form: Form) -> Outcome<Box<dyn Connection>> {
    crate::lean::connect(&server.instance.address, &DIALECT, form)
}

/// The command of this program that runs [`serve`]; `--directory` and `--durability` follow.
pub const COMMAND: &str = "serve-fleetdb";

/// Opens a connection that is measured.
type Connect = fn(&Remote) -> Outcome<Box<dyn Connection>>;

/// The files to which the server writes its ports.
const PORT: &str = "port";
const HTTP_PORT: &str = "http-port";

/// Serves until it is asked to end; [`COMMAND`] runs this in its own process.
///
/// # Errors
/// Those of the server.
pub fn serve(directory: &Path, durability: &str) -> Outcome<()> {
    let any = || Some("127.0.0.1:0".to_owned());
    let options = Options {
        data: Some(directory.join("data")),
        durability: Some(durability.to_owned()),
        http: any(),
        postgres: any(),
        ..Options::default()
    };
    let server = Server::start(Config::new(options)?)?;
    // A client waits for the last file.
    for (protocol, file) in [("http", HTTP_PORT), ("postgres", PORT)] {
        let address = server.address(protocol).ok_or("the server is not listening")?;
        crate::process::tell_port(&directory.join(file), address.port())?;
    }
    server.wait()?;
    Ok(server.stop()?)
}

/// A tier and the name of the server's durability for it.
type Durability = (Tier, &'static str);

const T1: Durability = (Tier::T1, "os");
const T2: Durability = (Tier::T2, "interval");
const T3: Durability = (Tier::T3, "sync");

/// Starts a server, or connects to one; `connect` opens the connections that are measured.
pub(crate) fn open(start: &Start<'_>, connect: Connect) -> Outcome<Remote> {
    let durability = match start.profile {
        Profile::Fair => T3,
        Profile::Published => T1,
    };
    open_at(start, durability, connect)
}

fn open_at(start: &Start<'_>, (tier, durability): Durability, connect: Connect) -> Outcome<Remote> {
    let settings = match tier {
        Tier::T3 => Vec::new(),
        _ => vec![format!("durability = {durability}")],
    };
    let instance = match start.url {
        Some(url) => Instance::at(url),
        None => started(start.directory, durability, settings)?,
    };
    let (dialect, bulk, tables, version) =
        (&DIALECT, BulkInsert::Copy, Vec::new(), env!("CARGO_PKG_VERSION").to_owned());
    Ok(Remote { instance, version, tier, dialect, bulk, settle, connect, tables, has_hypertables: false })
}

fn started(directory: &Path, durability: &str, settings: Vec<String>) -> Outcome<Instance> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([COMMAND, "--durability", durability, "--directory"]).arg(directory);
    let (process, port) = Process::start_telling_port(&mut command, directory, PORT)?;
    let address = format!("postgres://bench@127.0.0.1:{port}/fleetdb");
    Ok(Instance::started(address, process, directory.join("data"), settings))
}

/// The HTTP port of a server that was started in a directory.
pub(crate) fn http_port(directory: &Path) -> Outcome<u16> {
    Ok(std::fs::read_to_string(directory.join(HTTP_PORT))?.parse()?)
}

/// Flushes everything and performs the merges that are due.
fn settle(wire: &mut Wire, _tables: &[&str], _is_ours: bool) -> Outcome<()> {
    wire.run("VACUUM")
}
