//! Lower bounds for E1's ingest: a server that only sends back as many bytes as the answers have,
//! and one that first writes the request's bytes to disk, with one fdatasync for all requests that
//! wait. With this client on these cores, no server with one round trip per operation can be faster
//! than the first, and no durable server with a single log faster than the second.

use super::Child;
use super::ingest::Report;
use fleetdb_bench_core::Outcome;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Size of an operation's four statements, as the client sends them, and of their answers.
const REQUEST_BYTES: usize = 439;
const ANSWER_BYTES: usize = 81;

/// Size of the log. It is overwritten from the start again and again, so syncs do not write a new
/// file length.
const LOG_BYTES: usize = 16 << 20;

/// The child process: answers until its standard input ends.
pub(super) fn serve(log: Option<&Path>) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let log = log.map(Log::start).transpose()?;
    println!("{}", listener.local_addr()?);
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, log.clone()));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

async fn answer(mut stream: TcpStream, log: Option<Arc<Log>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut request, answer) = ([0; REQUEST_BYTES], [0; ANSWER_BYTES]);
    loop {
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
    fn start(directory: &Path) -> Outcome<Arc<Self>> {
        std::fs::create_dir_all(directory)?;
        let file = File::create(directory.join("log"))?;
        file.write_all_at(&vec![0; LOG_BYTES], 0)?;
        file.sync_all()?;
        let log = Arc::new(Self::default());
        let of_thread = Arc::clone(&log);
        std::thread::spawn(move || {
            // The lower bound needs its log: on an error the process ends and the client reports
            // broken connections.
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

/// An echo server.
pub(super) struct Echo {
    pub(super) child: Child,
    address: SocketAddr,
}

impl Echo {
    /// Starts a server, with a log in this directory if one is given.
    pub(super) fn start(log: Option<&Path>) -> Outcome<Self> {
        let (child, [address]) = Child::start(|command| match log {
            None => command.arg("--echo"),
            Some(log) => command.args(["--echo", "--log", "--directory"]).arg(log),
        })?;
        Ok(Self { child, address })
    }

    pub(super) async fn connect(&self) -> Outcome<TcpStream> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Report for TcpStream {
    async fn report(&mut self, _id: i64, _time_us: i64, _usage: f64) -> Outcome<()> {
        self.write_all(&[0; REQUEST_BYTES]).await?;
        self.read_exact(&mut [0; ANSWER_BYTES]).await?;
        Ok(())
    }
}
