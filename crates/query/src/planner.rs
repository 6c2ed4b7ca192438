//! Physical plans: DataFusion's planner, and ours for the steps that it does not know.

use crate::asof::AsofJoinPlanner;
use crate::gapfill::GapFillPlanner;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use std::sync::Arc;

/// See the module.
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

/// The rows of two plans; the columns are named as those of the first, with their tables.
pub(crate) fn union_all(first: LogicalPlan, second: LogicalPlan) -> Result<LogicalPlan> {
    let tables: Vec<_> = first.schema().iter().map(|(table, _)| table.cloned()).collect();
    let both = LogicalPlanBuilder::from(first).union(second)?.build()?;
    // A union forgets which table a column is of.
    let named = both.schema().columns().into_iter().zip(tables).map(|(column, table)| {
        let name = column.name.clone();
        Expr::Column(column).alias_qualified(table, name)
    });
    let named: Vec<Expr> = named.collect();
    LogicalPlanBuilder::from(both).project(named)?.build()
}
