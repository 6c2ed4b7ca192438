//! Scalar subqueries that may have no row: `(SELECT v FROM reads WHERE id = 99)`.
//!
//! The value of such a subquery is NULL. DataFusion takes it for never NULL if the subquery's column is
//! not nullable (55.2): `(SELECT 1 WHERE false) IS NULL` becomes false, and `coalesce((SELECT ...), 0)`
//! fails. The rule [`NullableSubqueries`] puts a call around the column that returns its argument and whose
//! type is nullable.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, Projection, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Subquery, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::{Arc, LazyLock};

/// The analyzer rule. See the module documentation.
#[derive(Debug)]
pub struct NullableSubqueries;

impl AnalyzerRule for NullableSubqueries {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let node = node.map_expressions(|expr| expr.transform_up(nullable))?;
            if node.transformed { node.map_data(|node| node.recompute_schema()) } else { Ok(node) }
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "nullable_subqueries"
    }
}

/// The subquery with a nullable column, if it may have no row.
fn nullable(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(subquery) = expr else { return Ok(Transformed::no(expr)) };
    let schema = subquery.subquery.schema();
    if schema.fields().len() != 1 || schema.field(0).is_nullable() || has_one_row(&subquery.subquery) {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    }
    let plan = with_nullable_column(subquery.subquery.as_ref().clone())?;
    Ok(Transformed::yes(Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), ..subquery })))
}

/// The query with a nullable column. A LIMIT stays on top, where DataFusion looks for it.
fn with_nullable_column(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Limit(mut limit) => {
            limit.input = Arc::new(with_nullable_column(Arc::unwrap_or_clone(limit.input))?);
            Ok(LogicalPlan::Limit(limit))
        }
        LogicalPlan::Projection(projection) if projection.expr.len() == 1 => {
            let (qualifier, field) = projection.schema.qualified_field(0);
            let value = perhaps(projection.expr[0].clone().unalias()).alias_qualified(qualifier.cloned(), field.name());
            Ok(LogicalPlan::Projection(Projection::try_new(vec![value], projection.input)?))
        }
        other => {
            let (qualifier, field) = other.schema().qualified_field(0);
            let column = Expr::Column((qualifier, field).into());
            let value = perhaps(column).alias_qualified(qualifier.cloned(), field.name());
            LogicalPlanBuilder::from(other).project([value])?.build()
        }
    }
}

fn perhaps(value: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&PERHAPS), vec![value]))
}

/// Whether a query has one row whatever the tables hold: that of a constant, or of an aggregate without
/// groups.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(of) => has_one_row(&of.input),
        LogicalPlan::SubqueryAlias(of) => has_one_row(&of.input),
        LogicalPlan::Sort(of) => has_one_row(&of.input),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// Returns its argument. It is volatile, so that a constant argument does not become a value that is never
/// NULL.
static PERHAPS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(Perhaps { signature: Signature::any(1, Volatility::Volatile) }))
});

#[derive(Debug, PartialEq, Eq, Hash)]
struct Perhaps {
    signature: Signature,
}

impl ScalarUDFImpl for Perhaps {
    fn name(&self) -> &'static str {
        "perhaps"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields[0].as_ref().clone();
        Ok(Arc::new(field.with_name(self.name()).with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}
