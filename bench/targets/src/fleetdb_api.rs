//! FleetDB inside the client's process through the engine's API alone, without SQL: containers,
//! newest rows and counts.

use crate::fleetdb::{Access, opened, write};
use crate::sql::conform;
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{AnswerBuilder, Cell};
use fleetdb_bench_core::query::{Key, Query};
use fleetdb_bench_core::table::Table;
use fleetdb_bench_core::target::{Connection, Entry, Start, Target};
use fleetdb_engine::{Database, Projection, ScanRequest, Settings, Value};
use std::sync::Arc;

/// The entry in the list of targets.
pub const ENTRY: Entry = Entry {
    name: "fleetdb-api",
    about: "FleetDB, embedded, through the container API",
    missing: Some(crate::nothing),
    url: None,
    start: open,
};

const NO_CALL: &str = "the container API has no call for it";

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    opened(start, Settings::default(), Access { connect, unsupported, takes_statements: false })
}

fn connect(db: &Arc<Database>) -> Outcome<Box<dyn Connection>> {
    Ok(Box::new(Containers { db: Arc::clone(db) }))
}

fn unsupported(query: &Query) -> Option<&'static str> {
    let has_call = match query {
        Query::Count(_) | Query::Bill { .. } | Query::Rows { .. } | Query::LastOfAll | Query::Last { .. } => true,
        Query::HourlyMaxima { .. } | Query::MinuteMaxima { .. } | Query::Tsbs(_) => false,
    };
    (!has_call).then_some(NO_CALL)
}

struct Containers {
    db: Arc<Database>,
}

impl Connection for Containers {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        write(&self.db, writes)
    }

    /// The API's times are inclusive.
    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        let view = self.db.view();
        let mut answer = AnswerBuilder::new(&query.columns());
        match query {
            Query::Count(table) => answer.push(Cell::Int(view.table(table)?.count()?.try_into()?))?,
            Query::Bill { meter, window_ns: (from, to) } => {
                let meter = view.table("meter_reads")?.container(&[Value::Int(*meter)])?;
                let sum = meter.aggregate("usage_since_read", *from, to - 1)?.sum;
                answer.push(sum.map_or(Cell::Null, Cell::Float))?;
            }
            Query::Rows { of, key, window_ns: (from, to) } => {
                let container = view.table(of.name)?.container(&[value(key)])?;
                let rows = container.range(*from, to - 1, Projection::All)?;
                return conform(query, &rows.collect::<Result<Vec<_>, _>>()?);
            }
            Query::LastOfAll => {
                let rows = view.table("cpu")?.last_rows(&ScanRequest::all())?;
                return conform(query, &rows.collect::<Result<Vec<_>, _>>()?);
            }
            Query::Last { of, key } => {
                let row = view.table(of.name)?.container(&[value(key)])?.last_row()?;
                row.iter().flatten().try_for_each(|value| answer.push(cell(value)?))?;
            }
            Query::HourlyMaxima { .. } | Query::MinuteMaxima { .. } | Query::Tsbs(_) => return Err(NO_CALL.into()),
        }
        answer.finish()
    }
}

fn value(key: &Key) -> Value {
    match key {
        Key::Int(number) => Value::Int(*number),
        Key::Text(name) => Value::Text(name.clone()),
    }
}

/// A time is an integer.
fn cell(value: &Value) -> Outcome<Cell<'_>> {
    Ok(match value {
        Value::Null => Cell::Null,
        Value::Int(value) => Cell::Int(*value),
        Value::Float(value) => Cell::Float(*value),
        Value::Text(text) => Cell::Text(text),
        other => return Err(format!("unexpected value {other:?}").into()),
    })
}
