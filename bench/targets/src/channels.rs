//! E4's datapoints as the publication stored them in MariaDB: one row per channel, found by second
//! and nanosecond.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{Int64Type, TimestampNanosecondType};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::Cell;
use fleetdb_bench_core::table::{ColumnType, Table};
use fleetdb_bench_core::workload::series::{CHANNELS, SECOND_NS, Series};
use std::sync::Arc;

/// The table, under the name of the datapoints' table.
pub(crate) fn table() -> Table {
    let columns = ["second", "nanosecond", "number", "measurement"].map(|name| (name, ColumnType::Int)).to_vec();
    Table { name: Series::Datapoints.name(), columns, key: &["second", "nanosecond"] }
}

/// Converts datapoints to rows of this table. There is one board.
///
/// # Errors
/// None, unless the columns differ in length.
pub(crate) fn rows(points: &RecordBatch) -> Outcome<RecordBatch> {
    let times = points.column(1).as_primitive::<TimestampNanosecondType>();
    let of_time = |part: &dyn Fn(i64) -> i64| {
        Int64Array::from_iter_values(times.values().iter().flat_map(|time| [part(*time); CHANNELS]))
    };
    let channels = &points.columns()[2..];
    let measured = (0..points.num_rows())
        .flat_map(|row| channels.iter().map(move |channel| channel.as_primitive::<Int64Type>().value(row)));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(of_time(&|time| time.div_euclid(SECOND_NS))),
        Arc::new(of_time(&|time| time.rem_euclid(SECOND_NS))),
        Arc::new(Int64Array::from_iter_values((0..times.len()).flat_map(|_| 0..CHANNELS as i64))),
        Arc::new(Int64Array::from_iter_values(measured)),
    ];
    Ok(RecordBatch::try_new(table().schema(), columns)?)
}

/// A query that counts datapoints.
pub(crate) fn count() -> String {
    format!("SELECT count(*) DIV {CHANNELS} FROM {}", table().name)
}

/// A query for the original datapoints of a window, in order; [`parameters`] has its values.
pub(crate) fn select() -> String {
    let channel = |number| format!("max(CASE number WHEN {number} THEN measurement END)");
    format!(
        "SELECT 1, second * {SECOND_NS} + nanosecond, {} FROM {} WHERE (second > ? OR second = ? AND nanosecond >= ?) \
         AND (second < ? OR second = ? AND nanosecond < ?) GROUP BY second, nanosecond ORDER BY second, nanosecond",
        (0..CHANNELS).map(channel).collect::<Vec<_>>().join(", "),
        table().name
    )
}

/// The values of [`select`]'s parameters.
pub(crate) fn parameters((from_ns, to_ns): (i64, i64)) -> Vec<Cell<'static>> {
    let parts = |ns: i64| [ns.div_euclid(SECOND_NS), ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS)];
    [parts(from_ns), parts(to_ns)].into_iter().flatten().map(Cell::Int).collect()
}
