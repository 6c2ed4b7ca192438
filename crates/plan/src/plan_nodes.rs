//! What FleetDB's own plan nodes have in common.

use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use std::marker::PhantomData;
use std::sync::Arc;

/// Methods common to all physical plan nodes that have `properties`.
#[macro_export]
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
#[macro_export]
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
#[macro_export]
macro_rules! leaf_plan {
    () => {
        $crate::plan_basics!();

        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            Vec::new()
        }

        $crate::no_expressions!();

        fn replace_children(
            self: std::sync::Arc<Self>,
            _children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            _options: datafusion::physical_plan::execution_plan::ReplaceChildrenOptions,
        ) -> datafusion::error::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            Ok(self)
        }
    };
}

/// Methods common to plan nodes without expressions that pass on the rows of their only `input` in its
/// order. The node is cloned for another input.
macro_rules! pass_through_plan {
    () => {
        crate::plan_nodes::plan_basics!();

        fn maintains_input_order(&self) -> Vec<bool> {
            vec![true]
        }

        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            vec![&self.input]
        }

        crate::plan_nodes::no_expressions!();

        fn replace_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            _options: datafusion::physical_plan::execution_plan::ReplaceChildrenOptions,
        ) -> datafusion::error::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            Ok(match children.into_iter().next() {
                Some(input) => {
                    let properties = std::sync::Arc::clone(input.properties());
                    std::sync::Arc::new(Self { input, properties, ..self.as_ref().clone() })
                }
                None => self,
            })
        }
    };
}

pub(crate) use {leaf_plan, no_expressions, pass_through_plan, plan_basics};

/// The properties of a node that outputs one partition incrementally.
pub(crate) fn one_partition(equivalence: EquivalenceProperties) -> Arc<PlanProperties> {
    let partitioning = Partitioning::UnknownPartitioning(1);
    Arc::new(PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded))
}

/// A logical plan node that plans itself.
pub(crate) trait Plannable: UserDefinedLogicalNodeCore {
    /// The physical plan of the node over its planned inputs.
    fn physical(&self, inputs: &[Arc<dyn ExecutionPlan>], planning: &Planning<'_>) -> Result<Arc<dyn ExecutionPlan>>;
}

/// What a node needs from DataFusion to plan itself.
pub(crate) struct Planning<'a> {
    planner: &'a dyn PhysicalPlanner,
    session: &'a dyn Session,
    context: &'a PhysicalPlanningContext,
}

impl Planning<'_> {
    /// Plans an expression over the columns of a schema.
    pub(crate) fn expr(&self, expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
        self.planner.create_physical_expr(expr, schema, self.session, self.context)
    }
}

/// Plans the nodes of one type.
struct NodePlanner<N>(PhantomData<fn() -> N>);

/// The planner of the nodes of a type.
pub(crate) fn planner_of<N: Plannable>() -> Arc<dyn ExtensionPlanner + Send + Sync> {
    Arc::new(NodePlanner::<N>(PhantomData))
}

#[async_trait::async_trait]
impl<N: Plannable> ExtensionPlanner for NodePlanner<N> {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<N>() else { return Ok(None) };
        node.physical(physical_inputs, &Planning { planner, session, context }).map(Some)
    }
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
