//! Aggregates over runs: consecutive rows of the same group are aggregated without a hash lookup
//! per row.
//!
//! A table's rows arrive in order of key and time. The rule [`AggregateRuns`] handles aggregates
//! made of `count`, `sum`, `min`, `max` and `avg` over numbers and times.
//!
//! 1. If rows are grouped by key, or by key and time bucket, each group is one run:
//!    [`RunAggregate`] replaces DataFusion's aggregate. ("Sorted aggregation": Graefe, "Query
//!    evaluation techniques for large databases", ACM Computing Surveys 1993.)
//! 2. If rows of a time-series table are grouped by tags, each group is many runs: [`RunAggregate`]
//!    outputs one row per run, and DataFusion's aggregate combines them.

mod boundaries;
mod exec;
mod totals;

use crate::plan_nodes::one_partition;
use crate::scan::FleetScan;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
pub(crate) use exec::RunAggregate;
use fleetdb_functions::whole_sum::SUM;
use std::sync::Arc;
use totals::{Call, Function};

/// The optimizer rule. See the module documentation.
#[derive(Debug)]
pub(crate) struct AggregateRuns;

impl PhysicalOptimizerRule for AggregateRuns {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // Bottom-up, so that the nodes made here are not visited again.
        plan.transform_up(|plan| {
            let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(plan)) };
            let Some(calls) = calls_of(aggregate) else { return Ok(Transformed::no(plan)) };
            if *aggregate.input_order_mode() == InputOrderMode::Sorted {
                return Ok(Transformed::yes(Arc::new(whole(aggregate, calls))));
            }
            Ok(in_two_steps(aggregate, &calls)?.map_or_else(|| Transformed::no(plan), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "aggregate_runs"
    }

    fn schema_check(&self) -> bool {
        // The schema may change: a sum of counts is nullable by its type.
        false
    }
}

/// The aggregate's functions, or `None` if it cannot be computed over runs.
fn calls_of(aggregate: &AggregateExec) -> Option<Vec<Call>> {
    let whole = matches!(aggregate.mode(), AggregateMode::Single | AggregateMode::SinglePartitioned);
    let plain = aggregate.limit_options().is_none() && aggregate.filter_expr().iter().all(Option::is_none);
    let one_set = !aggregate.group_expr().has_grouping_set() && !aggregate.group_expr().expr().is_empty();
    if !whole || !plain || !one_set {
        return None;
    }
    let input = aggregate.input().schema();
    // 0.0 and -0.0 belong to one group but differ as runs.
    let is_float = |expr: &Arc<dyn PhysicalExpr>| expr.data_type(&input).is_ok_and(|of| of.is_floating());
    let sorted = *aggregate.input_order_mode() == InputOrderMode::Sorted;
    if sorted && aggregate.group_expr().expr().iter().any(|(expr, _)| is_float(expr)) {
        return None;
    }
    aggregate.aggr_expr().iter().map(|expr| Call::of(expr, &input)).collect()
}

/// An aggregate in which each group is one run.
fn whole(aggregate: &AggregateExec, calls: Vec<Call>) -> RunAggregate {
    let groups = groups(aggregate);
    let (schema, properties) = (aggregate.schema(), Arc::clone(aggregate.properties()));
    RunAggregate { input: Arc::clone(aggregate.input()), groups, calls, schema, properties }
}

fn groups(aggregate: &AggregateExec) -> Vec<Arc<dyn PhysicalExpr>> {
    aggregate.group_expr().expr().iter().map(|(expr, _)| Arc::clone(expr)).collect()
}

/// Whether the rows are a collection's. Its neighbouring rows are different things and need not share
/// tags.
fn is_of_collection(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.downcast_ref::<FleetScan>() {
        Some(scan) => scan.table().time.is_none(),
        None => matches!(plan.children().as_slice(), [input] if is_of_collection(input)),
    }
}

/// An aggregate over partial results, one per run. `None` if runs are unlikely or the row order
/// would be lost.
fn in_two_steps(aggregate: &AggregateExec, calls: &[Call]) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let whole = aggregate.schema();
    let group_fields = &whole.fields()[..aggregate.group_expr().expr().len()];
    // Neighbouring rows tend to share tags; numbers and times change from row to row.
    if !group_fields.iter().any(|field| field.data_type().is_string()) || is_of_collection(aggregate.input()) {
        return Ok(None);
    }
    // An average is computed from a sum and a count.
    let parts = calls.iter().flat_map(|call| {
        let part = |function, result: &DataType| Call { function, result: result.clone(), ..call.clone() };
        match call.function {
            Function::Avg => vec![part(Function::Sum, &DataType::Float64), part(Function::Count, &DataType::Int64)],
            function => vec![part(function, &call.result)],
        }
    });
    let parts: Vec<Call> = parts.collect();
    let part_fields = parts
        .iter()
        .enumerate()
        .map(|(number, part)| Arc::new(Field::new(format!("part {number}"), part.result.clone(), true)));
    let schema = Arc::new(Schema::new(group_fields.iter().cloned().chain(part_fields).collect::<Vec<FieldRef>>()));
    let order = aggregate.properties().output_ordering().cloned();
    let equivalence = EquivalenceProperties::new_with_orderings(Arc::clone(&schema), order.clone());
    let runs = RunAggregate {
        input: Arc::clone(aggregate.input()),
        groups: groups(aggregate),
        calls: parts.clone(),
        schema: Arc::clone(&schema),
        properties: one_partition(equivalence),
    };
    let column = |place: usize| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(schema.field(place).name(), place)) };
    let named = |place: usize| (column(place), schema.field(place).name().clone());
    let first_part = group_fields.len();
    let sums = parts.iter().enumerate().map(|(number, part)| {
        let function = match part.function {
            Function::Min => min_udaf(),
            Function::Max => max_udaf(),
            _ => Arc::clone(&SUM),
        };
        let place = first_part + number;
        let sum = AggregateExprBuilder::new(function, vec![column(place)]).schema(Arc::clone(&schema));
        sum.alias(schema.field(place).name()).build().map(Arc::new)
    });
    let sums = AggregateExec::try_new(
        AggregateMode::Single,
        PhysicalGroupBy::new_single((0..first_part).map(named).collect()),
        sums.collect::<Result<Vec<_>>>()?,
        vec![None; parts.len()],
        Arc::new(runs),
        Arc::clone(&schema),
    )?;
    let mut outputs: Vec<(Arc<dyn PhysicalExpr>, String)> = (0..first_part).map(named).collect();
    let mut place = first_part;
    for (call, field) in calls.iter().zip(&whole.fields()[first_part..]) {
        let value = if call.function == Function::Avg {
            place += 1;
            let count = Arc::new(CastExpr::new(column(place), DataType::Float64, None));
            Arc::new(BinaryExpr::new(column(place - 1), Operator::Divide, count))
        } else {
            column(place)
        };
        outputs.push((value, field.name().clone()));
        place += 1;
    }
    let averages = ProjectionExec::try_new(outputs, Arc::new(sums))?;
    let keeps_order =
        order.map_or(Ok(true), |order| averages.properties().equivalence_properties().ordering_satisfy(order))?;
    Ok(keeps_order.then(|| Arc::new(averages) as Arc<dyn ExecutionPlan>))
}
