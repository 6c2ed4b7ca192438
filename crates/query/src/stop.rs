//! Planning that can be stopped: between two of DataFusion's rules it is looked whether the statement is cancelled, or takes
//! longer than it may.

use crate::errors::query_error;
use crate::limits::Limits;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// DataFusion's rules, with a look in front of each.
pub(crate) fn rules(limits: &Arc<Limits>) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let check: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(CancelCheck(Arc::clone(limits)));
    Optimizer::new().rules.into_iter().flat_map(|rule| [Arc::clone(&check), rule]).collect()
}

/// A rule that changes nothing, and fails if the statement has to end.
#[derive(Debug)]
struct CancelCheck(Arc<Limits>);

impl OptimizerRule for CancelCheck {
    fn name(&self) -> &str {
        "look_whether_stopped"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match self.0.watch().stopped() {
            Some(stopped) => Err(query_error(stopped)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

#[cfg(test)]
#[path = "stop_tests.rs"]
mod tests;
