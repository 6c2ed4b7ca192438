//! Reads the newest time buckets first, if only these are wanted.
//!
//! `... GROUP BY time_bucket('1 minute', ts) AS minute ORDER BY minute DESC LIMIT 5` would
//! aggregate all rows. [`NewestBuckets`] runs its plan for the rows of the newest buckets only. If
//! these give fewer rows than the limit, it goes back [`WIDENING`] times as far, or at once to the
//! first row if that would be more than half of the way. Rows of an older bucket come later in the
//! order, so they cannot belong to the answer.

use crate::metadata::ContainerAggregate;
use crate::plan_nodes::pass_through_plan;
use crate::runs::RunAggregate;
use crate::scan::FleetScan;
use crate::time_buckets::bucket_spans;
use arrow::array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, common};
use fleetdb_functions::bucket::BucketSpans;
use futures::TryStreamExt;
use std::fmt;
use std::sync::Arc;

/// With a larger limit, all rows are read at once.
const MAX_LIMIT: usize = 1_000;
/// A smaller table is read at once.
const MIN_ROWS: u64 = 50_000;
/// How many times as far the next attempt goes back.
const WIDENING: i64 = 8;

/// The optimizer rule. See the module documentation.
#[derive(Debug)]
pub(crate) struct NewestBucketsFirst;

impl PhysicalOptimizerRule for NewestBucketsFirst {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            Ok(match NewestBuckets::of(&plan) {
                Some(newest) => Transformed::yes(Arc::new(newest)),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "newest_buckets_first"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Outputs the first rows of a sort by falling time buckets.
#[derive(Clone, Debug)]
struct NewestBuckets {
    /// The sort.
    input: Arc<dyn ExecutionPlan>,
    limit: usize,
    buckets: BucketSpans,
    /// The scan below the sort.
    scan: FleetScan,
    properties: Arc<PlanProperties>,
}

impl NewestBuckets {
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let sort = plan.downcast_ref::<SortExec>()?;
        let limit = sort.fetch().filter(|limit| (1..=MAX_LIMIT).contains(limit))?;
        let first = sort.expr().first();
        let column = first.expr.downcast_ref::<Column>().filter(|_| first.options.descending)?;
        let (scan, buckets) = buckets_in(sort.input(), column.index())?;
        if scan.max_rows() < MIN_ROWS || !scan.may_be_narrowed() {
            return None;
        }
        let (input, properties) = (Arc::clone(plan), Arc::clone(plan.properties()));
        Some(Self { input, limit, buckets, scan, properties })
    }

    /// The plan, with nothing kept of earlier runs, for rows from a time on; `None` means all rows.
    fn input_from(&self, from: Option<i64>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = reset_plan_states(Arc::clone(&self.input))?;
        let Some(from) = from else { return Ok(input) };
        let narrow = |plan: Arc<dyn ExecutionPlan>| {
            let narrowed: Arc<dyn ExecutionPlan> = if let Some(scan) = plan.downcast_ref::<FleetScan>() {
                Arc::new(scan.since(from))
            } else if let Some(aggregate) = plan.downcast_ref::<ContainerAggregate>() {
                Arc::new(aggregate.since(from))
            } else {
                return Ok(Transformed::no(plan));
            };
            Ok(Transformed::yes(narrowed))
        };
        input.transform_up(narrow).data()
    }

    async fn rows(&self, partition: usize, context: Arc<TaskContext>) -> Result<Vec<RecordBatch>> {
        let (view, request) = self.scan.current()?;
        let Some((first, last)) = view.time_bounds() else { return Ok(Vec::new()) };
        let (first, last) = (first.max(request.from.unwrap_or(first)), last.min(request.to.unwrap_or(last)));
        if last < first {
            return Ok(Vec::new());
        }
        let mut from = self.start_of_newest(first, last);
        loop {
            // An attempt over most of the rows, with another one after it, would take twice the
            // time.
            from = from.filter(|from| last.abs_diff(*from) <= last.abs_diff(first) / 2);
            let input = self.input_from(from)?;
            let rows = common::collect(input.execute(partition, Arc::clone(&context))?).await?;
            let Some(start) = from.filter(|_| rows.iter().map(RecordBatch::num_rows).sum::<usize>() < self.limit)
            else {
                return Ok(rows);
            };
            let back = last.saturating_sub(start).max(1).checked_mul(WIDENING);
            from = back.and_then(|back| self.start_of(last.checked_sub(back)?));
        }
    }

    /// The start of the bucket that contains a time; `None` if a timestamp cannot hold it, or if
    /// the bucket might begin earlier, as where clocks go back.
    fn start_of(&self, time: i64) -> Option<i64> {
        let start = self.buckets.span(time).ok()?.start;
        self.buckets.span(start).is_ok_and(|of_start| of_start.start == start).then_some(start)
    }

    /// The start of as many buckets as the limit, up to the last time; `None` as for
    /// [`start_of`](Self::start_of).
    fn start_of_newest(&self, first: i64, last: i64) -> Option<i64> {
        let mut start = self.start_of(last)?;
        for _ in 1..self.limit {
            if start <= first {
                break;
            }
            start = self.start_of(start.checked_sub(1)?)?;
        }
        Some(start)
    }
}

/// The scan below a plan, and the time buckets in a column of the plan. `None` if the plan does
/// more than to group, to filter and to compute columns.
fn buckets_in(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<(FleetScan, BucketSpans)> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let of_input = projection.expr().get(column)?.expr.downcast_ref::<Column>()?;
        return buckets_in(projection.input(), of_input.index());
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let is_plain = filter.projection().is_none() && filter.fetch().is_none();
        return is_plain.then(|| buckets_in(filter.input(), column)).flatten();
    }
    if plan.is::<CooperativeExec>() {
        return buckets_in(plan.children().first()?, column);
    }
    if let Some(aggregate) = plan.downcast_ref::<ContainerAggregate>() {
        return aggregate.buckets_in(column).map(|(scan, buckets)| (scan.clone(), buckets.clone()));
    }
    let (group, input) = match (plan.downcast_ref::<RunAggregate>(), plan.downcast_ref::<AggregateExec>()) {
        (Some(runs), _) => (runs.groups().get(column)?, runs.input()),
        (_, Some(aggregate)) if !aggregate.group_expr().has_grouping_set() => {
            (&aggregate.group_expr().expr().get(column)?.0, aggregate.input())
        }
        _ => return None,
    };
    buckets_of_group(group, input)
}

/// The same for a group expression over an aggregate's input.
fn buckets_of_group(group: &Arc<dyn PhysicalExpr>, input: &Arc<dyn ExecutionPlan>) -> Option<(FleetScan, BucketSpans)> {
    if let Some(scan) = FleetScan::of(input) {
        return Some((scan.clone(), bucket_spans(scan, group)?));
    }
    let column = group.downcast_ref::<Column>()?.index();
    match input.downcast_ref::<ProjectionExec>() {
        Some(projection) => buckets_of_group(&projection.expr().get(column)?.expr, projection.input()),
        // The groups of runs are grouped again.
        None => input.is::<RunAggregate>().then(|| buckets_in(input, column)).flatten(),
    }
}

impl DisplayAs for NewestBuckets {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewestBuckets: limit={}", self.limit)
    }
}

impl ExecutionPlan for NewestBuckets {
    fn name(&self) -> &'static str {
        "NewestBuckets"
    }

    pass_through_plan!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let newest = self.clone();
        let rows = futures::stream::once(async move { newest.rows(partition, context).await });
        let rows = rows.map_ok(|rows| futures::stream::iter(rows.into_iter().map(Ok))).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
