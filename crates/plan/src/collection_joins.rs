//! Joins of a collection with the rows of its containers, such as meters with their readings.
//!
//! 1. [`BuildFromCollection`] makes the collection the side that a hash join keeps in memory. The other
//!    side has many rows for each key. DataFusion knows no row counts here, and keeps the first side.
//! 2. [`KeysFromJoin`] lets the scan of the other side read only the containers whose keys are in that
//!    memory: [`CollectKeys`] notes the keys while the join takes them, and the scan asks for them when
//!    the join asks for its first row. That is after the join has taken all rows of the first side.

use crate::join_keys::JoinKeys;
use crate::plan_nodes::pass_through_plan;
use crate::pushdown::key_value;
use crate::scan::FleetScan;
use arrow::array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, NullEquality, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use fleetdb_engine::Column as TableColumn;
use futures::StreamExt;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// With more keys, a scan reads all containers.
const MAX_KEYS: usize = 1_000;

/// A larger collection is not made the side that is kept in memory.
const MAX_BUILD_ROWS: u64 = 100_000;

/// The rule that makes a collection the side of a hash join that is kept in memory.
#[derive(Debug)]
pub(crate) struct BuildFromCollection;

impl PhysicalOptimizerRule for BuildFromCollection {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(plan)) };
            let is_swapped = matches!(join.join_type(), JoinType::Inner | JoinType::LeftSemi | JoinType::Right)
                && *join.partition_mode() == PartitionMode::CollectLeft
                && !join.null_aware
                && scan_of(join.left()).zip(scan_of(join.right())).is_some_and(|(left, right)| is_smaller(right, left));
            match is_swapped {
                true => join.swap_inputs(PartitionMode::CollectLeft).map(Transformed::yes),
                false => Ok(Transformed::no(plan)),
            }
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "build_from_collection"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan whose rows a plan gives; `None` if it does more than to leave some out.
fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&FleetScan> {
    let is_transparent = plan.is::<FilterExec>() || plan.is::<ProjectionExec>() || plan.is::<CooperativeExec>();
    if is_transparent { scan_of(plan.children().first()?) } else { plan.downcast_ref() }
}

/// Whether a scan of a collection has fewer rows than one of a table with times, and few enough for
/// memory.
fn is_smaller(collection: &FleetScan, series: &FleetScan) -> bool {
    collection.table().time.is_none()
        && series.table().time.is_some()
        && collection.max_rows() <= series.max_rows().min(MAX_BUILD_ROWS)
}

/// The rule that gives scans the keys of joins.
#[derive(Debug)]
pub(crate) struct KeysFromJoin;

impl PhysicalOptimizerRule for KeysFromJoin {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let with_keys = plan.downcast_ref::<HashJoinExec>().map(with_keys).transpose()?.flatten();
            Ok(with_keys.map_or_else(|| Transformed::no(plan), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "keys_from_join"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A join whose second side reads the containers that its first side names; `None` if it cannot.
fn with_keys(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // Rows of the second side that have no partner must not be in the output.
    let is_narrowing =
        matches!(join.join_type(), JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::RightSemi);
    let is_collected = *join.partition_mode() == PartitionMode::CollectLeft
        && join.null_equality() == NullEquality::NullEqualsNothing
        && !join.null_aware;
    let Some(scan) = FleetScan::of(join.right()) else { return Ok(None) };
    if !is_narrowing || !is_collected || !scan.may_be_narrowed() {
        return Ok(None);
    }
    // A column with one value in all rows narrows the scan already.
    let fixed = scan.fixed()?;
    let key_place = |(of_left, of_right): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| {
        let place = scan.place(of_right.downcast_ref::<Column>()?.index())?;
        (scan.table().key.contains(&place) && !fixed.contains(&place)).then(|| (Arc::clone(of_left), place))
    };
    let Some((expr, place)) = join.on().iter().find_map(key_place) else { return Ok(None) };
    let keys = Arc::new(JoinKeys::of(place));
    let column = scan.table().columns[place].clone();
    let (input, properties) = (Arc::clone(join.left()), Arc::clone(join.left().properties()));
    let left = CollectKeys { input, expr, column, keys: Arc::clone(&keys), properties };
    let right = scan.with_keys(keys).in_place_of(join.right());
    join.builder().with_new_children(vec![Arc::new(left), right])?.build_exec().map(Some)
}

/// Passes rows on and notes the keys in them.
#[derive(Clone)]
struct CollectKeys {
    input: Arc<dyn ExecutionPlan>,
    expr: Arc<dyn PhysicalExpr>,
    column: TableColumn,
    keys: Arc<JoinKeys>,
    properties: Arc<PlanProperties>,
}

/// The keys while they are noted.
struct Noted {
    expr: Arc<dyn PhysicalExpr>,
    column: TableColumn,
    keys: Arc<JoinKeys>,
    /// `None` if there are too many.
    distinct: Option<HashSet<ScalarValue>>,
}

impl Noted {
    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let Some(distinct) = &mut self.distinct else { return Ok(()) };
        let values = self.expr.evaluate(rows)?.into_array(rows.num_rows())?;
        for row in 0..values.len() {
            let value = ScalarValue::try_from_array(&values, row)?;
            if !value.is_null() && distinct.len() <= MAX_KEYS {
                distinct.insert(value);
            }
        }
        if distinct.len() > MAX_KEYS {
            self.distinct = None;
        }
        Ok(())
    }

    /// Tells the scan the keys.
    fn finish(&mut self) {
        let values = self.distinct.take();
        let keys = values.and_then(|values| values.iter().map(|value| key_value(&self.column, value)).collect());
        self.keys.set(keys);
    }
}

impl ExecutionPlan for CollectKeys {
    fn name(&self) -> &'static str {
        "CollectKeys"
    }

    pass_through_plan!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        // The keys of an earlier run are not those of this one.
        self.keys.set(None);
        let input = self.input.execute(partition, context)?;
        let (expr, column, keys) = (Arc::clone(&self.expr), self.column.clone(), Arc::clone(&self.keys));
        let noted = Noted { expr, column, keys, distinct: Some(HashSet::new()) };
        let schema = input.schema();
        let rows = futures::stream::unfold((input, noted), |(mut input, mut noted)| async {
            let rows = match input.next().await {
                None => {
                    noted.finish();
                    return None;
                }
                Some(rows) => rows.and_then(|rows| noted.add(&rows).map(|()| rows)),
            };
            Some((rows, (input, noted)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

impl fmt::Debug for CollectKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CollectKeys({})", self.expr)
    }
}

impl DisplayAs for CollectKeys {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CollectKeys: {}", self.expr)
    }
}
