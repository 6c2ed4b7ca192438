//! The floor of E1's ingest: a server that gives as many bytes back as the answers have, and does nothing in between. No
//! server of one round trip an operation is faster with this client on these cores.

use super::Child;
use super::ingest::Report;
use fleetdb_bench_core::Outcome;
use std::io::Read;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Bytes of an operation's four statements, as the client sends them, and of their answers.
const REQUEST_BYTES: usize = 454;
const ANSWER_BYTES: usize = 99;

/// The child: gives answers until its standard input ends.
pub(super) fn serve() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    println!("{}", listener.local_addr()?);
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut request, answer) = ([0; REQUEST_BYTES], [0; ANSWER_BYTES]);
    loop {
        stream.read_exact(&mut request).await?;
        stream.write_all(&answer).await?;
    }
}

/// That server.
pub(super) struct Echo {
    pub(super) child: Child,
    address: SocketAddr,
}

impl Echo {
    pub(super) fn start() -> Outcome<Self> {
        let (child, [address]) = Child::start(|command| command.arg("--echo"))?;
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
