//! The logical plan node of an ASOF join.

use super::exec::AsofJoinExec;
use super::matching::Match;
use datafusion::catalog::Session;
use datafusion::common::{DFSchemaRef, JoinType, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::builder::build_join_schema;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// An ASOF join. See the module documentation.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AsofJoin {
    pub(super) left: LogicalPlan,
    pub(super) right: LogicalPlan,
    /// Pairs of a left and a right expression: the keys, then the times.
    pub(super) on: Vec<(Expr, Expr)>,
    pub(super) matches: Match,
    schema: DFSchemaRef,
}

impl AsofJoin {
    pub(super) fn new(left: LogicalPlan, right: LogicalPlan, on: Vec<(Expr, Expr)>, matches: Match) -> Result<Self> {
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &JoinType::Left)?);
        Ok(Self { left, right, on, matches, schema })
    }
}

impl PartialOrd for AsofJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

fn misplanned() -> DataFusionError {
    DataFusionError::Internal("an ASOF JOIN has two inputs and pairs of expressions".to_owned())
}

impl UserDefinedLogicalNodeCore for AsofJoin {
    fn name(&self) -> &'static str {
        "AsofJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.on.iter().flat_map(|(left, right)| [left, right]).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.on.len().saturating_sub(1);
        f.write_str("AsofJoin:")?;
        for (number, (left, right)) in self.on.iter().enumerate() {
            let sign = if number == last { self.matches.to_string() } else { "=".to_owned() };
            write!(f, "{} {left} {sign} {right}", if number > 0 { "," } else { "" })?;
        }
        Ok(())
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let [left, right] = <[LogicalPlan; 2]>::try_from(inputs).map_err(|_| misplanned())?;
        let (pairs, []) = exprs.as_chunks::<2>() else { return Err(misplanned()) };
        let on = pairs.iter().map(|[left, right]| (left.clone(), right.clone())).collect();
        Self::new(left, right, on, self.matches)
    }

    fn necessary_children_exprs(&self, outputs: &[usize]) -> Option<Vec<Vec<usize>>> {
        let left = self.left.schema().fields().len();
        let (left_outputs, right_outputs): (Vec<_>, Vec<_>) = outputs.iter().partition(|&&place| place < left);
        Some(vec![left_outputs, right_outputs.into_iter().map(|place| place - left).collect()])
    }
}

/// Plans [`AsofJoin`] as an [`AsofJoinExec`].
pub(crate) struct AsofJoinPlanner;

#[async_trait::async_trait]
impl ExtensionPlanner for AsofJoinPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<AsofJoin>() else { return Ok(None) };
        let [left, right] = physical_inputs else { return Err(misplanned()) };
        let physical =
            |expr: &Expr, side: &LogicalPlan| planner.create_physical_expr(expr, side.schema(), session, context);
        let on = node
            .on
            .iter()
            .map(|(on_left, on_right)| Ok((physical(on_left, &node.left)?, physical(on_right, &node.right)?)));
        let on = on.collect::<Result<Vec<_>>>()?;
        let schema = Arc::clone(node.schema.inner());
        Ok(Some(Arc::new(AsofJoinExec::new(Arc::clone(left), Arc::clone(right), on, node.matches, schema)?)))
    }
}
