//! A server on free loopback ports that ends with the test.

use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

pub struct Server {
    pub process: Child,
    addresses: HashMap<String, String>,
    /// Returns the log output that is not an event, such as a panic.
    log: Option<JoinHandle<String>>,
    /// The warnings in the log.
    pub warnings: Arc<Mutex<Vec<String>>>,
}

pub fn fleetdb() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fleetdb"))
}

impl Server {
    /// Starts a server with all protocols enabled, and waits until it listens.
    pub fn start(data: &Path, options: &[&str]) -> Self {
        let mut command = fleetdb();
        command.args(["serve", "--log-format", "json", "--data", data.to_str().unwrap()]);
        for listener in ["--http", "--postgres", "--line-tcp", "--line-udp"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        let mut process = command.args(options).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut addresses = HashMap::new();
        let mut line = String::new();
        while addresses.len() < 4 {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "the server ended before it listened");
            let Ok(event) = serde_json::from_str::<Value>(&line) else { panic!("the server said: {line}") };
            let fields = &event["fields"];
            if let Some(name) = fields["message"].as_str().and_then(|text| text.strip_prefix("listening for ")) {
                addresses.insert(name.to_owned(), fields["address"].as_str().unwrap().to_owned());
            }
        }
        // Read the rest of the log, or the server would block on a full pipe.
        let warnings = Arc::<Mutex<Vec<String>>>::default();
        let warned = Arc::clone(&warnings);
        let rest = log.lines().map_while(Result::ok).filter(move |line| {
            if line.contains("\"level\":\"WARN\"") {
                warned.lock().unwrap().push(line.clone());
            }
            !line.starts_with('{')
        });
        let log = Some(std::thread::spawn(move || rest.collect::<Vec<_>>().join("\n")));
        Self { process, addresses, log, warnings }
    }

    /// No input may make the server panic.
    fn check_log(&mut self) {
        let said = self.log.take().map_or_else(String::new, |log| log.join().unwrap());
        assert!(said.is_empty(), "the server said: {said}");
    }

    pub fn address(&self, name: &str) -> &str {
        &self.addresses[name]
    }

    pub fn port(&self, name: &str) -> &str {
        self.address(name).rsplit(':').next().unwrap()
    }

    /// Stops the server as a service manager does; returns whether it ended cleanly.
    pub fn terminate(mut self) -> bool {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let ended_well = self.process.wait().unwrap().success();
        self.check_log();
        ended_well
    }

    /// Kills the server. Like a power cut, except that data written to the operating system
    /// survives.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.check_log();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        if !std::thread::panicking() {
            self.check_log();
        }
    }
}

/// The count that a query returns, from data at rest or recovered from a killed server's log.
pub fn count(data: &Path, sql: &str) -> i64 {
    let output = fleetdb().args(["sql", "--data", data.to_str().unwrap(), "--format", "json", "-c", sql]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    row["n"].as_i64().unwrap()
}
