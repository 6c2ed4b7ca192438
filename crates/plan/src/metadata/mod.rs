//! Answers aggregates over whole containers from the container index, without reading their rows.
//!
//! 1. `count`, `sum`, `min`, `max` and `avg` over a scan, without GROUP BY or grouped by all key
//!    columns, become [`ContainerAggregate`], which EXPLAIN shows. The same applies to queries for
//!    the newest row of every container (`last(value, time)` by key, `DISTINCT ON (key) ... ORDER
//!    BY key, time DESC`). The engine takes what it can from the container index of each segment,
//!    and aggregates the rows that a time bound cuts off.
//! 2. If rows are grouped by all key columns and `time_bucket`, and a container has many rows in a
//!    bucket, the engine adds up the values of each bucket without making batches of rows.
//!
//! The engine handles deletes, overlaps and retention as a scan does, so the results are exact.

mod outputs;

use crate::plan_nodes::leaf_plan;
use crate::scan::FleetScan;
use crate::time_buckets::bucket_spans;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use fleetdb_engine::{BucketSummaries, BucketTotals, ContainerSummaries, ContainerSummary, LastRows};
use fleetdb_functions::bucket::BucketSpans;
use fleetdb_functions::errors::{engine_error, query_error};
use outputs::Output;
pub use outputs::counts_rows;
use std::fmt;
use std::sync::Arc;

/// Number of containers processed per batch.
const BATCH_ROWS: usize = 8_192;

/// If a container has fewer rows in a bucket, batches of rows are aggregated faster.
const MIN_BUCKET_ROWS: u64 = 32;

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

/// The state of an answer.
enum Parts {
    Newest(LastRows),
    Groups(ContainerSummaries),
    Buckets(BucketSummaries),
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
    /// The time buckets by which rows are grouped as well.
    buckets: Option<Arc<BucketSpans>>,
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
        if !whole || !plain || aggregate.group_expr().has_grouping_set() {
            return None;
        }
        let table = scan.table();
        let (mut outputs, mut fields, mut buckets) = (Vec::new(), Vec::new(), None);
        for (expr, _) in aggregate.group_expr().expr() {
            if let Some(column) = expr.downcast_ref::<Column>() {
                let place = scan.place(column.index())?;
                outputs.push(Output::Key(table.key.iter().position(|key| *key == place)?));
            } else {
                // A second bucket would divide the first.
                let previous = buckets.replace(Arc::new(long_buckets(scan, expr)?));
                outputs.push(previous.is_none().then_some(Output::Bucket)?);
            }
        }
        let mut grouped: Vec<usize> =
            outputs.iter().filter_map(|out| if let Output::Key(key) = out { Some(*key) } else { None }).collect();
        grouped.sort_unstable();
        grouped.dedup();
        // Several containers would have to be combined into a group.
        let is_whole_key = grouped.len() == table.key.len();
        if !is_whole_key && (buckets.is_some() || !grouped.is_empty()) || table.time.is_none() {
            return None;
        }
        for function in aggregate.aggr_expr() {
            outputs.push(Output::of(scan, function, &mut fields)?);
        }
        let newest = outputs.iter().any(|out| matches!(out, Output::Last(_)));
        let of_rows = |out: &Output| matches!(out, Output::Last(_) | Output::LastTime | Output::Key(_));
        if newest && (grouped.is_empty() || buckets.is_some() || !outputs.iter().all(of_rows)) {
            return None;
        }
        let schema = aggregate.schema();
        // Containers arrive in key order, like the groups of a streaming aggregate.
        let properties = Arc::clone(aggregate.properties());
        let grouped = !grouped.is_empty() || buckets.is_some();
        Some(Self { newest, scan: scan.clone(), fields, outputs, grouped, buckets, schema, properties })
    }

    /// The scan, and the time buckets in an output column.
    pub(crate) fn buckets_in(&self, column: usize) -> Option<(&FleetScan, &BucketSpans)> {
        let buckets = self.buckets.as_deref().filter(|_| matches!(self.outputs.get(column), Some(Output::Bucket)));
        buckets.map(|buckets| (&self.scan, buckets))
    }

    /// The same for rows from a time on.
    pub(crate) fn since(&self, from: i64) -> Self {
        Self { scan: self.scan.since(from), ..self.clone() }
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
                bucket: None,
                rows,
                times: (0, 0),
                amounts: Vec::new(),
            })));
        }
        if let Some(buckets) = &self.buckets {
            let spans = Arc::clone(buckets);
            let totals = BucketTotals {
                columns: self.fields.clone(),
                extremes: self.outputs.iter().any(|out| matches!(out, Output::Min(_) | Output::Max(_))),
                bucket_of: Arc::new(move |time| spans.span(time).map_err(engine_error)),
            };
            return Ok(Parts::Buckets(view.buckets(&request, &totals).map_err(query_error)?));
        }
        let of_times = |out: &Output| matches!(out, Output::LastTime | Output::Key(_));
        let containers = match self.outputs.iter().all(of_times) {
            true => view.last_times(&request),
            false => view.containers(&request, &self.fields),
        };
        let containers = containers.map_err(query_error)?;
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
            Parts::Buckets(buckets) => {
                let Some(groups) = buckets.next().transpose().map_err(query_error)? else { return Ok(None) };
                let groups: Vec<_> = groups.into_iter().map(Some).collect();
                Ok(Some(match groups.is_empty() {
                    true => RecordBatch::new_empty(Arc::clone(&self.schema)),
                    false => self.batch(&groups)?,
                }))
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
        let outputs = self.outputs.iter().zip(self.schema.fields());
        let columns = outputs.map(|(output, field)| output.column(rows, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// The buckets of a group expression; `None` if it has none, or if a container has few rows in a
/// bucket.
fn long_buckets(scan: &FleetScan, expr: &Arc<dyn PhysicalExpr>) -> Option<BucketSpans> {
    let spans = bucket_spans(scan, expr)?;
    let (first, last) = scan.segments().times?;
    let width = spans.span(last).ok().map(|span| span.end.abs_diff(span.start))?;
    let buckets = (last.abs_diff(first) / width.max(1)).saturating_add(1);
    (scan.segments().rows_of_container() / buckets >= MIN_BUCKET_ROWS).then_some(spans)
}

fn merge(all: &mut ContainerSummary, other: &ContainerSummary) {
    all.rows += other.rows;
    all.times = (all.times.0.min(other.times.0), all.times.1.max(other.times.1));
    all.amounts.iter_mut().zip(&other.amounts).for_each(|(all, other)| all.merge(other));
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
