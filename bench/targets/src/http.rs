//! Helpers for databases that are queried over HTTP.

use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{AnswerBuilder, Cell};
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::table::ColumnType;
use serde_json::{Number, Value};
use ureq::http::Response;
use ureq::{Agent, Body};

/// A client that also returns error responses, for their messages.
pub(crate) fn agent() -> Agent {
    Agent::config_builder().http_status_as_error(false).build().into()
}

/// Reads an answer of any length as JSON.
pub(crate) fn json(mut answer: Response<Body>) -> Outcome<Value> {
    let text = answer.body_mut().with_config().limit(u64::MAX).read_to_string()?;
    Ok(serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?)
}

/// Sends line protocol. The server must accept every line.
pub(crate) fn send_lines(agent: &Agent, url: &str, lines: &str) -> Outcome<()> {
    let mut answer = agent.post(url).send(lines.as_bytes())?;
    if answer.status().is_success() {
        return Ok(());
    }
    Err(answer.body_mut().read_to_string()?.into())
}

/// The rows of an answer, each an array of values in the order of the query's columns.
pub(crate) fn gathered(query: &Query, rows: &Value) -> Outcome<RecordBatch> {
    let columns = query.columns();
    let mut builder = AnswerBuilder::new(&columns);
    for row in rows.as_array().into_iter().flatten() {
        (0..columns.len()).try_for_each(|place| push(&mut builder, &row[place]))?;
    }
    builder.finish()
}

/// Adds a value.
pub(crate) fn push(builder: &mut AnswerBuilder, value: &Value) -> Outcome<()> {
    match (builder.expects(), value) {
        (_, Value::Null) => builder.push(Cell::Null),
        (ColumnType::Text | ColumnType::Json, Value::String(text)) => builder.push(Cell::Text(text)),
        // In many databases an integer key is a tag, which is text.
        (_, Value::String(text)) => builder.push(Cell::Int(text.parse()?)),
        (_, Value::Number(value)) => builder.push(number(value)?),
        (_, other) => Err(format!("unexpected value {other}").into()),
    }
}

/// Converts a number, to an integer if it is written as one.
fn number(number: &Number) -> Outcome<Cell<'static>> {
    Ok(match number.as_i64() {
        Some(value) => Cell::Int(value),
        None => Cell::Float(number.as_f64().ok_or("a number is out of range")?),
    })
}
