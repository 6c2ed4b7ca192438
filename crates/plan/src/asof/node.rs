//! The logical plan node of an ASOF join.

use super::exec::AsofJoinExec;
use super::matching::Match;
use crate::plan_nodes::{Plannable, Planning};
use datafusion::common::{DFSchemaRef, JoinType, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::builder::build_join_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// An ASOF join. See the module documentation.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AsofJoin {
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

impl Plannable for AsofJoin {
    fn physical(&self, inputs: &[Arc<dyn ExecutionPlan>], planning: &Planning<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let [left, right] = inputs else { return Err(misplanned()) };
        let physical = |(on_left, on_right): &(Expr, Expr)| {
            Ok((planning.expr(on_left, self.left.schema())?, planning.expr(on_right, self.right.schema())?))
        };
        let on = self.on.iter().map(physical).collect::<Result<Vec<_>>>()?;
        let schema = Arc::clone(self.schema.inner());
        Ok(Arc::new(AsofJoinExec::new(Arc::clone(left), Arc::clone(right), on, self.matches, schema)?))
    }
}
