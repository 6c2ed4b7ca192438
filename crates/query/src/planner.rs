//! The physical planner: DataFusion's, extended by FleetDB's own plan nodes.

use crate::asof::AsofJoinPlanner;
use crate::gapfill::GapFillPlanner;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use std::sync::Arc;

/// The query planner. See the module documentation.
#[derive(Debug)]
pub(crate) struct FleetPlanner;

#[async_trait::async_trait]
impl QueryPlanner for FleetPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner =
            DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(GapFillPlanner), Arc::new(AsofJoinPlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}
