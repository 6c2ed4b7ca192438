//! GridDB's time-series operations as table functions over one container: `time_next`,
//! `time_next_only`, `time_prev`, `time_prev_only`, `time_interpolated`, `time_sampling`,
//! `max_rows`, `min_rows`.
//!
//! The arguments are the table's name, the container's key values, and then the operation's own
//! arguments. The semantics follow GridDB's TQL reference. Its TIME_AVG is `time_avg(value, time)`,
//! an alias of `time_weight_avg`.

use crate::catalog::ViewTables;
use crate::pushdown::key_value;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::kernels::zip::zip;
use arrow::compute::{SortOptions, cast, concat_batches, filter_record_batch, sort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, Float64Type, Int64Type, SchemaRef};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use fleetdb_engine::{Role, ScanRequest, TableSchema, TableView, Value};
use fleetdb_functions::arguments::misuse;
use fleetdb_functions::errors::query_error;
use fleetdb_functions::expressions::per_second;
use fleetdb_functions::values::literals::value_of_text;
use std::fmt;
use std::sync::Arc;

/// The maximum number of rows `time_sampling` returns.
const MAX_POINTS: i64 = 1 << 20;

/// A time-series operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Next { only: bool },
    Prev { only: bool },
    Interpolated,
    Sampling,
    MaxRows,
    MinRows,
}

const OPERATIONS: [(&str, Operation, &str); 8] = [
    ("time_next", Operation::Next { only: false }, "time"),
    ("time_next_only", Operation::Next { only: true }, "time"),
    ("time_prev", Operation::Prev { only: false }, "time"),
    ("time_prev_only", Operation::Prev { only: true }, "time"),
    ("time_interpolated", Operation::Interpolated, "'column', time"),
    (
        "time_sampling",
        Operation::Sampling,
        "'column' or '*', from, to, n, 'DAY' | 'HOUR' | 'MINUTE' | 'SECOND' | 'MILLISECOND'",
    ),
    ("max_rows", Operation::MaxRows, "'column'"),
    ("min_rows", Operation::MinRows, "'column'"),
];

/// One of the table functions.
pub(super) struct TimeRows {
    name: &'static str,
    operation: Operation,
    usage: &'static str,
    tables: Arc<ViewTables>,
}

/// All table functions, with their names.
pub(super) fn functions(tables: &Arc<ViewTables>) -> impl Iterator<Item = (&'static str, Arc<TimeRows>)> {
    OPERATIONS.into_iter().map(|(name, operation, usage)| {
        (name, Arc::new(TimeRows { name, operation, usage, tables: Arc::clone(tables) }))
    })
}

impl fmt::Debug for TimeRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl TableFunctionImpl for TimeRows {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let literal = |expr: &Expr| match expr {
            Expr::Literal(value, _) => Ok(value.clone()),
            other => Err(misuse(format!("{other} is no constant: {}", self.usage(None)))),
        };
        let values = args.exprs().iter().map(literal).collect::<Result<Vec<_>>>()?;
        let Some((Some(table), rest)) = values.split_first().map(|(table, rest)| (table.try_as_str().flatten(), rest))
        else {
            return Err(misuse(self.usage(None)));
        };
        let view = self.tables.table_view(table).map_err(query_error)?;
        let rows = self.rows(&view, rest)?;
        Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
    }
}

impl TimeRows {
    fn usage(&self, schema: Option<&TableSchema>) -> String {
        let key = |schema: &TableSchema| {
            schema.key.iter().map(|&place| schema.columns[place].name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let key = schema.map_or_else(|| "key values".to_owned(), key);
        format!("use {}('table', {key}, {})", self.name, self.usage)
    }

    fn rows(&self, view: &TableView, values: &[ScalarValue]) -> Result<RecordBatch> {
        let schema = view.schema();
        let wrong = || misuse(self.usage(Some(schema)));
        let Some(time) = schema.time else {
            return Err(misuse(format!("table '{}' is a collection: it has no time", schema.name)));
        };
        let (keys, rest) = values.split_at_checked(schema.key.len()).ok_or_else(wrong)?;
        let value = |place: usize, value: &ScalarValue| {
            if value.is_null() {
                return Ok(Value::Null);
            }
            let column = &schema.columns[place];
            if let Some(text) = value.try_as_str().flatten() {
                return value_of_text(text, column.column_type).map_err(query_error);
            }
            key_value(column, &value.cast_to(&column.column_type.to_arrow())?).ok_or_else(wrong)
        };
        let key = schema.key.iter().zip(keys).map(|(&place, key)| value(place, key)).collect::<Result<Vec<_>>>()?;
        let at = |text: &ScalarValue| match value(time, text)? {
            Value::Int(time) => Ok(time),
            _ => Err(wrong()),
        };
        let container = Container { view, time, request: ScanRequest::all().container(&key) };
        if rest.iter().any(ScalarValue::is_null) {
            // Like a strict function in PostgreSQL, a NULL argument gives an empty result.
            return Ok(container.nothing());
        }
        let field = |name: &ScalarValue| {
            let name = name.try_as_str().flatten().ok_or_else(wrong)?;
            let place = schema.column_index(name).map_err(query_error)?;
            let column = &schema.columns[place];
            match column.role == Role::Field && column.column_type.is_numeric() {
                true => Ok(place),
                false => {
                    Err(misuse(format!("column '{name}' is no number outside the key: {}", self.usage(Some(schema)))))
                }
            }
        };
        match (self.operation, rest) {
            (Operation::Next { only }, [time]) => match at(time)?.checked_add(i64::from(only)) {
                Some(from) => container.first(from),
                None => Ok(container.nothing()),
            },
            (Operation::Prev { only }, [time]) => match at(time)?.checked_sub(i64::from(only)) {
                Some(to) => container.last(to),
                None => Ok(container.nothing()),
            },
            (Operation::Interpolated, [column, time]) => {
                let time = at(time)?;
                container.sampled(Some(field(column)?), &[time])
            }
            (Operation::Sampling, [column, from, to, n, unit]) => {
                let column = match column.try_as_str().flatten() {
                    Some("*") => None,
                    _ => Some(field(column)?),
                };
                let step = step(schema, time, n, unit).ok_or_else(wrong)?;
                let (from, to) = (at(from)?, at(to)?);
                let points = to.checked_sub(from).map_or(i64::MAX, |span| if span < 0 { 0 } else { span / step + 1 });
                if points > MAX_POINTS {
                    return Err(misuse(format!("time_sampling of {points} points: the most is {MAX_POINTS}")));
                }
                let points: Vec<i64> = (0..points).map(|number| from + number * step).collect();
                container.sampled(column, &points)
            }
            (Operation::MaxRows, [column]) => container.extreme(field(column)?, true),
            (Operation::MinRows, [column]) => container.extreme(field(column)?, false),
            _ => Err(wrong()),
        }
    }
}

/// The step between points in the time column's unit; `None` if it is not a positive integer
/// multiple of that unit.
fn step(schema: &TableSchema, time: usize, n: &ScalarValue, unit: &ScalarValue) -> Option<i64> {
    let ScalarValue::Int64(Some(n)) = n.cast_to(&DataType::Int64).ok()? else { return None };
    let ms = match unit.try_as_str().flatten()?.to_ascii_uppercase().as_str() {
        "DAY" => 86_400_000,
        "HOUR" => 3_600_000,
        "MINUTE" => 60_000,
        "SECOND" => 1_000,
        "MILLISECOND" => 1,
        _ => return None,
    };
    let per_second = per_second(&schema.columns[time].column_type.to_arrow())?;
    let scaled = i128::from(n) * ms * i128::from(per_second);
    (n > 0 && scaled % 1_000 == 0).then(|| i64::try_from(scaled / 1_000).ok()).flatten()
}

/// The container that an operation reads.
struct Container<'a> {
    view: &'a TableView,
    /// The index of the time column.
    time: usize,
    request: ScanRequest,
}

impl Container<'_> {
    fn schema(&self) -> SchemaRef {
        self.view.schema().to_arrow()
    }

    fn nothing(&self) -> RecordBatch {
        RecordBatch::new_empty(self.schema())
    }

    /// The first row at or after a time.
    fn first(&self, from: i64) -> Result<RecordBatch> {
        let mut scan = self.view.scan(&self.request.clone().from_time(from).limit(1)).map_err(query_error)?;
        Ok(scan.next().transpose().map_err(query_error)?.unwrap_or_else(|| self.nothing()))
    }

    /// The last row at or before a time.
    fn last(&self, to: i64) -> Result<RecordBatch> {
        let mut rows = self.view.last_rows(&self.request.clone().to_time(to)).map_err(query_error)?;
        Ok(rows.next().transpose().map_err(query_error)?.unwrap_or_else(|| self.nothing()))
    }

    fn all(&self, request: &ScanRequest) -> Result<RecordBatch> {
        let batches = self.view.scan(request).and_then(Iterator::collect::<fleetdb_engine::Result<Vec<_>>>);
        Ok(concat_batches(&self.schema(), &batches.map_err(query_error)?)?)
    }

    fn times(&self, rows: &RecordBatch) -> Result<Vec<i64>> {
        let times = cast(rows.column(self.time), &DataType::Int64)?;
        Ok(times.as_primitive::<Int64Type>().values().to_vec())
    }

    /// Returns a row for each point; points must be ascending. If no row exists at the point, the
    /// previous row is returned with the point's time and with `column` interpolated linearly
    /// between its neighbours. Points without the neighbours they need are left out.
    fn sampled(&self, column: Option<usize>, points: &[i64]) -> Result<RecordBatch> {
        let (Some(&from), Some(&to)) = (points.first(), points.last()) else { return Ok(self.nothing()) };
        let edge = |rows: RecordBatch, or: i64| {
            Ok::<_, datafusion::error::DataFusionError>(self.times(&rows)?.first().copied().unwrap_or(or))
        };
        let (from, to) = (edge(self.last(from)?, from)?, edge(self.first(to)?, to)?);
        let rows = self.all(&self.request.clone().from_time(from).to_time(to))?;
        let times = self.times(&rows)?;
        let values = column.map(|column| cast(rows.column(column), &DataType::Float64)).transpose()?;
        let values = values.as_ref().map(|values| values.as_primitive::<Float64Type>());
        let (mut kept, mut at, mut changed, mut is_there) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for &point in points {
            let next = times.partition_point(|&time| time <= point);
            let Some(before) = next.checked_sub(1) else { continue };
            let number = |row: usize| values.and_then(|values| values.is_valid(row).then(|| values.value(row)));
            let value = if values.is_none() || times[before] == point {
                number(before)
            } else if next < times.len() {
                let share = (i128::from(point) - i128::from(times[before])) as f64
                    / (i128::from(times[next]) - i128::from(times[before])) as f64;
                number(before).zip(number(next)).map(|(from, to)| from + (to - from) * share)
            } else {
                continue;
            };
            kept.push(before as u64);
            is_there.push(times[before] == point);
            at.push(point);
            changed.push(value);
        }
        let rows = take_record_batch(&rows, &UInt64Array::from(kept))?;
        let mut columns = rows.columns().to_vec();
        columns[self.time] = cast(&(Arc::new(Int64Array::from(at)) as ArrayRef), columns[self.time].data_type())?;
        if let Some(column) = column {
            let changed: ArrayRef = Arc::new(Float64Array::from(changed));
            let changed = cast(&changed, columns[column].data_type())?;
            // Numbers that a float cannot hold stay as they are.
            columns[column] = zip(&BooleanArray::from(is_there), &columns[column], &changed)?;
        }
        Ok(RecordBatch::try_new(rows.schema(), columns)?)
    }

    /// All rows in which a column has its minimum or maximum.
    fn extreme(&self, column: usize, largest: bool) -> Result<RecordBatch> {
        let rows = self.all(&self.request)?;
        let values = rows.column(column);
        let order = SortOptions { descending: largest, nulls_first: false };
        let first = sort_to_indices(values, Some(order), Some(1))?;
        if first.is_empty() || values.is_null(first.value(0) as usize) {
            return Ok(self.nothing());
        }
        let extreme = ScalarValue::try_from_array(values, first.value(0) as usize)?;
        let holds = eq(values, &extreme.to_scalar()?)?;
        Ok(filter_record_batch(&rows, &holds)?)
    }
}
