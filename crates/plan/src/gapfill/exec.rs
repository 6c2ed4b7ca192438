//! Fills the gaps. Input groups arrive sorted by series and time; buckets leave in the same order.

use super::series::{Series, ranges};
use super::shape::Shape;
use crate::plan_nodes::{no_expressions, one_partition, plan_basics};
use arrow::array::RecordBatch;
use arrow::compute::{SortOptions, concat_batches};
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalSortExpr};
use datafusion::physical_plan::distribution_requirements::InputDistributionRequirements;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Executes gap filling. See the module documentation.
#[derive(Debug)]
pub(super) struct GapFillExec {
    input: Arc<dyn ExecutionPlan>,
    shape: Shape,
    /// The start of each bucket in the time column's unit, ascending.
    starts: Arc<[i64]>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl GapFillExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        shape: Shape,
        starts: Arc<[i64]>,
        schema: SchemaRef,
    ) -> Result<Self> {
        let ordering = shape.series.iter().chain([&shape.time]).map(|&place| rising(&schema, place));
        let equivalence =
            EquivalenceProperties::new_with_orderings(Arc::clone(&schema), [ordering.collect::<Vec<_>>()]);
        Ok(Self { input, shape, starts, schema, properties: one_partition(equivalence) })
    }
}

fn rising(schema: &SchemaRef, place: usize) -> PhysicalSortExpr {
    PhysicalSortExpr::new(Arc::new(Column::new(schema.field(place).name(), place)), SortOptions::default())
}

impl DisplayAs for GapFillExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |place: &usize| self.schema.field(*place).name().as_str();
        let series: Vec<&str> = self.shape.series.iter().map(name).collect();
        let fills: Vec<&str> = self.shape.fills.iter().map(|(place, _)| name(place)).collect();
        write!(f, "GapFill: series=[{}], buckets={}", series.join(", "), self.starts.len())?;
        write!(f, ", filled=[{}]", fills.join(", "))
    }
}

impl ExecutionPlan for GapFillExec {
    fn name(&self) -> &'static str {
        "GapFill"
    }

    plan_basics!();

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let schema = self.input.schema();
        let column = |&place: &usize| rising(&schema, place);
        let before = self.shape.before.map(|place| {
            let options = SortOptions { descending: true, nulls_first: false };
            PhysicalSortExpr { options, ..rising(&schema, place) }
        });
        let order = self.shape.series.iter().map(column).chain(before).chain([column(&self.shape.time)]);
        vec![LexOrdering::new(order).map(OrderingRequirements::from)]
    }

    no_expressions!();

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| DataFusionError::Internal("GapFill has one input".to_owned()))?;
        let (starts, schema) = (Arc::clone(&self.starts), Arc::clone(&self.schema));
        Ok(Arc::new(Self::new(input, self.shape.clone(), starts, schema)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let filler = Filler {
            input: self.input.execute(partition, Arc::clone(&context))?,
            shape: self.shape.clone(),
            starts: Arc::clone(&self.starts),
            schema: Arc::clone(&self.schema),
            pending: None,
            series: None,
            is_shown: false,
            memory: MemoryConsumer::new("GapFill").register(context.memory_pool()),
        };
        let batches = futures::stream::try_unfold(filler, |mut filler| async {
            Ok(filler.next().await?.map(|batch| (batch, filler)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }
}

/// The state of one execution.
struct Filler {
    input: SendableRecordBatchStream,
    shape: Shape,
    starts: Arc<[i64]>,
    schema: SchemaRef,
    /// Rows of the last series, which may not be complete yet.
    pending: Option<RecordBatch>,
    /// Complete series whose buckets are not all output yet.
    series: Option<Series>,
    /// Whether any series has been output.
    is_shown: bool,
    memory: MemoryReservation,
}

impl Filler {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(series) = &mut self.series {
                if let Some(batch) = series.next(&self.shape, &self.starts, &self.schema)? {
                    return Ok(Some(batch));
                }
                self.series = None;
            }
            let complete = match self.input.next().await.transpose()? {
                Some(batch) => self.complete(batch)?,
                None => match self.pending.take() {
                    Some(last) => Some(last),
                    // Without series columns, all buckets are output even if there are no rows.
                    None if self.shape.series.is_empty() && !self.is_shown => {
                        Some(RecordBatch::new_empty(self.input.schema()))
                    }
                    None => return Ok(None),
                },
            };
            if let Some(rows) = complete {
                self.is_shown = true;
                self.series = Some(Series::new(rows, &self.shape)?);
            }
        }
    }

    /// Returns the rows of all series that are now complete.
    fn complete(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let rows = match self.pending.take() {
            Some(pending) => concat_batches(&batch.schema(), [&pending, &batch])?,
            None => batch,
        };
        self.memory.try_resize(rows.get_array_memory_size())?;
        let end = if self.shape.series.is_empty() {
            0
        } else {
            ranges(&rows, &self.shape)?.pop().map_or(0, |last| last.start)
        };
        self.pending = Some(rows.slice(end, rows.num_rows() - end));
        Ok((end > 0).then(|| rows.slice(0, end)))
    }
}
