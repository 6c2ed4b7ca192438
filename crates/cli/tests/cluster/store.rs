//! Object stores that nobody here wrote.

use super::host::Host;
use super::{LIMIT, check, free_port, put};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const KEY: &str = "fleet-key";
pub const SECRET: &str = "fleet-secret";

/// The name of the bucket in each store.
pub const BUCKET: &str = "fleet";

/// A store that nobody here wrote. It ends with the test.
pub struct Store {
    process: Child,
    pub endpoint: String,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Store {
    /// Starts a store with an empty bucket; `None`, with a message, if it is not installed.
    pub fn start(name: &str, data: &Path) -> Option<Self> {
        Self::start_at(free_port(), name, data)
    }

    /// Starts a store on a port, with what its directory holds.
    pub fn start_at(port: u16, name: &str, data: &Path) -> Option<Self> {
        Self::start_on(&Host::here(), port, name, data)
    }

    /// Starts a store on a port of a host, with what its directory holds.
    pub fn start_on(host: &Host, port: u16, name: &str, data: &Path) -> Option<Self> {
        let address = format!("{}:{port}", host.address);
        std::fs::create_dir_all(data.join(BUCKET)).unwrap();
        let mut command = match name {
            "moto" => {
                let mut command = host.command("python3");
                command.args(["-m", "moto.server", "-H", &host.address, "-p", &port.to_string()]);
                command
            }
            "versitygw" => {
                let mut command = host.command(name);
                command.args(["--access", KEY, "--secret", SECRET, "--port", &address, "posix"]).arg(data);
                command
            }
            _ => {
                let mut command = host.command(name);
                command.args(["server", "--quiet", "--address", &address]).arg(data);
                command.env("MINIO_ROOT_USER", KEY).env("MINIO_ROOT_PASSWORD", SECRET);
                command
            }
        };
        let found = match name {
            "moto" => Command::new("python3").args(["-c", "import moto.server"]).output(),
            _ => Command::new(name).arg("--version").output(),
        };
        if !found.is_ok_and(|run| run.status.success()) {
            println!("skipped: {name} is not installed; .ci/run does it");
            return None;
        }
        let log = std::fs::File::create(data.join("log")).unwrap();
        let mut process = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(&address).is_err() {
            let log = || std::fs::read_to_string(data.join("log")).unwrap();
            assert!(process.try_wait().unwrap().is_none() && begun.elapsed() < LIMIT, "{name}: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        let endpoint = format!("http://{address}");
        if name == "moto" {
            let made = put(&address, BUCKET);
            assert!(made.contains("200 OK"), "{made}");
        }
        Some(Self { process, endpoint })
    }

    pub fn check(&self, url: &str, options: &[&str]) -> Output {
        self.run(check(url, options))
    }

    /// Runs the program with the keys of the store.
    pub fn run(&self, mut command: Command) -> Output {
        command.env("AWS_ENDPOINT_URL", &self.endpoint);
        command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        command.output().unwrap()
    }
}
