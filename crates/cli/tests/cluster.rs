//! Tests of what the `fleetdb` program does with object stores. They need the feature `cluster`:
//! `cargo test --workspace --features fleetdb/cluster --test cluster`.
#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const KEY: &str = "fleet-key";
const SECRET: &str = "fleet-secret";

/// The name of the bucket in each store.
const BUCKET: &str = "fleet";

/// A store that nobody here wrote. It ends with the test.
struct Store {
    process: Child,
    endpoint: String,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Store {
    /// Starts a store with an empty bucket; `None`, with a message, if it is not installed.
    fn start(name: &str, data: &Path) -> Option<Self> {
        const LIMIT: Duration = Duration::from_secs(60);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        std::fs::create_dir_all(data.join(BUCKET)).unwrap();
        let mut command = match name {
            "moto" => {
                let mut command = Command::new("python3");
                command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
                command
            }
            "versitygw" => {
                let mut command = Command::new(name);
                command.args(["--access", KEY, "--secret", SECRET, "--port", &address, "posix"]).arg(data);
                command
            }
            _ => {
                let mut command = Command::new(name);
                command.args(["server", "--quiet", "--address", &address]).arg(data);
                command.env("MINIO_ROOT_USER", KEY).env("MINIO_ROOT_PASSWORD", SECRET);
                command
            }
        };
        let is_there = name != "moto" || {
            let found = Command::new("python3").args(["-c", "import moto.server"]).output();
            found.is_ok_and(|run| run.status.success())
        };
        let log = std::fs::File::create(data.join("log")).unwrap();
        let command = command.stdout(Stdio::null()).stderr(log);
        let Some(mut process) = is_there.then(|| command.spawn().ok()).flatten() else {
            println!("skipped: {name} is not installed; .ci/run does it");
            return None;
        };
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

    fn check(&self, url: &str, options: &[&str]) -> Output {
        let mut command = check(url, options);
        command.env("AWS_ENDPOINT_URL", &self.endpoint);
        command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        command.output().unwrap()
    }
}

/// Sends a PUT without a body, and returns the head of the answer.
fn put(address: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("PUT /{path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A short check.
fn check(url: &str, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fleetdb"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"AWS_")) {
        command.env_remove(name);
    }
    command.args(["check-bucket", url, "--rounds", "10", "--milliseconds", "0"]).args(options);
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn stores_of_others_keep_the_promises() {
    for name in ["moto", "versitygw", "minio"] {
        let data = tempfile::tempdir().unwrap();
        let Some(store) = Store::start(name, data.path()) else { continue };
        let output = store.check(&format!("s3://{BUCKET}/a/prefix"), &["--format", "json"]);
        assert!(output.status.success(), "{name}: {}", said(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let promises = report["promises"].as_array().unwrap();
        assert!(promises.len() >= 7 && promises.iter().all(|promise| promise["broken"].is_null()), "{report}");
        let slowest = report["writes"].as_array().unwrap().iter().map(|times| times["p99_ms"].as_f64().unwrap());
        assert!(slowest.fold(0.0, f64::max) > 0.0, "{report}");
        // Nothing is left.
        let again = store.check(&format!("s3://{BUCKET}"), &[]);
        assert!(said(&again).contains("an object is created only if absent"), "{name}: {}", said(&again));
        let wrong = store.check("s3://no-such-bucket/a", &[]);
        assert!(!wrong.status.success(), "{name}: {}", said(&wrong));
        let says = ["no-such-bucket", "NoSuchBucket", "Does the bucket exist"];
        assert!(says.iter().all(|text| said(&wrong).contains(text)), "{name}: {}", said(&wrong));
    }
}

#[test]
fn wrong_keys_and_addresses_are_clear_errors() {
    let data = tempfile::tempdir().unwrap();
    let Some(store) = Store::start("versitygw", data.path()) else { return };
    let mut denied = check(&format!("s3://{BUCKET}"), &[]);
    denied.env("AWS_ENDPOINT_URL", &store.endpoint);
    let output = denied.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", "wrong").output().unwrap();
    assert!(!output.status.success() && said(&output).contains("AWS_SECRET_ACCESS_KEY"), "{}", said(&output));
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut unreachable = check(&format!("s3://{BUCKET}"), &[]);
    unreachable.env("AWS_ENDPOINT_URL", format!("http://{nowhere}"));
    let output = unreachable.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET).output().unwrap();
    assert!(!output.status.success() && said(&output).contains("AWS_ENDPOINT_URL"), "{}", said(&output));
}

#[test]
fn a_directory_is_checked_in_each_format() {
    let data = tempfile::tempdir().unwrap();
    let url = format!("file://{}", data.path().display());
    let table = said(&check(&url, &[]).output().unwrap());
    assert!(table.contains("an object is replaced only if unchanged") && table.contains("| bytes"), "{table}");
    let csv = said(&check(&url, &["--format", "csv"]).output().unwrap());
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0].split(',').count()), (9, 8), "{csv}");
    for (url, says) in [("file:///no/such/directory", "Create the directory"), ("ftp://x", "s3://BUCKET/PREFIX")] {
        let output = check(url, &[]).output().unwrap();
        assert!(!output.status.success() && said(&output).contains(says), "{}", said(&output));
    }
}
