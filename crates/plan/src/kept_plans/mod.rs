//! Plans that prepared statements keep. Whenever an operator of DataFusion starts, it makes counters
//! for EXPLAIN ANALYZE, and a plan must be reset before its next run to forget them. For few rows, both
//! take longer than reading the rows. So a kept plan runs its [`operators`] without counters, sorts few rows
//! at once ([`few_sorted`]), and joins a row without a hash table ([`one_row_join`]).

mod begun;
mod few_sorted;
mod lean;
mod one_row_join;
mod operators;

use crate::metadata::ContainerAggregate;
use crate::scan::FleetScan;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use lean::Lean;
use std::sync::Arc;

/// A plan that runs several times, one run after another.
pub struct KeptPlan {
    root: Arc<dyn ExecutionPlan>,
    /// Whether a run leaves nothing behind in the plan.
    is_stateless: bool,
}

impl KeptPlan {
    /// Keeps a plan.
    ///
    /// # Errors
    /// DataFusion cannot compute the properties of a changed node.
    pub fn new(plan: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let root = plan.transform_up(|plan| {
            Ok(match operators::lean(&plan) {
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
    let of_node = plan.is::<Lean>()
        || plan.is::<CooperativeExec>()
        || plan.is::<PlaceholderRowExec>()
        || plan.is::<ContainerAggregate>()
        || plan.downcast_ref::<FleetScan>().is_some_and(|scan| !scan.is_of_join());
    of_node && plan.children().into_iter().all(is_stateless)
}

#[cfg(test)]
#[path = "kept_plans_tests.rs"]
mod tests;
