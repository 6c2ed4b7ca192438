//! Operators of DataFusion that run without counters.

use super::few_sorted;
use crate::plan_nodes::plan_basics;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// The operator that runs as this one does, but without counters, if there is one.
pub(super) fn uncounted(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return Some(Uncounted::of(projection));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some(Uncounted::of(filter));
    }
    if let Some(count) = plan.downcast_ref::<AggregateExec>().filter(|aggregate| counts_rows(aggregate)) {
        return Some(Uncounted::of(count));
    }
    let sorts_one = |sort: &&SortExec| sort.input().output_partitioning().partition_count() == 1;
    Some(Uncounted::of(plan.downcast_ref::<SortExec>().filter(sorts_one)?))
}

/// Whether a node is one that [`uncounted`] made.
pub(super) fn is_uncounted(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<Uncounted<ProjectionExec>>()
        || plan.is::<Uncounted<FilterExec>>()
        || plan.is::<Uncounted<AggregateExec>>()
        || plan.is::<Uncounted<SortExec>>()
}

/// Whether an aggregate only counts the rows of its input, of which it reads one partition.
fn counts_rows(aggregate: &AggregateExec) -> bool {
    aggregate.group_expr().is_empty()
        && *aggregate.mode() == AggregateMode::Single
        && aggregate.limit_options().is_none()
        && aggregate.filter_expr().iter().all(Option::is_none)
        && aggregate.input().output_partitioning().partition_count() == 1
        && aggregate.aggr_expr().iter().all(|function| {
            let is_value = |argument: &Arc<dyn PhysicalExpr>| {
                argument.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
            };
            function.fun().name() == "count"
                && !function.is_distinct()
                && function.order_bys().is_empty()
                && matches!(function.expressions().as_slice(), [argument] if is_value(argument))
        })
}

/// An operator with one input that can run without counters.
trait Operator: ExecutionPlan + Clone {
    /// Its rows, given those of its input.
    fn rows(&self, input: SendableRecordBatchStream, context: Arc<TaskContext>) -> SendableRecordBatchStream;
}

/// An operator that runs without counters.
#[derive(Debug)]
struct Uncounted<O> {
    operator: O,
    properties: Arc<PlanProperties>,
}

impl<O: Operator> Uncounted<O> {
    fn of(operator: &O) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { operator: operator.clone(), properties: Arc::clone(operator.properties()) })
    }
}

impl<O: DisplayAs> DisplayAs for Uncounted<O> {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operator.fmt_as(format, f)
    }
}

impl<O: Operator> ExecutionPlan for Uncounted<O> {
    fn name(&self) -> &'static str {
        "Uncounted"
    }

    plan_basics!();

    fn maintains_input_order(&self) -> Vec<bool> {
        self.operator.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.operator.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.operator.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let operator = Arc::new(self.operator.clone()).replace_children(children, options)?;
        Ok(operator.downcast_ref::<O>().map_or(Arc::clone(&operator), Self::of))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.operator.children()[0].execute(partition, Arc::clone(&context))?;
        Ok(self.operator.rows(input, context))
    }
}

impl Operator for ProjectionExec {
    fn rows(&self, input: SendableRecordBatchStream, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let exprs: Vec<_> = self.expr().iter().map(|of_column| Arc::clone(&of_column.expr)).collect();
        let schema = self.schema();
        let rows = input.map(move |batch| {
            let batch = batch?;
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = evaluate_expressions_to_arrays(&exprs, &batch)?;
            Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?)
        });
        Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows))
    }
}

impl Operator for FilterExec {
    fn rows(&self, input: SendableRecordBatchStream, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (predicate, projection) = (Arc::clone(self.predicate()), self.projection().clone());
        let most = self.fetch().unwrap_or(usize::MAX);
        let rows = futures::stream::try_unfold((input, most), move |(mut input, most)| {
            let (predicate, projection) = (Arc::clone(&predicate), projection.clone());
            async move {
                while most > 0
                    && let Some(batch) = input.try_next().await?
                {
                    let wanted = predicate.evaluate(&batch)?.into_array(batch.num_rows())?;
                    let batch = match &projection {
                        Some(columns) => batch.project(columns)?,
                        None => batch,
                    };
                    let kept = filter_record_batch(&batch, as_boolean_array(&wanted)?)?;
                    if kept.num_rows() > 0 {
                        let kept = kept.slice(0, kept.num_rows().min(most));
                        let rest = most - kept.num_rows();
                        return Ok(Some((kept, (input, rest))));
                    }
                }
                Ok(None)
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows))
    }
}

/// An aggregate that [counts rows](counts_rows).
impl Operator for AggregateExec {
    fn rows(&self, mut input: SendableRecordBatchStream, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = self.schema();
        let count = async move {
            let mut rows = 0;
            while let Some(batch) = input.try_next().await? {
                rows += batch.num_rows() as i64;
            }
            let columns = schema.fields().iter().map(|_| Arc::new(Int64Array::from(vec![rows])) as ArrayRef);
            let options = RecordBatchOptions::new().with_row_count(Some(1));
            Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns.collect(), &options)?)
        };
        Box::pin(RecordBatchStreamAdapter::new(self.schema(), futures::stream::once(count)))
    }
}

impl Operator for SortExec {
    fn rows(&self, input: SendableRecordBatchStream, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        few_sorted::rows(self, input, context)
    }
}
