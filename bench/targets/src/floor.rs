//! Floors: what the [lean client](crate::lean) and a server that stores nothing cost on a machine.
//!
//! `floor-bytes` only answers with as many bytes as FleetDB's server would. `floor-log` first writes
//! the request's bytes to disk, with one fdatasync for all requests that wait. With this client, no
//! server with one round trip per operation can be faster than the first, and no durable server
//! with a single log faster than the second. Both answer writes only.

use crate::fleetdb::DIALECT;
use crate::lean::{Form, Messages};
use crate::process::{Process, tell_port};
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::table::Table;
use fleetdb_bench_core::target::{Connection, Entry, Info, Start, Target, Tier};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The entry of the server that only answers.
pub const BYTES: Entry = Entry {
    name: "floor-bytes",
    about: "no database: the bytes of writes and their answers alone",
    missing: Some(crate::nothing),
    url: None,
    start: |start| open(start, false),
};

/// The entry of the server that logs.
pub const LOG: Entry = Entry {
    name: "floor-log",
    about: "no database: the bytes of writes in a log that is synced, and their answers",
    missing: Some(crate::nothing),
    url: None,
    start: |start| open(start, true),
};

/// The command of this program that runs [`serve`]; `--directory` and perhaps `--log` follow.
pub const COMMAND: &str = "serve-floor";

const PORT: &str = "port";
const LOG_FILE: &str = "synced-log";
/// Size of the log. It is overwritten from the start again and again, so syncs do not write a new
/// file length.
const LOG_BYTES: usize = 16 << 20;
/// The lengths of a request and of its answer, each in four bytes, precede the request.
const HEAD_BYTES: usize = 8;
/// Bytes of the answer to a run of an INSERT (BindComplete, CommandComplete), and to a Sync.
const RUN_BYTES: usize = 21;
const SYNC_BYTES: usize = 6;
const NO_ROWS: &str = "a floor stores nothing";

struct Floor {
    process: Process,
    port: u16,
    log: Option<PathBuf>,
}

fn open(start: &Start<'_>, has_log: bool) -> Outcome<Box<dyn Target>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([COMMAND, "--directory"]).arg(start.directory).args(has_log.then_some("--log"));
    let (process, port) = Process::start_telling_port(&mut command, start.directory, PORT)?;
    Ok(Box::new(Floor { process, port, log: has_log.then(|| start.directory.join(LOG_FILE)) }))
}

impl Target for Floor {
    fn info(&self) -> Info {
        let tier = if self.log.is_some() { Tier::T3 } else { Tier::T0 };
        Info { version: env!("CARGO_PKG_VERSION").to_owned(), tier, settings: vec!["no database".to_owned()] }
    }

    fn create(&mut self, _tables: &[Table]) -> Outcome<()> {
        Ok(())
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        Ok(Box::new(Client {
            stream,
            messages: Messages::new(&DIALECT, Form::Whole),
            request: Vec::new(),
            answer: Vec::new(),
        }))
    }

    fn settle(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        self.log.as_ref().map_or(Ok(0), |log| Ok(std::fs::metadata(log)?.len()))
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.process.id()]
    }

    fn unsupported(&self, _query: &Query) -> Option<&'static str> {
        Some(NO_ROWS)
    }

    fn is_floor(&self) -> bool {
        true
    }
}

struct Client {
    stream: TcpStream,
    messages: Messages,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection for Client {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        let runs = self.messages.write(writes)?;
        let answer = runs * RUN_BYTES + SYNC_BYTES;
        self.request.clear();
        for bytes in [self.messages.out.len(), answer] {
            self.request.extend_from_slice(&u32::try_from(bytes)?.to_be_bytes());
        }
        self.request.extend_from_slice(&self.messages.out);
        self.messages.out.clear();
        self.stream.write_all(&self.request)?;
        self.answer.resize(answer, 0);
        Ok(self.stream.read_exact(&mut self.answer)?)
    }

    fn query(&mut self, _query: &Query) -> Outcome<RecordBatch> {
        Err(NO_ROWS.into())
    }
}

/// Answers until it is killed; [`COMMAND`] runs this in its own process.
///
/// # Errors
/// The port or the log cannot be opened.
pub fn serve(directory: &Path, has_log: bool) -> Outcome<()> {
    let log = if has_log { Some(Log::start(&directory.join(LOG_FILE))?) } else { None };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        tell_port(&directory.join(PORT), listener.local_addr()?.port())?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(answer(stream, log.clone()));
        }
    })
}

async fn answer(mut stream: tokio::net::TcpStream, log: Option<Arc<Log>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    loop {
        let mut head = [0; HEAD_BYTES];
        stream.read_exact(&mut head).await?;
        let [a, b, c, d, e, f, g, h] = head;
        request.resize(u32::from_be_bytes([a, b, c, d]) as usize, 0);
        answer.resize(u32::from_be_bytes([e, f, g, h]) as usize, 0);
        stream.read_exact(&mut request).await?;
        if let Some(log) = &log {
            log.write(&request).await;
        }
        stream.write_all(&answer).await?;
    }
}

/// Bytes that wait to be written, and the requests that wait for them.
#[derive(Default)]
struct Log {
    pending: Mutex<(Vec<u8>, Vec<oneshot::Sender<()>>)>,
    wake: Condvar,
}

impl Log {
    fn start(path: &Path) -> Outcome<Arc<Self>> {
        let file = File::create(path)?;
        file.write_all_at(&vec![0; LOG_BYTES], 0)?;
        file.sync_all()?;
        let log = Arc::new(Self::default());
        let of_thread = Arc::clone(&log);
        std::thread::spawn(move || {
            // The floor needs its log: on an error the process ends, and the client reports broken
            // connections.
            if let Err(error) = of_thread.run(&file) {
                eprintln!("the floor's log: {error}");
                std::process::exit(1);
            }
        });
        Ok(log)
    }

    /// Returns when the bytes are on disk; if they cannot be written, the process ends.
    async fn write(&self, bytes: &[u8]) {
        let (done, written) = oneshot::channel();
        {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.0.extend_from_slice(bytes);
            pending.1.push(done);
        }
        self.wake.notify_one();
        written.await.ok();
    }

    fn run(&self, file: &File) -> std::io::Result<()> {
        let mut at = 0;
        loop {
            let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            let pending = self.wake.wait_while(pending, |pending| pending.1.is_empty());
            let (bytes, waiters) = std::mem::take(&mut *pending.unwrap_or_else(PoisonError::into_inner));
            if at + bytes.len() > LOG_BYTES {
                at = 0;
            }
            file.write_all_at(&bytes, at as u64)?;
            file.sync_data()?;
            at += bytes.len();
            for done in waiters {
                done.send(()).ok();
            }
        }
    }
}
