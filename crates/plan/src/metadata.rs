//! Answers aggregates over whole containers from the container index, without reading their rows.
//!
//! `count`, `sum`, `min`, `max` and `avg` over a scan, without GROUP BY or grouped by all key
//! columns, become [`ContainerAggregate`], which EXPLAIN shows. The same applies to queries for the
//! newest row of every container (`last(value, time)` by key, `DISTINCT ON (key) ... ORDER BY key,
//! time DESC`). The engine takes what it can from the container index of each segment, and
//! aggregates the rows that a time bound cuts off. It handles deletes, overlaps and retention as a
//! scan does, so the results are exact.

use crate::plan_nodes::leaf_plan;
use crate::pushdown::scalar;
use crate::scan::FleetScan;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Int64Type, SchemaRef, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use fleetdb_engine::{ColumnSum, ColumnTotals, ContainerSummaries, ContainerSummary, LastRows, Role};
use fleetdb_functions::errors::query_error;
use fleetdb_functions::whole_sum::Whole;
use std::fmt;
use std::sync::Arc;

/// Number of containers processed per batch.
const BATCH_ROWS: usize = 8_192;

/// The optimizer rule. See the module documentation.
#[derive(Debug)]
pub(crate) struct AnswerFromContainers;

impl PhysicalOptimizerRule for AnswerFromContainers {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|plan| {
            Ok(match plan.downcast_ref::<AggregateExec>().and_then(ContainerAggregate::of) {
                // Yields between batches, so that a timeout can be checked.
                Some(answer) => Transformed::yes(Arc::new(CooperativeExec::new(Arc::new(answer)))),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "answer_from_containers"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// One output column.
#[derive(Clone, Copy, Debug)]
enum Output {
    /// A key column, by its index in the key.
    Key(usize),
    Rows,
    FirstTime,
    LastTime,
    /// These refer to a field by its index in `fields`.
    Count(usize),
    Sum(usize),
    Min(usize),
    Max(usize),
    Avg(usize),
    /// A column of the newest row, by its index in the table.
    Last(usize),
}

/// The state of an answer.
enum Parts {
    Newest(LastRows),
    Groups(ContainerSummaries),
    /// Without groups: the remaining containers, and the totals of those already processed.
    Adding(ContainerSummaries, Option<ContainerSummary>),
    All(Option<ContainerSummary>),
    Done,
}

/// Aggregates over whole containers.
#[derive(Clone)]
pub(crate) struct ContainerAggregate {
    scan: FleetScan,
    /// The aggregated fields, by their indexes in the table.
    fields: Vec<usize>,
    outputs: Vec<Output>,
    grouped: bool,
    /// Whether all outputs are columns of the containers' newest rows.
    newest: bool,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl ContainerAggregate {
    /// Converts an aggregate to one over containers, if possible.
    fn of(aggregate: &AggregateExec) -> Option<Self> {
        let scan = FleetScan::of(aggregate.input()).filter(|scan| scan.is_unlimited())?;
        let whole = matches!(aggregate.mode(), AggregateMode::Single | AggregateMode::SinglePartitioned);
        let plain = aggregate.limit_options().is_none() && aggregate.filter_expr().iter().all(Option::is_none);
        if !whole || !plain || aggregate.group_expr().groups().len() > 1 {
            return None;
        }
        let table = scan.table();
        let (mut outputs, mut fields) = (Vec::new(), Vec::new());
        for (expr, _) in aggregate.group_expr().expr() {
            let place = scan.place(expr.downcast_ref::<Column>()?.index())?;
            outputs.push(Output::Key(table.key.iter().position(|key| *key == place)?));
        }
        let mut grouped: Vec<usize> =
            outputs.iter().filter_map(|out| if let Output::Key(key) = out { Some(*key) } else { None }).collect();
        grouped.sort_unstable();
        grouped.dedup();
        // Several containers would have to be combined into a group.
        if !grouped.is_empty() && grouped.len() < table.key.len() || table.time.is_none() {
            return None;
        }
        for function in aggregate.aggr_expr() {
            outputs.push(output(scan, function, &mut fields)?);
        }
        let newest = outputs.iter().any(|out| matches!(out, Output::Last(_)));
        let of_rows = |out: &Output| matches!(out, Output::Last(_) | Output::LastTime | Output::Key(_));
        if newest && (grouped.is_empty() || !outputs.iter().all(of_rows)) {
            return None;
        }
        let schema = aggregate.schema();
        // Containers arrive in key order, like the groups of a streaming aggregate.
        let properties = Arc::clone(aggregate.properties());
        let grouped = !grouped.is_empty();
        Some(Self { newest, scan: scan.clone(), fields, outputs, grouped, schema, properties })
    }

    /// Starts computing the answer.
    fn answer(&self) -> Result<Parts> {
        let (view, request) = self.scan.current()?;
        if self.newest {
            return Ok(Parts::Newest(view.last_rows(&request).map_err(query_error)?));
        }
        if !self.grouped && self.outputs.iter().all(|out| matches!(out, Output::Rows)) {
            let rows = view.count_of(&request).map_err(query_error)?;
            return Ok(Parts::All(Some(ContainerSummary {
                key: Vec::new(),
                rows,
                times: (0, 0),
                amounts: Vec::new(),
            })));
        }
        let containers = view.containers(&request, &self.fields).map_err(query_error)?;
        Ok(match self.grouped {
            true => Parts::Groups(containers),
            false => Parts::Adding(containers, None),
        })
    }

    /// The next batch; an empty one means that there is more to do.
    fn next(&self, parts: &mut Parts) -> Result<Option<RecordBatch>> {
        match parts {
            Parts::Newest(rows) => rows.next().map(|rows| self.newest_columns(&rows.map_err(query_error)?)).transpose(),
            Parts::Groups(containers) => {
                let groups = containers.by_ref().take(BATCH_ROWS).map(|group| group.map(Some).map_err(query_error));
                let groups = groups.collect::<Result<Vec<_>>>()?;
                (!groups.is_empty()).then(|| self.batch(&groups)).transpose()
            }
            Parts::Adding(containers, all) => {
                let mut left = BATCH_ROWS;
                for container in containers.by_ref().take(BATCH_ROWS) {
                    let container = container.map_err(query_error)?;
                    match &mut *all {
                        Some(all) => merge(all, &container),
                        none => *none = Some(container),
                    }
                    left -= 1;
                }
                if left > 0 {
                    *parts = Parts::All(all.take());
                }
                Ok(Some(RecordBatch::new_empty(Arc::clone(&self.schema))))
            }
            Parts::All(all) => {
                let batch = self.batch(&[all.take()])?;
                *parts = Parts::Done;
                Ok(Some(batch))
            }
            Parts::Done => Ok(None),
        }
    }

    /// The output columns, from rows with all of the table's columns.
    fn newest_columns(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let table = self.scan.table();
        let column = |output: &Output| match output {
            Output::Key(key) => table.key.get(*key).copied(),
            Output::LastTime => table.time,
            Output::Last(place) => Some(*place),
            _ => None,
        };
        let places = self.outputs.iter().map(column).collect::<Option<Vec<_>>>();
        let places = places.ok_or_else(|| DataFusionError::Internal("an output is no column of a row".to_owned()))?;
        let columns = places.iter().map(|&place| Arc::clone(rows.column(place))).collect();
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    fn batch(&self, rows: &[Option<ContainerSummary>]) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.outputs.len());
        for (output, field) in self.outputs.iter().zip(self.schema.fields()) {
            let data_type = field.data_type();
            let values = rows.iter().map(|row| value(*output, row.as_ref(), data_type));
            columns.push(ScalarValue::iter_to_array(values.collect::<Result<Vec<_>>>()?)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

fn merge(all: &mut ContainerSummary, other: &ContainerSummary) {
    all.rows += other.rows;
    all.times = (all.times.0.min(other.times.0), all.times.1.max(other.times.1));
    all.amounts.iter_mut().zip(&other.amounts).for_each(|(all, other)| all.merge(other));
}

/// The output for an aggregate function; `None` if the container index cannot provide it.
fn output(scan: &FleetScan, function: &AggregateFunctionExpr, fields: &mut Vec<usize>) -> Option<Output> {
    if let Some(place) = newest(scan, function) {
        return Some(Output::Last(place));
    }
    if function.is_distinct() || !function.order_bys().is_empty() {
        return None;
    }
    let [argument] = <[_; 1]>::try_from(function.expressions()).ok()?;
    let name = function.fun().name();
    if let Some(literal) = argument.downcast_ref::<Literal>() {
        return (name == "count" && !literal.value().is_null()).then_some(Output::Rows);
    }
    let (column, cast) = match argument.downcast_ref::<CastExpr>() {
        Some(cast) => (cast.expr().downcast_ref::<Column>()?, Some(cast.cast_type())),
        None => (argument.downcast_ref::<Column>()?, None),
    };
    let table = scan.table();
    let place = scan.place(column.index())?;
    let column = &table.columns[place];
    match (column.role, name, cast) {
        (Role::Time, "count", None) => return Some(Output::Rows),
        (Role::Time, "min", None) => return Some(Output::FirstTime),
        (Role::Time, "max", None) => return Some(Output::LastTime),
        (Role::Field, ..) if column.column_type.is_numeric() => {}
        _ => return None,
    }
    let field = fields.iter().position(|field| *field == place).unwrap_or_else(|| {
        fields.push(place);
        fields.len() - 1
    });
    // DataFusion widens the type before adding; the engine adds in 128 bits.
    let wide = |to: &DataType| matches!(to, DataType::Int64 | DataType::UInt64 | DataType::Float64);
    match name {
        "count" if cast.is_none() => Some(Output::Count(field)),
        "min" if cast.is_none() => Some(Output::Min(field)),
        "max" if cast.is_none() => Some(Output::Max(field)),
        "sum" if cast.is_none_or(wide) => Some(Output::Sum(field)),
        "avg" if cast.is_none_or(wide) && !column.column_type.is_decimal() => Some(Output::Avg(field)),
        _ => None,
    }
}

/// The column whose newest value a function returns: `last(value, time)`, or the expansion of
/// DISTINCT ON, which is the first value in descending order of time or the last in ascending
/// order.
fn newest(scan: &FleetScan, function: &AggregateFunctionExpr) -> Option<usize> {
    let table = scan.table();
    let place = |expr: &Arc<dyn PhysicalExpr>| scan.place(expr.downcast_ref::<Column>()?.index());
    let arguments = function.expressions();
    let value = place(arguments.first()?)?;
    let by_time = |falling: bool| {
        // Within a container, the key columns are constant, so sorting by them has no effect.
        let mut order =
            function.order_bys().iter().filter(|sort| !place(&sort.expr).is_some_and(|p| table.key.contains(&p)));
        let time = order.next().is_some_and(|sort| {
            table.time.is_some() && place(&sort.expr) == table.time && sort.options.descending == falling
        });
        time && order.next().is_none()
    };
    let is_newest = match function.fun().name() {
        "last" => arguments.len() == 2 && table.time.is_some() && place(&arguments[1]) == table.time,
        "first_value" => !function.ignore_nulls() && by_time(true),
        "last_value" => !function.ignore_nulls() && by_time(false),
        _ => false,
    };
    (is_newest && !function.is_distinct()).then_some(value)
}

/// One output value. Without rows, only counts have a value.
fn value(output: Output, row: Option<&ContainerSummary>, data_type: &DataType) -> Result<ScalarValue> {
    let amount = |field: usize| row.and_then(|row| row.amounts.get(field)).filter(|amount| amount.count > 0);
    let count = |count: u64| i64::try_from(count).map(|count| ScalarValue::Int64(Some(count)));
    let known = match output {
        Output::Rows => count(row.map_or(0, |row| row.rows)).ok(),
        Output::Count(field) => count(amount(field).map_or(0, |amount| amount.count)).ok(),
        Output::FirstTime => row.map(|row| ScalarValue::Int64(Some(row.times.0))),
        Output::LastTime => row.map(|row| ScalarValue::Int64(Some(row.times.1))),
        Output::Key(key) => row.and_then(|row| row.key.get(key)).map(scalar),
        Output::Min(field) => amount(field).map(|amount| scalar(&amount.min)),
        Output::Max(field) => amount(field).map(|amount| scalar(&amount.max)),
        Output::Sum(field) => amount(field).map(|amount| total(amount, data_type)).transpose()?,
        // This is a column of a row, not a total of a container.
        Output::Last(_) => None,
        Output::Avg(field) => amount(field).map(|amount| {
            let sum = match amount.sum {
                ColumnSum::Float(sum) => sum,
                ColumnSum::Integer(sum) => sum as f64,
                ColumnSum::Decimal { unscaled, scale } => unscaled as f64 / 10f64.powi(i32::from(scale)),
            };
            ScalarValue::Float64(Some(sum / amount.count as f64))
        }),
    };
    match known {
        Some(known) => known.cast_to(data_type),
        None => ScalarValue::try_from(data_type),
    }
}

fn total(amount: &ColumnTotals, data_type: &DataType) -> Result<ScalarValue> {
    Ok(match amount.sum {
        ColumnSum::Float(sum) => ScalarValue::Float64(Some(sum)),
        ColumnSum::Integer(sum) if data_type.is_floating() => ScalarValue::Float64(Some(sum as f64)),
        ColumnSum::Integer(sum) if *data_type == DataType::UInt64 => {
            ScalarValue::UInt64(Some(UInt64Type::narrow(sum)?))
        }
        ColumnSum::Integer(sum) => ScalarValue::Int64(Some(Int64Type::narrow(sum)?)),
        ColumnSum::Decimal { unscaled, scale } => ScalarValue::Decimal128(Some(unscaled), 38, scale as i8),
    })
}

impl fmt::Debug for ContainerAggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContainerAggregate({:?})", self.outputs)
    }
}

impl DisplayAs for ContainerAggregate {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "ContainerAggregate: [{}], {}", names.join(", "), self.scan.describe())
    }
}

impl ExecutionPlan for ContainerAggregate {
    fn name(&self) -> &'static str {
        "ContainerAggregate"
    }

    leaf_plan!();

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (answer, mut parts) = (self.clone(), self.answer()?);
        let batches = std::iter::from_fn(move || answer.next(&mut parts).transpose());
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(batches))))
    }
}
