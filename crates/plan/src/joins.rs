//! Makes joins cancellable. DataFusion's joins compare each batch of one side with all
//! of the other side, which may take hours without producing rows. Meanwhile they neither check
//! whether the statement was cancelled nor yield to a task that does ([`crate::limits`]).
//!
//! The rule [`StopInJoins`] makes a join yield after some batches, and makes its condition check
//! the limits: the condition is evaluated for one batch of pairs at a time. It also makes the batches
//! of cross joins small if rows are wide ([`crate::wide_rows`]).

use crate::limits::Limits;
use crate::wide_rows::bounded;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use fleetdb_functions::errors::query_error;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The optimizer rule, with the limits of the session.
#[derive(Debug)]
pub(crate) struct StopInJoins(pub(crate) Arc<Limits>);

impl StopInJoins {
    fn condition(&self, filter: &JoinFilter) -> JoinFilter {
        let asked = Watched { condition: Arc::clone(filter.expression()), limits: Arc::clone(&self.0) };
        JoinFilter::new(Arc::new(asked), filter.column_indices().to_vec(), Arc::clone(filter.schema()))
    }

    /// The cancellable form of a plan node, if it is a join.
    fn join(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            let filter = join.filter().map(|filter| self.condition(filter));
            return Ok(Some(Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?)));
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let filter = join.filter().map(|filter| self.condition(filter));
            return Ok(Some(join.builder().with_filter(filter).build_exec()?));
        }
        if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
            return Ok(Some(bounded(join)));
        }
        Ok(plan.is::<SortMergeJoinExec>().then(|| Arc::clone(plan)))
    }
}

impl PhysicalOptimizerRule for StopInJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            Ok(match self.join(&plan)? {
                Some(join) => Transformed::yes(Arc::new(CooperativeExec::new(join))),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "stop_in_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A join condition that fails once the statement is cancelled.
#[derive(Debug)]
struct Watched {
    condition: Arc<dyn PhysicalExpr>,
    limits: Arc<Limits>,
}

impl PhysicalExpr for Watched {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.condition.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.condition.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.condition.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.limits.watch().stopped() {
            Some(stopped) => Err(query_error(stopped)),
            None => self.condition.evaluate(batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let limits = &self.limits;
        Ok(children.into_iter().next().map_or_else(
            || Arc::clone(&self) as Arc<dyn PhysicalExpr>,
            |condition| Arc::new(Self { condition, limits: Arc::clone(limits) }),
        ))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}
