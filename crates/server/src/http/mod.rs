//! HTTP: line protocol as InfluxDB's clients write it ([`write`]), SQL ([`sql`]), rows in Arrow's format
//! ([`rows`]), and endpoints for operators ([`operations`]).
//!
//! A request passes these steps: its connection is admitted (or answered with 503), requests from
//! foreign web pages are refused ([`origin`]), the sender is identified, the role that the route
//! requires is checked, and the body is read up to `max_body_bytes`.

mod body;
mod client;
mod durability;
mod identity;
mod operations;
mod origin;
mod rows;
mod sql;
mod write;

use crate::error::{RETRY_AFTER_S, influx_code, status_of};
use crate::metrics::Outcome;
use crate::server::{Connection, Shared};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Time limit for the TLS handshake, and for the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/ping", get(operations::ping).head(operations::ping))
        .route("/health", get(operations::health))
        .route("/metrics", get(operations::metrics))
        .route("/write", post(write::v1))
        .route("/api/v2/write", post(write::v2))
        .route("/query", get(operations::influxql).post(operations::influxql))
        .route("/api/v1/sql", get(sql::from_query).post(sql::from_body))
        .route("/api/v1/insert", post(rows::insert))
        .route("/api/v1/backup", post(operations::backup))
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), refuse_foreign))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), count))
        .with_state(shared)
}

async fn not_found(request: Request) -> HttpError {
    HttpError::new(StatusCode::NOT_FOUND, format!("no such endpoint: {}", request.uri().path()))
}

async fn refuse_foreign(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    match origin::check(&shared, request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

async fn count(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let response = next.run(request).await;
    let status = response.status();
    let outcome = if status.is_success() {
        "done"
    } else if status.is_client_error() {
        "refused"
    } else {
        "failed"
    };
    shared.metrics.requests.get_or_create(&Outcome { protocol: "http", outcome }).inc();
    tracing::debug!(path, status = status.as_u16(), "request");
    response
}

/// An error response in the form that InfluxDB's clients read.
pub(crate) struct HttpError {
    status: StatusCode,
    message: String,
    /// What an answer about a statement contains in addition.
    statement: Option<OfStatement>,
}

/// The details of a failed statement.
struct OfStatement {
    sqlstate: &'static str,
    /// The position in its text, in characters from 1.
    position: Option<usize>,
    hint: Option<String>,
}

impl HttpError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), statement: None }
    }

    /// The error of the statement with this text.
    pub(crate) fn of_statement(error: &fleetdb_engine::Error, text: &str) -> Self {
        let statement = OfStatement {
            sqlstate: error.code().sqlstate(),
            position: error.position().and_then(|place| place.in_text(text)),
            hint: error.hint().map(str::to_owned),
        };
        Self { status: status_of(error), message: error.to_string(), statement: Some(statement) }
    }
}

impl From<fleetdb_engine::Error> for HttpError {
    fn from(error: fleetdb_engine::Error) -> Self {
        Self::new(status_of(&error), error.to_string())
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let Self { status, message, statement } = self;
        // Clients of InfluxDB 1 read `error`; those of InfluxDB 2 read `code` and `message`.
        let code = statement.as_ref().map_or(influx_code(status), |statement| statement.sqlstate);
        let mut body = serde_json::json!({ "error": message, "code": code, "message": message });
        if let Some(OfStatement { position, hint, .. }) = statement {
            if let Some(position) = position {
                body["position"] = position.into();
            }
            if let Some(hint) = hint {
                body["hint"] = hint.into();
            }
        }
        let mut response = refusal(status, &message, body);
        let headers = response.headers_mut();
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"FleetDB\""));
        }
        response
    }
}

/// An error response that repeats the message in a header, which InfluxDB's clients also read.
fn refusal(status: StatusCode, message: &str, body: serde_json::Value) -> Response {
    let mut response = (status, axum::Json(body)).into_response();
    if let Ok(message) = HeaderValue::from_str(&message.replace(|c: char| c.is_ascii_control(), " ")) {
        response.headers_mut().insert("x-influxdb-error", message);
    }
    response
}

/// Accepts connections until the server stops, then lets running requests finish.
pub(crate) async fn serve(shared: Arc<Shared>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let router = router(Arc::clone(&shared));
    let graceful = GracefulShutdown::new();
    while let Some(stream) = shared.accept(&listener).await {
        let Some(connection) = shared.admit("http") else {
            tokio::spawn(refuse(stream));
            continue;
        };
        let (router, tls, watcher) = (router.clone(), tls.clone(), graceful.watcher());
        tokio::spawn(serve_connection(stream, tls, router, watcher, connection));
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn serve_connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
    _connection: Connection,
) {
    let Ok(peer) = stream.peer_addr().map(client::Peer) else { return };
    let mut http = hyper::server::conn::http1::Builder::new();
    // A client that closes its side is gone, as for nginx and Go's net/http, and its request is
    // cancelled.
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.call(request)
    });
    let ended = match tls {
        None => watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await,
        Some(tls) => match tokio::time::timeout(HEAD_LIMIT, tls.accept(stream)).await {
            Ok(Ok(stream)) => watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await,
            Ok(Err(error)) => return tracing::debug!("TLS handshake failed: {error}"),
            Err(_) => return tracing::debug!("TLS handshake timed out after {HEAD_LIMIT:?}"),
        },
    };
    if let Err(error) = ended {
        tracing::debug!("connection failed: {error}");
    }
}

/// Answers that there are too many connections, without reading the request.
async fn refuse(mut stream: TcpStream) {
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: {RETRY_AFTER_S}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await.ok();
    stream.shutdown().await.ok();
}
