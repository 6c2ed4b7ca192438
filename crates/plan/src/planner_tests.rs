use super::*;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{LogicalPlanBuilder, lit};

fn one(number: i64) -> Arc<LogicalPlan> {
    let row = LogicalPlanBuilder::empty(true).project([lit(number).alias("n")]).unwrap();
    Arc::new(row.build().unwrap())
}

#[test]
fn unions_of_many_inputs_become_trees_in_the_same_order() {
    for count in [MAX_INPUTS, MAX_INPUTS + 1, MAX_INPUTS * MAX_INPUTS, 10_000] {
        let inputs: Vec<_> = (0..count as i64).map(one).collect();
        let schema = Arc::clone(inputs[0].schema());
        let plan = with_small_unions(LogicalPlan::Union(Union { inputs, schema })).unwrap();
        let (mut found, mut most) = (Vec::new(), 0);
        plan.apply(|plan| {
            most = most.max(inputs_of(plan));
            if let LogicalPlan::Projection(row) = plan {
                found.push(row.expr[0].clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        assert!(most <= MAX_INPUTS, "{most}");
        assert_eq!(found, (0..count as i64).map(|number| lit(number).alias("n")).collect::<Vec<_>>());
    }
}
