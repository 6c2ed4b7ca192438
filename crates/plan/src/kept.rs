//! What must be known of nodes and functions to keep a plan.

use crate::concatenate::Concatenate;
use crate::metadata::ContainerAggregate;
pub use crate::metadata::counts_rows;
use crate::scan::FleetScan;
use crate::wide_values::CutRows;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// Whether a node is FleetDB's own and leaves nothing behind when it has run.
pub fn keeps_no_state(node: &Arc<dyn ExecutionPlan>) -> bool {
    let is_scan = |scan: &FleetScan| !scan.is_of_join();
    let is_other = node.is::<ContainerAggregate>() || node.is::<Concatenate>() || node.is::<CutRows>();
    is_other || node.downcast_ref().is_some_and(is_scan)
}

/// Whether a node cuts its batches, because the node above repeats long constants for each row. Its batches
/// must not be joined again.
pub fn cuts_rows(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<CutRows>()
}
