//! `/api/v1/sql`: one statement per request, perhaps with parameters; its rows come as JSON, JSON
//! lines, CSV or an Arrow IPC stream.
//!
//! Rows are encoded batch by batch as the client takes them. If a statement fails after its first
//! rows have been sent, the connection is closed before the end of the answer, so that the client
//! cannot mistake a part for the whole.
//!
//! If the statement committed a batch, headers say its place in the order of all batches and its durability.

use super::client::{Peer, Requester, Statement};
use super::identity::{self, Login};
use super::{HttpError, body, durability};
use crate::access::Role;
use crate::owner::OwnerUrl;
use crate::server::Shared;
use crate::sessions::{Pooled, Running};
use crate::work::Weight;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use axum::body::Body;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fleetdb_engine::{Code, Durability, Error, Result, Value, array_element_text};
use fleetdb_postgres::SessionUser;
use fleetdb_postgres::{ColumnNames, column_names};
use fleetdb_query::{Access, Kind, csv_header, csv_rows, distinct_names, json_lines, with_names};
use serde::Deserialize;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The parameters of a request.
#[derive(Deserialize)]
pub(super) struct Asked {
    /// The statement, unless it is the body.
    q: Option<String>,
    /// The format of the rows; by default the header `Accept` decides.
    format: Option<String>,
}

pub(super) async fn from_query(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<Asked>,
    Query(login): Query<Login>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> std::result::Result<Response, HttpError> {
    let identity = identity::require(&shared, &headers, &login, peer, Role::Read).await?;
    let sql = asked
        .q
        .ok_or_else(|| HttpError::new(StatusCode::BAD_REQUEST, "missing parameter q: send the statement as q=..."))?;
    // A GET only reads, because a link or an image in a foreign page can make a browser send it.
    let format = Format::of(asked.format.as_deref(), &headers)?;
    let asked = Request { sql, parameters: Vec::new() };
    run(shared, Requester::new(identity, &headers, peer), asked, None, format, true).await
}

pub(super) async fn from_body(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<Asked>,
    Query(login): Query<Login>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> std::result::Result<Response, HttpError> {
    let identity = identity::require(&shared, &headers, &login, peer, Role::Read).await?;
    let (request, _memory) = match asked.q {
        Some(sql) => (Request { sql, parameters: Vec::new() }, None),
        None => {
            let (text, memory) = body::read(&shared, &headers, body).await?.into_text()?;
            let of_values = match is_json(&headers) {
                // A parameter takes at least a comma in the text, and its value is there in two forms.
                true => {
                    let commas = text.bytes().filter(|byte| *byte == b',').count();
                    let bytes = commas * (size_of::<serde_json::Value>() + size_of::<Value>());
                    Some(shared.store.query_memory().reserve("the parameters of a request", bytes)?)
                }
                false => None,
            };
            (Request::of_body(text, &headers)?, Some((memory, of_values)))
        }
    };
    let format = Format::of(asked.format.as_deref(), &headers)?;
    let durability = durability::asked(&headers)?;
    run(shared, Requester::new(identity, &headers, peer), request, durability, format, false).await
}

/// A statement with the values of its parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    sql: String,
    #[serde(default)]
    parameters: Vec<serde_json::Value>,
}

impl Request {
    /// The request in a body: JSON with statement and parameters, or the statement alone.
    fn of_body(text: String, headers: &HeaderMap) -> std::result::Result<Self, HttpError> {
        if !is_json(headers) {
            return Ok(Self { sql: text, parameters: Vec::new() });
        }
        serde_json::from_str(&text).map_err(|error| {
            let message = format!(r#"the body is not like {{"sql": "SELECT $1", "parameters": [7]}}: {error}"#);
            HttpError::new(StatusCode::BAD_REQUEST, message)
        })
    }
}

/// Whether a body is JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// The value of a parameter.
fn value_of((place, value): (usize, &serde_json::Value)) -> Result<Value> {
    use serde_json::Value as Json;
    let wrong = || {
        let kinds = "a text, a number, a boolean, null or an array of these";
        Error::invalid(format!("parameter ${} must be {kinds}: {value}", place + 1))
    };
    Ok(match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::Int(value),
            (_, Some(value)) => Value::UInt(value),
            _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(elements) => {
            let elements = elements.iter().map(element_text).collect::<Option<Vec<_>>>();
            Value::Text(format!("{{{}}}", elements.ok_or_else(wrong)?.join(",")))
        }
        Json::Object(_) => return Err(wrong()),
    })
}

/// An element in PostgreSQL's text form of an array; `None` if it is no single value.
fn element_text(element: &serde_json::Value) -> Option<String> {
    use serde_json::Value as Json;
    match element {
        Json::Null => Some("NULL".to_owned()),
        Json::Bool(_) | Json::Number(_) => Some(element.to_string()),
        Json::String(text) => Some(array_element_text(text)),
        Json::Array(_) | Json::Object(_) => None,
    }
}

async fn run(
    shared: Arc<Shared>,
    requester: Requester,
    Request { sql, parameters }: Request,
    durability: Option<Durability>,
    format: Format,
    only_reads: bool,
) -> std::result::Result<Response, HttpError> {
    let begun = Instant::now();
    let text: Arc<str> = sql.into();
    let sql = Arc::clone(&text);
    let (number, identity) = (shared.clients.number(), requester.identity.clone());
    let session_user = SessionUser { may_end: !only_reads, ..identity.session_user(number) };
    let session = shared.sessions.take(session_user).map(|mut session| {
        session.register(number, Statement::new(requester, &sql, session.canceller()));
        session
    });
    let weight = Weight::of_text(&sql);
    let names = Arc::new(OnceLock::new());
    let names_of_statement = Arc::clone(&names);
    let begin = move |session: &Pooled| {
        if let Some(durability) = durability {
            // The next user of the session begins with its own settings.
            session.start_with(session.settings().with_durability(durability))?;
        }
        let mut statement = session.parse_one(&sql)?;
        names_of_statement.get_or_init(|| column_names(&statement));
        if !parameters.is_empty() {
            let count = statement.parameters();
            if parameters.len() != count {
                return Err(Error::invalid(format!("the statement has {count} parameters, not {}", parameters.len())));
            }
            let values = parameters.iter().enumerate().map(value_of).collect::<Result<Vec<_>>>()?;
            statement = statement.with_values(&values)?;
        }
        let command = statement.command();
        if only_reads && command.access != Access::Read {
            return Err(Error::invalid("GET requests are read-only: send this statement with POST"));
        }
        if matches!(command.kind?, Kind::Begin | Kind::Commit | Kind::Rollback | Kind::RollbackTo(_)) {
            return Err(Error::invalid(
                "a request holds one statement, which is atomic; for transactions use the PostgreSQL protocol",
            ));
        }
        crate::access::check(&identity.name, identity.role, command.access)?;
        if command.changes_session {
            session.mark_modified();
        }
        session.execute(statement)
    };
    let running = match session {
        Ok(session) => Running::start(&shared.work, weight, session, begin).await,
        Err(error) => Err(error),
    };
    shared.metrics.http.ended(begun, running.is_ok());
    let running = running.map_err(|error| {
        let owner = shared.config.owner.as_ref().filter(|_| error.code() == Code::ReadOnlyTransaction);
        let error = match owner.and_then(OwnerUrl::get) {
            Some(url) => error.with_hint(format!("This node stands by. Write to {url}.")),
            None => error,
        };
        HttpError::of_statement(&error, &text)
    })?;
    let mut headers = HeaderMap::new();
    if let Some(acknowledged) = running.acknowledged() {
        durability::tell(acknowledged, &mut headers);
    }
    let Some(schema) = running.schema().cloned() else {
        let mut result = serde_json::json!({ "result": running.tag() });
        if let Some(warning) = running.warning() {
            result["warning"] = warning.into();
        }
        return Ok((headers, axum::Json(result)).into_response());
    };
    let schema = names.get().map_or(Arc::clone(&schema), |names: &ColumnNames| names.of(&schema));
    let encoder = Encoder::new(format, &distinct_names(&schema))?;
    let state = Some((running, encoder, shared));
    let chunks = futures::stream::try_unfold(state, |state| async {
        let Some((mut running, mut encoder, shared)) = state else { return Ok(None) };
        let next = running.next(&shared.work).await.and_then(|rows| match rows {
            Some(rows) => encoder.rows(&rows).map(|chunk| (chunk, true)),
            None => encoder.end().map(|chunk| (chunk, false)),
        });
        match next {
            Ok((chunk, true)) => Ok(Some((chunk, Some((running, encoder, shared))))),
            Ok((chunk, false)) => Ok(Some((chunk, None))),
            Err(error) => {
                tracing::warn!("a statement failed after its first rows: {error}");
                Err(error)
            }
        }
    });
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    Ok((headers, Body::from_stream(chunks)).into_response())
}

/// The format of the rows.
#[derive(Clone, Copy)]
enum Format {
    Json,
    Lines,
    Csv,
    Arrow,
}

impl Format {
    fn of(name: Option<&str>, headers: &HeaderMap) -> std::result::Result<Self, HttpError> {
        let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let by_accept = [Self::Lines, Self::Csv, Self::Arrow].into_iter().find(|f| accept.contains(f.content_type()));
        match name {
            None => Ok(by_accept.unwrap_or(Self::Json)),
            Some("json") => Ok(Self::Json),
            Some("ndjson" | "jsonl") => Ok(Self::Lines),
            Some("csv") => Ok(Self::Csv),
            Some("arrow") => Ok(Self::Arrow),
            Some(other) => Err(HttpError::new(
                StatusCode::BAD_REQUEST,
                format!("unknown format '{other}': use json, ndjson, csv or arrow"),
            )),
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Lines => "application/x-ndjson",
            Self::Csv => "text/csv",
            Self::Arrow => "application/vnd.apache.arrow.stream",
        }
    }
}

/// Encodes rows batch by batch.
struct Encoder {
    /// The schema with distinct column names.
    schema: SchemaRef,
    form: Form,
}

enum Form {
    /// Whether a row has been written.
    Json(bool),
    Lines,
    /// Whether the header has been written.
    Csv(bool),
    Arrow(Box<StreamWriter<Vec<u8>>>),
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("the rows cannot be written in this format: {error}"))
}

impl Encoder {
    fn new(format: Format, schema: &SchemaRef) -> Result<Self> {
        let form = match format {
            Format::Json => Form::Json(false),
            Format::Lines => Form::Lines,
            Format::Csv => {
                check_csv(schema)?;
                Form::Csv(false)
            }
            Format::Arrow => Form::Arrow(Box::new(StreamWriter::try_new(Vec::new(), schema).map_err(failed)?)),
        };
        Ok(Self { schema: Arc::clone(schema), form })
    }

    fn rows(&mut self, rows: &RecordBatch) -> Result<Vec<u8>> {
        let rows = with_names(rows.clone(), &self.schema)?;
        match &mut self.form {
            Form::Lines => lines(&rows),
            Form::Json(has_rows) => {
                // A line of JSON contains no line break.
                let lines = lines(&rows)?;
                let mut array = Vec::with_capacity(lines.len() + 2);
                for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                    array.extend_from_slice(if std::mem::replace(has_rows, true) { b",\n" } else { b"[" });
                    array.extend_from_slice(line);
                }
                Ok(array)
            }
            Form::Csv(has_header) => {
                let mut out = Vec::new();
                if !std::mem::replace(has_header, true) {
                    csv_header(&self.schema, &mut out);
                }
                csv_rows(&rows, &mut out).map_err(failed)?;
                Ok(out)
            }
            Form::Arrow(writer) => {
                writer.write(&rows).map_err(failed)?;
                Ok(std::mem::take(writer.get_mut()))
            }
        }
    }

    fn end(&mut self) -> Result<Vec<u8>> {
        match &mut self.form {
            Form::Json(has_rows) => Ok(if *has_rows { b"]\n".to_vec() } else { b"[]\n".to_vec() }),
            // Without rows, the answer is only the header.
            Form::Csv(false) => {
                let mut out = Vec::new();
                csv_header(&self.schema, &mut out);
                Ok(out)
            }
            Form::Lines | Form::Csv(true) => Ok(Vec::new()),
            Form::Arrow(writer) => {
                writer.finish().map_err(failed)?;
                Ok(std::mem::take(writer.get_mut()))
            }
        }
    }
}

/// # Errors
/// A column has no form in CSV.
fn check_csv(schema: &SchemaRef) -> Result<()> {
    let is_array = |data_type: &DataType| {
        matches!(data_type, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
    };
    match schema.fields().iter().find(|field| field.data_type().is_nested() && !is_array(field.data_type())) {
        Some(field) => Err(failed(format_args!(
            "column '{}' is nested and cannot be written as CSV; use format=json, ndjson or arrow",
            field.name()
        ))),
        None => Ok(()),
    }
}

fn lines(rows: &RecordBatch) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    json_lines(rows, true, &mut out).map_err(failed)?;
    Ok(out)
}
