//! The PostgreSQL protocol: the crate pgwire speaks it, what is here decides what is answered.
//!
//! 1. [`wire`]: TLS, and messages that are not well-formed; [`login`]: who it is, by SCRAM-SHA-256.
//! 2. [`simple`] and [`extended`]: the two ways to send statements; [`run`] runs them for both. [`copy_in`] and
//!    [`copy_out`]: rows of COPY FROM STDIN and TO STDOUT. [`cursors`]: rows part by part.
//! 3. Statements between two Syncs, or in one simple query, that are INSERTs of plain values are one batch, which is
//!    written before the client is told that the server is ready for the next: one fsync for all of them, shared
//!    with every other connection that waits for one.
//! 4. [`direct`]: runs of prepared statements, as most come, past pgwire.
//! 5. [`values`]: parameters and rows on the wire.

mod connection;
mod copy_in;
mod copy_out;
mod cursors;
mod direct;
mod extended;
mod login;
mod run;
mod simple;
mod startup;
mod texts;
mod values;
mod wire;

use crate::server::Shared;
use bytes::BytesMut;
use connection::Connection;
use futures::{FutureExt, SinkExt, StreamExt};
use parking_lot::Mutex;
use pgwire::api::cancel::CancelHandler;
use pgwire::api::{
    ClientInfo, DefaultClient, PgWireConnectionState, PidSecretKeyGenerator, RandomPidSecretKeyGenerator,
};
use pgwire::error::ErrorInfo;
use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::response::ErrorResponse;
use pgwire::messages::startup::SecretKey;
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use pgwire::tokio::server::{PgWireMessageServerCodec, process_error, process_message};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_util::codec::Framed;
use wire::Checked;

/// Bytes of answers that are sent together; a connection's buffer of them keeps its size.
const SENT_BYTES: usize = 32 << 10;

/// How long a client may take until it has logged in.
const LOGIN_LIMIT: Duration = Duration::from_secs(60);

/// What a client must know to cancel a statement: the connection's number, and its secret.
type CancelKey = (i32, Vec<u8>);

/// Connections by number, with their secrets.
type Known = HashMap<i32, (Vec<u8>, Weak<Connection>)>;

/// Finds the connection that a client means.
#[derive(Default)]
pub(crate) struct Cancels {
    numbers: RandomPidSecretKeyGenerator,
    connections: Mutex<Known>,
}

impl Cancels {
    fn note(&self, (number, secret): CancelKey, connection: &Arc<Connection>) {
        self.connections.lock().insert(number, (secret, Arc::downgrade(connection)));
    }

    fn forget(&self, number: i32) {
        self.connections.lock().remove(&number);
    }

    /// The connection; the time it takes says nothing about the secret.
    fn find(&self, (number, secret): &CancelKey) -> Option<Arc<Connection>> {
        let connections = self.connections.lock();
        let (known, connection) = connections.get(number)?;
        bool::from(known.as_slice().ct_eq(secret)).then(|| connection.upgrade())?
    }
}

impl PidSecretKeyGenerator for Cancels {
    fn generate(&self, client: &dyn ClientInfo) -> (i32, SecretKey) {
        self.numbers.generate(client)
    }
}

/// Takes connections until the server stops, then lets running statements end.
pub(crate) async fn serve(shared: Arc<Shared>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let cancels = Arc::new(Cancels::default());
    let mut connections = JoinSet::new();
    while let Some(stream) = shared.accept(&listener).await {
        // Those that have ended.
        while connections.try_join_next().is_some() {}
        let Some(admitted) = shared.admit("postgres") else {
            tokio::spawn(refuse(stream));
            continue;
        };
        let (connection, tls) = (Arc::new(Connection::new(&shared, &cancels)), tls.clone());
        connections.spawn(async move {
            speak(stream, tls, connection).await;
            drop(admitted);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn speak(stream: TcpStream, tls: Option<TlsAcceptor>, connection: Arc<Connection>) {
    let ended = tokio::select! {
        ended = converse(stream, tls, &connection) => ended,
        () = connection.may_be_closed() => Ok(()),
    };
    if let Err(error) = ended {
        tracing::debug!("a connection broke off: {error}");
    }
    connection.close();
}

fn too_late(_: tokio::time::error::Elapsed) -> std::io::Error {
    std::io::ErrorKind::TimedOut.into()
}

/// Takes messages until the client has gone.
async fn converse(stream: TcpStream, tls: Option<TlsAcceptor>, connection: &Arc<Connection>) -> std::io::Result<()> {
    let address = stream.peer_addr()?;
    let login_ends = Instant::now() + LOGIN_LIMIT;
    let (stream, is_secure, read) = timeout_at(login_ends, wire::negotiate(stream, tls)).await.map_err(too_late)??;
    let codec = PgWireMessageServerCodec::new(DefaultClient::new(address, is_secure));
    let mut socket = Framed::new(Checked::new(stream, read, Arc::clone(connection)), codec);
    socket.set_backpressure_boundary(SENT_BYTES);
    socket.set_state(PgWireConnectionState::AwaitingStartup);
    let login = Arc::new(login::Login::new(connection));
    let cancelling = Arc::new(Cancelling(Arc::clone(connection)));
    loop {
        match socket.get_mut().has_message() {
            Ok(true) => {}
            Ok(false) => {
                if read_more(&mut socket, connection, login_ends).await? == 0 {
                    return socket.flush().await;
                }
                continue;
            }
            Err(error) => return give_up(&mut socket, &error).await,
        }
        match direct::take(&mut socket, connection).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                connection.failed();
                process_error(&mut socket, error, true).await?;
                continue;
            }
        }
        let message = match socket.next().await {
            // Who says goodbye behind a statement may still read its answer.
            None | Some(Ok(PgWireFrontendMessage::Terminate(_))) => return socket.flush().await,
            Some(Ok(message)) => message,
            Some(Err(error)) => return give_up(&mut socket, &error).await,
        };
        let waits_for_sync = match socket.state() {
            PgWireConnectionState::CopyInProgress(is_extended) => is_extended,
            _ => message.is_extended_query(),
        };
        let (simple, extended, copy) = (Arc::clone(connection), Arc::clone(connection), Arc::clone(connection));
        let (login, cancelling) = (Arc::clone(&login), Arc::clone(&cancelling));
        let done = process_message(message, &mut socket, login, simple, extended, copy, cancelling).await;
        if let Err(error) = done {
            connection.failed();
            process_error(&mut socket, error, waits_for_sync).await?;
        }
    }
}

/// Reads what has come, or waits for it; gives how many bytes there are, 0 if the client has gone.
async fn read_more(
    socket: &mut direct::Socket,
    connection: &Connection,
    login_ends: Instant,
) -> std::io::Result<usize> {
    if let Some(come) = socket.get_mut().fill().now_or_never() {
        return come;
    }
    // Nothing more has come: answers are sent together, and the connection may be closed.
    socket.flush().await?;
    connection.set_busy(false);
    match connection.identity() {
        Ok(_) => socket.get_mut().fill().await,
        Err(_) => timeout_at(login_ends, socket.get_mut().fill()).await.map_err(too_late)?,
    }
}

/// Says that a message is not understood, after which no other can be.
async fn give_up(socket: &mut direct::Socket, error: &(dyn std::error::Error + Send + Sync)) -> std::io::Result<()> {
    let fatal = ErrorInfo::new("FATAL".to_owned(), "08P01".to_owned(), error.to_string());
    socket.send(PgWireBackendMessage::ErrorResponse(fatal.into())).await
}

/// Says that there are too many connections, without reading.
async fn refuse(mut stream: TcpStream) {
    let error =
        ErrorInfo::new("FATAL".to_owned(), "53300".to_owned(), "too many connections (max_connections)".to_owned());
    let mut bytes = BytesMut::new();
    if PgWireBackendMessage::ErrorResponse(ErrorResponse::from(error)).encode(&mut bytes).is_ok() {
        stream.write_all(&bytes).await.ok();
    }
    stream.shutdown().await.ok();
}

struct Cancelling(Arc<Connection>);

#[async_trait::async_trait]
impl CancelHandler for Cancelling {
    async fn on_cancel_request(&self, request: CancelRequest) {
        let key = (request.pid, request.secret_key.to_bytes().to_vec());
        if let Some(connection) = self.0.cancels().find(&key) {
            connection.cancel();
        }
    }
}
