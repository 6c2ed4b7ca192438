//! Executes the join: merges both inputs, each sorted by key and time, in a single pass.

use super::matching::Match;
use crate::plan_nodes::{one_partition, plan_basics};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{SortOptions, interleave};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::join_equivalence_properties;
use datafusion::physical_expr::{LexOrdering, OrderingRequirements, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::distribution_requirements::InputDistributionRequirements;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

type Pair = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// Executes an ASOF join. See the module documentation.
#[derive(Debug)]
pub(super) struct AsofJoinExec {
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    /// The pairs of key columns, then the pair of time columns.
    on: Vec<Pair>,
    matches: Match,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl AsofJoinExec {
    pub(super) fn new(
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        on: Vec<Pair>,
        matches: Match,
        schema: SchemaRef,
    ) -> Result<Self> {
        let sides = [&left, &right].map(|side| side.equivalence_properties().clone());
        let [of_left, of_right] = sides;
        let keeps_order = [true, false];
        let kept = Some(JoinSide::Left);
        let equivalence = join_equivalence_properties(
            of_left,
            of_right,
            &JoinType::Left,
            Arc::clone(&schema),
            &keeps_order,
            kept,
            &[],
        )?;
        Ok(Self { left, right, on, matches, schema, properties: one_partition(equivalence) })
    }

    fn order(&self, of: impl Fn(&Pair) -> &Arc<dyn PhysicalExpr>) -> Option<OrderingRequirements> {
        let rising = |pair| PhysicalSortExpr::new(Arc::clone(of(pair)), SortOptions::default());
        LexOrdering::new(self.on.iter().map(rising)).map(OrderingRequirements::from)
    }
}

impl DisplayAs for AsofJoinExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (times, keys) = self.on.split_last().map_or((None, [].as_slice()), |(times, keys)| (Some(times), keys));
        f.write_str("AsofJoin:")?;
        for (left, right) in keys {
            write!(f, " {left} = {right},")?;
        }
        times.map_or(Ok(()), |(left, right)| write!(f, " {left} {} {right}", self.matches))
    }
}

impl ExecutionPlan for AsofJoinExec {
    fn name(&self) -> &'static str {
        "AsofJoin"
    }

    plan_basics!();

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; 2])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order(|(left, _)| left), self.order(|(_, right)| right)]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true, false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for expr in self.on.iter().flat_map(|(left, right)| [left, right]) {
            recursion = recursion.visit_sibling(|| f(expr))?;
        }
        Ok(recursion)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [left, right] = <[_; 2]>::try_from(children)
            .map_err(|_| DataFusionError::Internal("an ASOF JOIN has two inputs".to_owned()))?;
        Ok(Arc::new(Self::new(left, right, self.on.clone(), self.matches, Arc::clone(&self.schema))?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (left_on, right_on): (Vec<_>, Vec<_>) = self.on.iter().cloned().unzip();
        let sorter = Arc::new(Sorter::new(&left_on, &self.left.schema())?);
        let nothing = self.right.schema().fields().iter().map(|field| new_null_array(field.data_type(), 1)).collect();
        let join = Join {
            left: Side::new(self.left.execute(partition, Arc::clone(&context))?, left_on, &sorter),
            right: Side::new(self.right.execute(partition, context)?, right_on, &sorter),
            matches: self.matches,
            last: None,
            nothing,
            schema: Arc::clone(&self.schema),
        };
        let batches =
            futures::stream::try_unfold(join, |mut join| async { Ok(join.next().await?.map(|batch| (batch, join))) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }
}

/// Encodes the keys and times of either side as byte-comparable rows.
struct Sorter {
    keys: RowConverter,
    times: RowConverter,
}

impl Sorter {
    fn new(on: &[Arc<dyn PhysicalExpr>], schema: &SchemaRef) -> Result<Self> {
        let fields = on.iter().map(|expr| Ok(SortField::new(expr.data_type(schema)?)));
        let mut keys = fields.collect::<Result<Vec<_>>>()?;
        let times = keys.split_off(keys.len().saturating_sub(1));
        Ok(Self { keys: RowConverter::new(keys)?, times: RowConverter::new(times)? })
    }
}

/// One batch of a side, with its encoded keys and times.
struct Sorted {
    batch: RecordBatch,
    /// `None` if the join has no keys, only a time.
    keys: Option<Rows>,
    times: Rows,
    /// The key and time columns. A row with a NULL in any of them matches nothing.
    columns: Vec<ArrayRef>,
}

impl Sorted {
    fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    fn can_match(&self, row: usize) -> bool {
        self.columns.iter().all(|column| column.is_valid(row))
    }

    /// Compares two rows: the order of their keys, and the order by key, then time.
    fn cmp(&self, row: usize, other: &Self, other_row: usize) -> (Ordering, Ordering) {
        let keys = self.keys.as_ref().zip(other.keys.as_ref());
        let by_key = keys.map_or(Ordering::Equal, |(keys, others)| keys.row(row).cmp(&others.row(other_row)));
        (by_key, self.times.row(row).cmp(&other.times.row(other_row)))
    }
}

/// A cursor over one side's batches.
struct Side {
    input: SendableRecordBatchStream,
    on: Vec<Arc<dyn PhysicalExpr>>,
    sorter: Arc<Sorter>,
    /// The current batch and the next row in it.
    current: Option<(Arc<Sorted>, usize)>,
    ended: bool,
}

impl Side {
    fn new(input: SendableRecordBatchStream, on: Vec<Arc<dyn PhysicalExpr>>, sorter: &Arc<Sorter>) -> Self {
        Self { input, on, sorter: Arc::clone(sorter), current: None, ended: false }
    }

    /// The current batch, or the next non-empty one.
    async fn batch(&mut self) -> Result<Option<Arc<Sorted>>> {
        while !self.ended {
            let Some(batch) = self.input.next().await.transpose()? else {
                self.ended = true;
                break;
            };
            if batch.num_rows() == 0 {
                continue;
            }
            let columns = self.on.iter().map(|expr| expr.evaluate(&batch)?.into_array(batch.num_rows()));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let (keys, times) = columns.split_at(columns.len().saturating_sub(1));
            let keys = if keys.is_empty() { None } else { Some(self.sorter.keys.convert_columns(keys)?) };
            let times = self.sorter.times.convert_columns(times)?;
            return Ok(Some(Arc::new(Sorted { batch, keys, times, columns })));
        }
        Ok(None)
    }

    /// The next row, without consuming it.
    async fn row(&mut self) -> Result<Option<(Arc<Sorted>, usize)>> {
        if self.current.as_ref().is_none_or(|(batch, row)| *row >= batch.rows()) {
            self.current = self.batch().await?.map(|batch| (batch, 0));
        }
        Ok(self.current.clone())
    }

    fn pass(&mut self) {
        if let Some((_, row)) = &mut self.current {
            *row += 1;
        }
    }
}

/// The state of one execution.
struct Join {
    left: Side,
    right: Side,
    matches: Match,
    /// The last right row passed so far.
    last: Option<(Arc<Sorted>, usize)>,
    /// A row of NULLs, for left rows without a match.
    nothing: Vec<ArrayRef>,
    schema: SchemaRef,
}

impl Join {
    /// The next batch of the left side, joined with its matches.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(left) = self.left.batch().await? else { return Ok(None) };
        // The right batches that rows are taken from. Index 0 in `picked` means "no match".
        let mut sources: Vec<Arc<Sorted>> = Vec::new();
        let mut picked = Vec::with_capacity(left.rows());
        for row in 0..left.rows() {
            let ahead = self.advance(&left, row).await?;
            let candidate = match self.matches {
                Match::AtOrBefore | Match::Before => self.last.clone(),
                Match::AtOrAfter | Match::After => ahead,
            };
            let found = candidate.filter(|(right, at)| {
                left.can_match(row) && right.can_match(*at) && right.cmp(*at, &left, row).0 == Ordering::Equal
            });
            picked.push(match found {
                None => (0, 0),
                Some((right, at)) => {
                    if sources.last().is_none_or(|last| !Arc::ptr_eq(last, &right)) {
                        sources.push(right);
                    }
                    (sources.len(), at)
                }
            });
        }
        let of_right = self.nothing.iter().enumerate().map(|(place, nothing)| {
            let parts = sources.iter().map(|source| source.batch.column(place).as_ref());
            let parts: Vec<&dyn Array> = std::iter::once(nothing.as_ref()).chain(parts).collect();
            Ok(interleave(&parts, &picked)?)
        });
        let columns = left.batch.columns().iter().cloned().map(Ok).chain(of_right).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(left.rows()));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?))
    }

    /// Advances the right side to a left row; returns the first right row not passed.
    async fn advance(&mut self, left: &Sorted, row: usize) -> Result<Option<(Arc<Sorted>, usize)>> {
        let passes_equal = matches!(self.matches, Match::AtOrBefore | Match::After);
        while let Some((right, at)) = self.right.row().await? {
            let (by_key, by_time) = right.cmp(at, left, row);
            let passes = match by_key.then(by_time) {
                Ordering::Less => true,
                Ordering::Equal => passes_equal,
                Ordering::Greater => false,
            };
            if !passes {
                return Ok(Some((right, at)));
            }
            self.last = Some((right, at));
            self.right.pass();
        }
        Ok(None)
    }
}
