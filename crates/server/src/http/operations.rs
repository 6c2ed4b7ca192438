//! Endpoints for operators and agents: ping, health, metrics, backup, and the InfluxQL statements
//! that agents send before they write.

use super::client::Peer;
use super::identity::{self, Login};
use super::{HttpError, body};
use crate::access::{AccessFile, Role};
use crate::server::Shared;
use axum::body::Body;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fleetdb_engine::Reading;
use fleetdb_engine::io::Io;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;

/// The name of the only database, for clients that require one.
const DATABASE: &str = "fleetdb";

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Answers that the server is there. Clients of InfluxDB 1 look for a version that they know.
pub(super) async fn ping() -> Response {
    let headers =
        [("x-influxdb-version", "1.8-compatible"), ("x-influxdb-build", "FleetDB"), ("x-fleetdb-version", VERSION)];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Whether the server takes writes, in the form of InfluxDB 2.
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let status = shared.store.status();
    let writes = || "ready for queries and writes".to_owned();
    let reads = |reading: Reading| format!("ready for queries of what was written until {} s ago", reading.age_seconds);
    let error = status.flush_error.or(status.compaction_error);
    let (code, word, message) = match &error {
        None => (StatusCode::OK, "pass", status.reading.map_or_else(writes, reads)),
        Some(error) => (StatusCode::SERVICE_UNAVAILABLE, "fail", error.to_string()),
    };
    (code, axum::Json(serde_json::json!({ "name": "fleetdb", "status": word, "message": message, "version": VERSION })))
        .into_response()
}

/// Metrics for Prometheus.
pub(super) async fn metrics(
    State(shared): State<Arc<Shared>>,
    Query(login): Query<Login>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    identity::require(&shared, &headers, &login, peer, Role::Read).await?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], shared.metrics.text()).into_response())
}

/// An InfluxQL statement.
#[derive(Default, Deserialize)]
pub(super) struct InfluxQl {
    q: Option<String>,
    db: Option<String>,
}

/// The database names to report: the server's own, and the one the client uses.
fn names(of_client: Option<&str>) -> Vec<[&str; 1]> {
    let of_client = of_client.filter(|name| !name.is_empty() && *name != DATABASE);
    std::iter::once(DATABASE).chain(of_client).map(|name| [name]).collect()
}

/// Answers the statements that agents send before they write (`CREATE DATABASE`). Queries must be
/// SQL.
pub(super) async fn influxql(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<InfluxQl>,
    Query(login): Query<Login>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, HttpError> {
    identity::require(&shared, &headers, &login, peer, Role::Read).await?;
    // Clients send the statement in the URL or as a form, which has the same encoding.
    let form = body::read(&shared, &headers, body).await?;
    let form = format!("/?{}", String::from_utf8_lossy(form.as_ref())).parse().ok();
    let in_form = form.and_then(|form| Query::<InfluxQl>::try_from_uri(&form).ok());
    let in_form = in_form.map(|Query(form)| form).unwrap_or_default();
    let asked = InfluxQl { q: asked.q.or(in_form.q), db: asked.db.or(in_form.db) };
    let statement = asked.q.unwrap_or_default();
    let text = statement.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    let words: Vec<String> = text.split_whitespace().take(2).map(str::to_ascii_uppercase).collect();
    let result = match words.join(" ").as_str() {
        "CREATE DATABASE" => serde_json::json!({ "statement_id": 0 }),
        "DROP DATABASE" => {
            return Err(HttpError::new(
                StatusCode::BAD_REQUEST,
                "DROP DATABASE is not supported: a server has a single database; to drop a measurement use DROP TABLE \
                 in SQL",
            ));
        }
        // The only database answers to every name; clients look for the one they use.
        "SHOW DATABASES" => serde_json::json!({
            "statement_id": 0,
            "series": [{ "name": "databases", "columns": ["name"], "values": names(asked.db.as_deref()) }],
        }),
        _ => {
            return Err(HttpError::new(
                StatusCode::BAD_REQUEST,
                "InfluxQL is not supported: send SQL to /api/v1/sql, or use the PostgreSQL protocol",
            ));
        }
    };
    Ok(axum::Json(serde_json::json!({ "results": [result] })).into_response())
}

/// Where to write a backup.
#[derive(Deserialize)]
pub(super) struct Destination {
    to: String,
}

/// Backs up to a directory on the server, while the server keeps running.
pub(super) async fn backup(
    State(shared): State<Arc<Shared>>,
    Query(Destination { to }): Query<Destination>,
    Query(login): Query<Login>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    identity::require(&shared, &headers, &login, peer, Role::Admin).await?;
    let files = &shared.config.files;
    files.check(Path::new(&to)).map_err(|e| HttpError::new(StatusCode::BAD_REQUEST, e.to_string()))?;
    let all = Arc::clone(&shared);
    let backup = move || {
        let report = all.store.writer()?.backup(&Io::files(&to), |_, _| ())?;
        AccessFile::copy(&all.config.users, Path::new(&to))?;
        Ok::<_, fleetdb_engine::Error>(report)
    };
    let report = shared.work.run(backup).await??;
    Ok(axum::Json(serde_json::json!({
        "segments": report.segments,
        "bytes": report.bytes,
        "copied_bytes": report.copied_bytes,
        "linked_bytes": report.linked_bytes,
        "kept_bytes": report.kept_bytes,
    }))
    .into_response())
}
