//! What FleetDB's own plan nodes have in common.

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::PlanProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use std::sync::Arc;

/// Methods common to all physical plan nodes that have `properties`.
macro_rules! plan_basics {
    () => {
        fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
            &self.properties
        }

        fn with_new_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        ) -> datafusion::error::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
            self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
        }
    };
}

/// The method of plan nodes without expressions.
macro_rules! no_expressions {
    () => {
        fn apply_expressions(
            &self,
            _f: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::error::Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> datafusion::error::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
}

/// Methods common to plan nodes without children and expressions.
macro_rules! leaf_plan {
    () => {
        crate::plan_nodes::plan_basics!();

        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            Vec::new()
        }

        crate::plan_nodes::no_expressions!();

        fn replace_children(
            self: std::sync::Arc<Self>,
            _children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            _options: datafusion::physical_plan::execution_plan::ReplaceChildrenOptions,
        ) -> datafusion::error::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            Ok(self)
        }
    };
}

pub(crate) use {leaf_plan, no_expressions, plan_basics};

/// The properties of a node that outputs one partition incrementally.
pub(crate) fn one_partition(equivalence: EquivalenceProperties) -> Arc<PlanProperties> {
    let partitioning = Partitioning::UnknownPartitioning(1);
    Arc::new(PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded))
}

/// The union of two plans. The columns keep the names and table qualifiers of the first plan.
pub(crate) fn union_all(first: LogicalPlan, second: LogicalPlan) -> Result<LogicalPlan> {
    let tables: Vec<_> = first.schema().iter().map(|(table, _)| table.cloned()).collect();
    let both = LogicalPlanBuilder::from(first).union(second)?.build()?;
    // A union drops the table qualifiers of its columns.
    let named = both.schema().columns().into_iter().zip(tables).map(|(column, table)| {
        let name = column.name.clone();
        Expr::Column(column).alias_qualified(table, name)
    });
    let named: Vec<Expr> = named.collect();
    LogicalPlanBuilder::from(both).project(named)?.build()
}
