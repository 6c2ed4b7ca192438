//! Plans that prepared statements keep. Whenever an operator of DataFusion starts, it makes counters
//! for EXPLAIN ANALYZE, and a plan must be reset before its next run to forget them. For few rows, both
//! take longer than reading the rows. So a kept plan runs its operators in other ways ([`KeptPlan`]):
//!
//! 1. Without counters: projections, filters, unions ([`operators`]).
//! 2. Few rows at once: sorts ([`few_sorted`]), aggregates ([`few_grouped`]), window functions
//!    ([`few_windowed`]). If there turn out to be many, DataFusion's operator begins with what was read
//!    ([`begun`]).
//! 3. A single row: the left side of a join ([`one_row_join`]), the input of a CASE ([`one_row_case`]).
//! 4. Subqueries one after another ([`subqueries`]).
//! 5. Other joins, aggregates and limits as DataFusion does, reset when they start. A plan with any other
//!    operator is reset as a whole.

mod begun;
mod few;
mod few_grouped;
mod few_sorted;
mod few_windowed;
mod lean;
mod one_row_case;
mod one_row_join;
mod operators;
mod subqueries;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use fleetdb_plan::kept::keeps_no_state;
use lean::Lean;
use std::sync::Arc;

/// A plan that runs several times, one run after another.
pub struct KeptPlan {
    root: Arc<dyn ExecutionPlan>,
    /// Whether a run leaves nothing behind in the plan that the next run would see.
    is_stateless: bool,
}

impl KeptPlan {
    /// Keeps a plan.
    ///
    /// # Errors
    /// DataFusion cannot compute the properties of a changed node.
    pub fn new(plan: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let may_stop = plan.exists(|plan| Ok(operators::stops_early(plan)))?;
        let root = plan.transform_up(|plan| {
            Ok(match operators::lean(&plan, may_stop) {
                Some(lean) => Transformed::yes(lean),
                None => Transformed::no(plan),
            })
        });
        let root = root.data()?;
        Ok(Self { is_stateless: is_stateless(&root), root })
    }

    /// The columns of its rows.
    pub fn schema(&self) -> SchemaRef {
        self.root.schema()
    }

    /// The plan for the next run.
    ///
    /// # Errors
    /// DataFusion cannot reset a node.
    pub fn next_run(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let root = Arc::clone(&self.root);
        if self.is_stateless { Ok(root) } else { reset_plan_states(root) }
    }
}

fn is_stateless(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let of_node =
        plan.is::<Lean>() || plan.is::<CooperativeExec>() || plan.is::<PlaceholderRowExec>() || keeps_no_state(plan);
    of_node && plan.children().into_iter().all(is_stateless)
}

#[cfg(test)]
#[path = "kept_plans_tests.rs"]
mod tests;
