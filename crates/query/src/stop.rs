//! Makes planning cancellable: between any two of DataFusion's rules, checks whether the statement
//! was cancelled or has exceeded its timeout.

use crate::errors::query_error;
use crate::limits::Limits;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// DataFusion's rules, with a check before each.
pub(crate) fn rules(limits: &Arc<Limits>) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let check: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(CancelCheck(Arc::clone(limits)));
    Optimizer::new().rules.into_iter().flat_map(|rule| [Arc::clone(&check), rule]).collect()
}

/// A rule that changes nothing, and fails if the statement must stop.
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
