//! The PostgreSQL protocol. The crate pgwire implements the messages; this module decides what to
//! answer.
//!
//! 1. [`wire`]: TLS, and the check that messages are well-formed; [`login`]: authentication with
//!    SCRAM-SHA-256.
//! 2. [`simple`] and [`extended`]: the two ways to send statements; [`run`] runs them for both.
//!    [`copy_in`] and [`copy_out`]: the rows of COPY FROM STDIN and TO STDOUT. [`cursors`]: rows in
//!    portions.
//! 3. INSERTs of plain values between two Syncs, or in one simple query, form one batch. It is
//!    written before the client is told that the server is ready for the next query, with one fsync
//!    for all of them, shared with every other connection that waits for one.
//! 4. [`fast_path`]: the fast path for the usual runs of prepared statements, past pgwire; [`rows`]
//!    sends their rows.
//! 5. [`values`]: parameters and rows on the wire.

mod binary_rows;
mod columns;
mod commit;
mod connection;
mod copy_in;
mod copy_out;
mod cursors;
mod extended;
mod fast_path;
mod kept_plans;
mod login;
mod pending;
mod prepared_query;
mod prepared_statement;
mod query;
mod rows;
mod run;
mod simple;
mod startup;
mod values;
mod wire;
mod wire_format;

use crate::clients::Connected;
use crate::error::told;
use crate::server::Shared;
use bytes::BytesMut;
use connection::{Connection, END_LIMIT};
use futures::{FutureExt, SinkExt, StreamExt};
use pgwire::api::cancel::CancelHandler;
use pgwire::api::{ClientInfo, DefaultClient, PgWireConnectionState};
use pgwire::error::ErrorInfo;
use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::response::ErrorResponse;
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use pgwire::tokio::server::{PgWireMessageServerCodec, process_error, process_message};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_util::codec::Framed;
use wire::Checked;

/// Size at which buffered answers are sent. The buffer of a connection keeps its size.
const SENT_BYTES: usize = 32 << 10;

/// Time limit for the login.
const LOGIN_LIMIT: Duration = Duration::from_secs(60);

/// Accepts connections until the server stops, then lets running statements finish.
pub(crate) async fn serve(shared: Arc<Shared>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let mut connections = JoinSet::new();
    while let Some(stream) = shared.accept(&listener).await {
        // Forget the connections that have ended.
        while connections.try_join_next().is_some() {}
        let Some(admitted) = shared.admit("postgres") else {
            tokio::spawn(refuse(stream));
            continue;
        };
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        connections.spawn(async move {
            if let Err(error) = serve_connection(stream, tls, &shared).await {
                tracing::debug!("connection failed: {error}");
            }
            drop(admitted);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Serves a client until it is gone or the server ends the connection; then the client is told why.
async fn serve_connection(stream: TcpStream, tls: Option<TlsAcceptor>, shared: &Arc<Shared>) -> std::io::Result<()> {
    let address = stream.peer_addr()?;
    let connection = Arc::new(Connection::new(shared, address));
    let login_ends = Instant::now() + LOGIN_LIMIT;
    let mut socket = tokio::select! {
        socket = timeout_at(login_ends, open(stream, tls, address, &connection)) => socket.map_err(too_late)??,
        _ = connection.ended() => return Ok(()),
    };
    let ended = tokio::select! {
        gone = message_loop(&mut socket, &connection, login_ends) => gone.map(|()| None),
        end = connection.ended() => Ok(Some(end)),
    };
    // Cancel whatever still runs for this client.
    connection.cancel();
    let outcome = match ended {
        Ok(Some(end)) => {
            timeout(END_LIMIT, close_with_error(&mut socket, end.error())).await.map_err(too_late).flatten()
        }
        gone => gone.map(drop),
    };
    // Release the memory of prepared statements before the client sees that the connection has
    // ended.
    drop(socket.into_parts().codec);
    outcome
}

fn too_late(_: tokio::time::error::Elapsed) -> std::io::Error {
    std::io::ErrorKind::TimedOut.into()
}

/// Negotiates TLS.
async fn open(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    address: SocketAddr,
    connection: &Arc<Connection>,
) -> std::io::Result<rows::Socket> {
    let (stream, is_secure, read) = wire::negotiate(stream, tls, connection.shared.config.requires_tls).await?;
    let codec = PgWireMessageServerCodec::new(DefaultClient::new(address, is_secure));
    let mut socket = Framed::new(Checked::new(stream, read, Arc::clone(connection)), codec);
    socket.set_backpressure_boundary(SENT_BYTES);
    socket.set_state(PgWireConnectionState::AwaitingStartup);
    Ok(socket)
}

/// Handles messages until the client is gone.
async fn message_loop(
    socket: &mut rows::Socket,
    connection: &Arc<Connection>,
    login_ends: Instant,
) -> std::io::Result<()> {
    let login = Arc::new(login::Login::new(connection));
    let cancelling = Arc::new(Cancelling(Arc::clone(connection)));
    loop {
        if connection.is_to_end() {
            // Start nothing more.
            connection.set_idle();
            std::future::pending::<()>().await;
        }
        match socket.get_mut().has_message() {
            Ok(true) => {}
            Ok(false) => {
                if read_more(socket, connection, login_ends).await? == 0 {
                    return socket.flush().await;
                }
                continue;
            }
            Err(error) => return close_with_error(socket, wrong_message(&error)).await,
        }
        match fast_path::try_handle(socket, connection).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                socket.set_transaction_status(connection.failed());
                process_error(socket, told(error, None), true).await?;
                continue;
            }
        }
        let message = match socket.next().await {
            // A client that sends Terminate right after a statement may still read its answer.
            None | Some(Ok(PgWireFrontendMessage::Terminate(_))) => return socket.flush().await,
            Some(Ok(message)) => message,
            Some(Err(error)) => return close_with_error(socket, wrong_message(&error)).await,
        };
        let waits_for_sync = match socket.state() {
            PgWireConnectionState::CopyInProgress(is_extended) => is_extended,
            _ => message.is_extended_query(),
        };
        let (simple, extended, copy) = (Arc::clone(connection), Arc::clone(connection), Arc::clone(connection));
        let (login, cancelling) = (Arc::clone(&login), Arc::clone(&cancelling));
        let done = process_message(message, socket, login, simple, extended, copy, cancelling).await;
        if let Err(error) = done {
            socket.set_transaction_status(connection.failed());
            process_error(socket, told(error, None), waits_for_sync).await?;
        }
    }
}

/// Reads what has arrived, or waits for more; returns the number of bytes, 0 if the client is gone.
async fn read_more(socket: &mut rows::Socket, connection: &Connection, login_ends: Instant) -> std::io::Result<usize> {
    if let Some(come) = socket.get_mut().fill().now_or_never() {
        return come;
    }
    // Nothing more has arrived, so send the gathered answers and let the connection be closed while
    // it waits.
    socket.flush().await?;
    connection.set_idle();
    let more = socket.get_mut().fill();
    if connection.identity().is_err() {
        return timeout_at(login_ends, more).await.map_err(too_late)?;
    }
    let Some((limit, end)) = connection.idle_limit() else { return more.await };
    match timeout(limit, more).await {
        Ok(come) => come,
        Err(_) => {
            connection.end_for(end);
            std::future::pending().await
        }
    }
}

/// The error for a malformed or too large message, after which no further message can be read.
fn wrong_message(error: &(dyn std::error::Error + 'static)) -> ErrorInfo {
    let io = error.downcast_ref::<std::io::Error>();
    let is_too_large = io.is_some_and(|error| error.kind() == std::io::ErrorKind::OutOfMemory);
    let code = if is_too_large { "53200" } else { "08P01" };
    ErrorInfo::new("FATAL".to_owned(), code.to_owned(), error.to_string())
}

/// Tells the client why nothing more will be answered.
async fn close_with_error(socket: &mut rows::Socket, why: ErrorInfo) -> std::io::Result<()> {
    socket.send(PgWireBackendMessage::ErrorResponse(why.into())).await
}

/// Answers that there are too many connections, without reading anything.
async fn refuse(mut stream: TcpStream) {
    let error = ErrorInfo::new(
        "FATAL".to_owned(),
        "53300".to_owned(),
        "sorry, too many clients already (option max_connections)".to_owned(),
    );
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
        self.0.shared.clients.cancel_by(request.pid, &request.secret_key.to_bytes());
    }
}
