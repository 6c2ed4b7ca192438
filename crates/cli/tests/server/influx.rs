//! FleetDB accepts the same lines as InfluxDB 1: `influx.py` sends bodies of line protocol, most of
//! them malformed, to both and compares.
//!
//! `FLEETDB_SEED` repeats a run; `FLEETDB_BODIES` sets the number of bodies.

use crate::process::Server;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The default number of bodies.
const BODIES: u64 = 3_000;

/// An InfluxDB server started by the test.
struct Influx(Child, String);

impl Influx {
    /// Starts a server; `None` if InfluxDB is not installed.
    fn start(directory: &Path) -> Option<Self> {
        let place = |name: &str| directory.join(name).display().to_string();
        let configuration = directory.join("influxdb.conf");
        let text = format!(
            "reporting-disabled = true\nbind-address = \"127.0.0.1:0\"\n\
             [meta]\ndir = \"{}\"\nlogging-enabled = false\n\
             [data]\ndir = \"{}\"\nwal-dir = \"{}\"\nquery-log-enabled = false\nmax-values-per-tag = 0\n\
             [monitor]\nstore-enabled = false\n[http]\nbind-address = \"127.0.0.1:0\"\nlog-enabled = false\n",
            place("meta"),
            place("data"),
            place("wal")
        );
        std::fs::write(&configuration, text).unwrap();
        let mut command = Command::new("influxd");
        command.arg("-config").arg(&configuration).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut started = command.spawn().ok()?;
        // It chooses a port that is free and says which.
        let mut log = BufReader::new(started.stderr.take().unwrap()).lines().map_while(Result::ok);
        let listening = log.find(|line| line.contains("Listening on HTTP")).expect("influxd does not listen");
        let address = listening.split(' ').find_map(|word| word.strip_prefix("addr=")).unwrap().to_owned();
        std::thread::spawn(move || log.for_each(drop));
        Some(Self(started, address))
    }
}

impl Drop for Influx {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn broken_lines_are_taken_and_refused_as_influxdb_does() {
    let (data, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(influx) = Influx::start(theirs.path()) else {
        return println!("skipped: influxd is not installed (Debian: apt-get install influxdb)");
    };
    let server = Server::start(data.path(), &["--max-tables", "100000", "--durability", "os"]);
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let seed = number("FLEETDB_SEED").unwrap_or_else(rand::random::<u64>) % 1_000_000_007;
    let bodies = number("FLEETDB_BODIES").unwrap_or(BODIES);
    println!("FLEETDB_SEED={seed}");
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let mut python = Command::new("python3");
    python.arg(format!("{folder}/tests/server/influx.py")).args([server.address("http"), &influx.1]);
    let run = match python.args([seed.to_string(), bodies.to_string()]).output() {
        Ok(run) => run,
        Err(_) => return println!("skipped: python3 does not run"),
    };
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    println!("{said}");
    assert!(run.status.success() && said.contains("all is well"), "FLEETDB_SEED={seed} repeats this");
    assert!(server.terminate());
}
