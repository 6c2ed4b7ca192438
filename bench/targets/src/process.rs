//! A database server that is started in its own directory and stopped when it is dropped.

use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::meters::disk_bytes;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Description of the settings of a server that was not started here.
pub(crate) const AT_URL: &str = "as at its URL";

/// Time limit for a server to start.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time limit for it to end when asked.
const END_LIMIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A running server.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a server. Its output goes to `log`; it is ready when `is_up` returns a value, such as
    /// its port.
    pub(crate) fn start<T>(
        command: &mut Command,
        log: &Path,
        mut is_up: impl FnMut() -> Outcome<T>,
    ) -> Outcome<(Self, T)> {
        let file = std::fs::File::create(log)?;
        // Its own process group: Ctrl-C goes only to the suite, which then stops what it started.
        let child = command.process_group(0).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn();
        let child = child.map_err(|e| format!("{}: {e}", command.get_program().display()))?;
        let mut process = Self { child, log: log.to_owned() };
        let begin = Instant::now();
        loop {
            match is_up() {
                Ok(up) => return Ok((process, up)),
                Err(error) if process.child.try_wait()?.is_some() || begin.elapsed() > START_LIMIT => {
                    let log = std::fs::read_to_string(&process.log).unwrap_or_default();
                    return Err(format!("it failed to start: {error}\n{log}").into());
                }
                Err(_) => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }

    /// Like [`start`](Self::start), for a server that tells its port in a file of a directory
    /// ([`tell_port`]).
    pub(crate) fn start_telling_port(command: &mut Command, directory: &Path, file: &str) -> Outcome<(Self, u16)> {
        let port = directory.join(file);
        if port.exists() {
            // From an earlier start.
            std::fs::remove_file(&port)?;
        }
        Self::start(command, &directory.join("log"), || Ok(std::fs::read_to_string(&port)?.parse()?))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ask first, so that it can stop its own children.
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        let begin = Instant::now();
        while asked.is_ok() && matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < END_LIMIT {
            std::thread::sleep(LOOK_AGAIN);
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A server to measure, either started here or running at a URL.
pub(crate) struct Instance {
    /// Its address in the form its client takes.
    pub(crate) address: String,
    /// Its process and data directory; `None` at a URL.
    started: Option<(Process, PathBuf)>,
    /// Description of its settings.
    pub(crate) settings: Vec<String>,
}

impl Instance {
    /// A server started here.
    pub(crate) fn started(address: String, process: Process, data: PathBuf, settings: Vec<String>) -> Self {
        Self { address, started: Some((process, data)), settings }
    }

    /// A server that is already running.
    pub(crate) fn at(url: &str) -> Self {
        Self { address: url.to_owned(), started: None, settings: vec![AT_URL.to_owned()] }
    }

    /// Whether the server was started here, for this run alone.
    pub(crate) fn is_ours(&self) -> bool {
        self.started.is_some()
    }

    /// Its size on disk; 0 at a URL.
    pub(crate) fn disk_bytes(&self) -> Outcome<u64> {
        self.started.as_ref().map_or(Ok(0), |(_, data)| disk_bytes(data))
    }

    /// Its process, if it was started here.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.started.iter().map(|(process, _)| process.id()).collect()
    }
}

/// Writes a port to a file, which is never seen in part.
pub(crate) fn tell_port(file: &Path, port: u16) -> Outcome<()> {
    let written = file.with_extension("being-written");
    std::fs::write(&written, port.to_string())?;
    Ok(std::fs::rename(written, file)?)
}

/// A port that is free now. If another program takes it first, the server fails to start.
pub(crate) fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// The first of these programs that is installed.
pub(crate) fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().find_map(|name| {
        let name = Path::new(name);
        folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file())
    })
}

/// Runs a command and returns what it prints; an error holds its messages.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    // Some programs report errors on standard error, others on standard output.
    let said = [output.stderr, output.stdout].concat();
    Err(format!("{}: {}", command.get_program().display(), String::from_utf8_lossy(&said).trim()).into())
}
