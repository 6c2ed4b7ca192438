//! What databases that are asked over HTTP share.

use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::Cell;
use serde_json::{Number, Value};
use ureq::http::Response;
use ureq::{Agent, Body};

/// A client that reads answers of any status, for what they say.
pub(crate) fn agent() -> Agent {
    Agent::config_builder().http_status_as_error(false).build().into()
}

/// An answer of any length as JSON.
pub(crate) fn json(mut answer: Response<Body>) -> Outcome<Value> {
    let text = answer.body_mut().with_config().limit(u64::MAX).read_to_string()?;
    Ok(serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?)
}

/// Sends lines of line protocol, all of which must be taken.
pub(crate) fn send_lines(agent: &Agent, url: &str, lines: &str) -> Outcome<()> {
    let mut answer = agent.post(url).send(lines.as_bytes())?;
    if answer.status().is_success() {
        return Ok(());
    }
    Err(answer.body_mut().read_to_string()?.into())
}

/// A number, whole if it is written so.
pub(crate) fn number(number: &Number) -> Outcome<Cell<'static>> {
    Ok(match number.as_i64() {
        Some(value) => Cell::Int(value),
        None => Cell::Float(number.as_f64().ok_or("a number is out of range")?),
    })
}
