//! `/write` (InfluxDB 1) and `/api/v2/write` (InfluxDB 2).
//!
//! Invalid lines are left out and reported. The others are written as one batch and acknowledged at
//! the durability level that the header `X-FleetDB-Durability` asks for, or else at the server's. The
//! answer has the same header. As in InfluxDB, lines may have been kept even if the status is not
//! 2xx; the error text says how many. A node of a cluster that stands by sends clients to the owner.

use super::client::Peer;
use super::identity::{self, Login};
use super::{HttpError, body, durability};
use crate::access::Role;
use crate::lines::{self, WriteResult};
use crate::owner::OwnerUrl;
use crate::server::Shared;
use axum::body::Body;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use fleetdb_engine::{Error, Precision};
use serde::Deserialize;
use std::sync::Arc;

/// URL parameters other than the login. Any database, bucket and organisation is accepted, since a
/// server has one database.
#[derive(Deserialize)]
pub(super) struct Target {
    precision: Option<String>,
}

pub(super) async fn v1(
    State(shared): State<Arc<Shared>>,
    Query(target): Query<Target>,
    Query(login): Query<Login>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, HttpError> {
    write(shared, target, (login, peer), (uri, headers), body).await
}

pub(super) async fn v2(
    State(shared): State<Arc<Shared>>,
    Query(target): Query<Target>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, HttpError> {
    write(shared, target, (Login::default(), peer), (uri, headers), body).await
}

async fn write(
    shared: Arc<Shared>,
    target: Target,
    (login, peer): (Login, Peer),
    (uri, headers): (Uri, HeaderMap),
    body: Body,
) -> Result<Response, HttpError> {
    if let Some(owner) = &shared.config.owner {
        return to_owner(owner, &uri);
    }
    identity::require(&shared, &headers, &login, peer, Role::Write).await?;
    let precision = precision(target.precision.as_deref())?;
    let durability = durability::asked(&headers)?;
    let body = body::read(&shared, &headers, body).await?;
    let written = lines::write(&shared, body, precision, durability).await?;
    shared.metrics.lines("http", written.kept, written.dropped);
    Ok(answer(&written))
}

/// Sends a client to the owner, or asks it to try again.
pub(super) fn to_owner(owner: &OwnerUrl, uri: &Uri) -> Result<Response, HttpError> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let location = owner.get().and_then(|url| HeaderValue::try_from(format!("{url}{path}")).ok());
    match location {
        // Unlike 301 and 302, it keeps the method and the body.
        Some(location) => Ok((StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response()),
        None => Err(HttpError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "this node stands by, and does not know the address of the node that takes writes: try another node",
        )),
    }
}

/// The units of both versions; only InfluxDB 1 has minutes and hours.
fn precision(name: Option<&str>) -> Result<Precision, HttpError> {
    match name {
        None | Some("" | "n") => Ok(Precision::Nanosecond),
        Some("u" | "µ") => Ok(Precision::Microsecond),
        Some(name) => name.parse().map_err(|e: Error| HttpError::new(StatusCode::BAD_REQUEST, e.to_string())),
    }
}

/// The answer: without content if every line was kept. Its headers say how durable the rows are, how many
/// there are, and their place in the order of all batches.
fn answer(written: &WriteResult) -> Response {
    let mut response = if written.dropped == 0 { StatusCode::NO_CONTENT.into_response() } else { refusal(written) };
    if let Some(acknowledged) = written.acknowledged {
        durability::tell(acknowledged, response.headers_mut());
        response.headers_mut().insert("x-fleetdb-rows", written.kept.into());
    }
    response
}

/// Reports the lines that were left out, as one message for people and one by one for programs.
fn refusal(written: &WriteResult) -> Response {
    let first = written.wrong.first();
    let first =
        first.map_or_else(String::new, |wrong| format!("line {}, {}: '{}'", wrong.number, wrong.reason, wrong.text));
    let WriteResult { kept, dropped, .. } = written;
    let message = if *kept > 0 {
        format!("partial write: {first} ({kept} lines kept) dropped={dropped}")
    } else {
        format!("unable to parse: {first} dropped={dropped}")
    };
    let wrong = written.wrong.iter().map(|wrong| {
        serde_json::json!({ "line_number": wrong.number, "error_message": wrong.reason, "original_line": wrong.text })
    });
    let body = serde_json::json!({
        "error": message, "code": "invalid", "message": message,
        "kept": kept, "dropped": dropped, "data": wrong.collect::<Vec<_>>(),
    });
    super::refusal(StatusCode::BAD_REQUEST, &message, body)
}
