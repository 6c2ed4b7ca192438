//! Finds queries that fill gaps and plans them.

use super::markers::{BEFORE, GAPFILL, INTERPOLATE, LOCF};
use super::node::GapFill;
use super::shape::{Fill, Shape};
use crate::plan_nodes::union_all;
use crate::window::{Bound, Window};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::min_max;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, ExprSchemable, Extension, LogicalPlan, LogicalPlanBuilder, Operator, ScalarUDF, cast,
    lit,
};
use datafusion::optimizer::AnalyzerRule;
use fleetdb_functions::arguments::misuse;
use fleetdb_functions::bucket::TimeBucket;
use fleetdb_functions::first_last;
use std::sync::Arc;

/// The name of the column that marks rows before the window.
const IS_BEFORE: &str = "is before the window";
/// The name of the column with each series' newest time before the window.
const TIME_BEFORE: &str = "newest before the window";
/// Aggregates that return a row's own value when it is the only row.
const OF_ONE_ROW: [&str; 8] = ["avg", "min", "max", "sum", "first", "last", "first_value", "last_value"];

/// The optimizer rule. See the module documentation.
#[derive(Debug)]
pub struct FillGaps;

impl AnalyzerRule for FillGaps {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_filled = false;
        let planned = plan.transform_up_with_subqueries(|plan| {
            let planned = with_gaps_filled(plan)?;
            is_filled |= planned.transformed;
            if !is_filled {
                return Ok(planned);
            }
            // Filled columns become nullable, so the schemas above are recomputed.
            Ok(Transformed { data: planned.data.recompute_schema()?, ..planned })
        });
        planned.data()
    }

    fn name(&self) -> &'static str {
        // DataFusion puts this name in front of the rule's errors.
        GAPFILL
    }
}

/// Adds [`GapFill`] between a plan node and a grouping by `time_bucket_gapfill` below it. A HAVING
/// counts as part of the grouping.
fn with_gaps_filled(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if matches!(plan, LogicalPlan::Filter(_)) {
        return Ok(Transformed::no(plan));
    }
    let inputs = plan.inputs();
    let [groups] = inputs.as_slice() else { return Ok(Transformed::no(plan)) };
    let Some((aggregate, place)) = aggregate_of(groups)? else { return Ok(Transformed::no(plan)) };
    let mut calls = Vec::new();
    for expr in plan.expressions() {
        expr.apply(|expr| {
            if is_fill(expr) && !calls.contains(expr) {
                calls.push(expr.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    let filled = Gaps::new(aggregate, place)?.fill(groups, &calls)?;
    let exprs = plan.expressions().into_iter().map(|expr| {
        let read = |expr: Expr| match is_fill(&expr) {
            true => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(expr.schema_name().to_string())))),
            false => Ok(Transformed::no(expr)),
        };
        expr.transform_down(read).data()
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(plan.with_new_exprs(exprs, vec![filled])?))
}

/// The aggregate that groups by `time_bucket_gapfill`, possibly below a HAVING, and the position of
/// that expression.
fn aggregate_of(plan: &LogicalPlan) -> Result<Option<(&Aggregate, usize)>> {
    match plan {
        LogicalPlan::Filter(having) => aggregate_of(&having.input),
        LogicalPlan::Aggregate(aggregate) => {
            let mut places = Vec::new();
            for (place, expr) in aggregate.group_expr.iter().enumerate() {
                if expr.exists(|expr| Ok(call_of(expr, GAPFILL).is_some()))? {
                    places.push(place);
                }
            }
            match places.as_slice() {
                [] => Ok(None),
                [place] if call_of(&aggregate.group_expr[*place], GAPFILL).is_some() => Ok(Some((aggregate, *place))),
                _ => Err(misuse(format!("{GAPFILL} stands in GROUP BY once, and by itself"))),
            }
        }
        _ => Ok(None),
    }
}

fn call_of<'a>(expr: &'a Expr, name: &str) -> Option<&'a ScalarFunction> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == name => Some(call),
        Expr::Alias(alias) => call_of(&alias.expr, name),
        _ => None,
    }
}

/// Whether this is a call of `locf` or `interpolate`.
fn is_fill(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == LOCF || call.func.name() == INTERPOLATE)
}

/// A grouping whose gaps are to be filled.
struct Gaps<'a> {
    aggregate: &'a Aggregate,
    /// The position of the bucket among the group expressions.
    place: usize,
    time: Expr,
    /// `time_bucket`'s width and optional time zone.
    bucket: Vec<Expr>,
    window: Window,
    /// The WHERE conditions, without those that define the window.
    conditions: Vec<Expr>,
    /// The input before any condition is applied.
    source: &'a LogicalPlan,
}

impl<'a> Gaps<'a> {
    fn new(aggregate: &'a Aggregate, place: usize) -> Result<Self> {
        let wrong = || misuse(format!("{GAPFILL} takes a width and a time, then a zone, then start and finish"));
        let call = call_of(&aggregate.group_expr[place], GAPFILL).ok_or_else(wrong)?;
        let (bucket, given) =
            call.args.split_at(if call.args.len() > 3 { call.args.len() - 2 } else { call.args.len() });
        let [width, time, zone @ ..] = bucket else { return Err(wrong()) };
        let mut gaps = Self {
            aggregate,
            place,
            time: time.clone(),
            bucket: std::iter::once(width).chain(zone).cloned().collect(),
            window: Window::default(),
            conditions: Vec::new(),
            source: &aggregate.input,
        };
        while let LogicalPlan::Filter(filter) = gaps.source {
            for condition in split_conjunction(&filter.predicate) {
                if !gaps.window.take(condition, time, filter.input.schema()) {
                    gaps.conditions.push(condition.clone());
                }
            }
            gaps.source = &filter.input;
        }
        if let [start, finish] = given {
            let bound = |at: &Expr, inclusive| vec![Bound { at: at.clone(), inclusive }];
            gaps.window = Window { from: bound(start, true), to: bound(finish, false) };
        }
        Ok(gaps)
    }

    /// The groups with their gaps filled, plus a column for each call.
    fn fill(&self, groups: &LogicalPlan, calls: &[Expr]) -> Result<LogicalPlan> {
        let groups = groups.clone().transform_down(|plan| match plan {
            LogicalPlan::Aggregate(aggregate) => Ok(Transformed::new(
                LogicalPlan::Aggregate(self.by_time_bucket(aggregate)?),
                true,
                TreeNodeRecursion::Stop,
            )),
            other => Ok(Transformed::no(other)),
        });
        let groups = groups.data()?;
        let known = groups.schema().columns();
        let mut columns: Vec<Expr> = known.iter().cloned().map(Expr::Column).collect();
        let mut shape = Shape::new(self.aggregate.group_expr.len(), self.place);
        let mut before = Vec::new();
        for call in calls {
            let Expr::ScalarFunction(function) = call else { continue };
            let name = call.schema_name().to_string();
            let value = function.args.first().ok_or_else(|| misuse(format!("{name} needs a value")))?;
            columns.push(value.clone().alias(&name));
            let fill = if function.func.name() == LOCF { Fill::Carry } else { Fill::Line };
            shape.fills.push((columns.len() - 1, fill));
            let asked = match function.args.get(1) {
                None => false,
                Some(Expr::Literal(asked, _)) if asked.try_as_str().flatten() == Some(BEFORE) => true,
                Some(other) => return Err(misuse(format!("{name}: the second argument is '{BEFORE}', not {other}"))),
            };
            before.push(asked.then_some(value));
        }
        let mut input = LogicalPlanBuilder::from(groups).project(columns)?.build()?;
        if before.iter().any(Option::is_some) {
            shape.before = Some(input.schema().fields().len());
            input = self.with_rows_before(input, &before)?;
        }
        let node = GapFill::new(input, shape, self.bucket.clone(), self.window.clone())?;
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
    }

    /// The same aggregate grouped by `time_bucket`, with the same output columns.
    fn by_time_bucket(&self, aggregate: Aggregate) -> Result<Aggregate> {
        let mut args = self.bucket.clone();
        args.insert(1, self.time.clone());
        let bucket = ScalarUDF::new_from_impl(TimeBucket::default()).call(args);
        let mut group_expr = aggregate.group_expr;
        let name = group_expr[self.place].schema_name().to_string();
        group_expr[self.place] = bucket.alias(name);
        Aggregate::try_new(aggregate.input, group_expr, aggregate.aggr_expr)
    }

    /// Adds each series' newest row before the window, with the requested values, to the groups.
    fn with_rows_before(&self, groups: LogicalPlan, asked: &[Option<&Expr>]) -> Result<LogicalPlan> {
        let mut series = self.aggregate.group_expr.clone();
        series.remove(self.place);
        let mut newest = vec![min_max::max(self.time.clone()).alias(TIME_BEFORE)];
        for (number, value) in asked.iter().enumerate() {
            if let Some(value) = value {
                let value = self.value_of_one_row(value)?;
                newest.push(first_last::last(value, self.time.clone()).alias(format!("value {number}")));
            }
        }
        let is_before = self.window.from.iter().map(|bound| {
            let op = if bound.inclusive { Operator::Lt } else { Operator::LtEq };
            let time = self.time.clone().cast_to(&bound.at.get_type(&DFSchema::empty())?, self.source.schema())?;
            Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(time), op, Box::new(bound.at.clone()))))
        });
        let is_before = is_before.collect::<Result<Vec<_>>>()?.into_iter().reduce(Expr::or);
        let conditions = conjunction(self.conditions.iter().cloned().chain(is_before));
        let rows = LogicalPlanBuilder::from(self.source.clone())
            .filter(conditions.unwrap_or_else(|| lit(true)))?
            .aggregate(series, newest)?
            // Without series columns, the aggregate returns a row even if no row precedes the
            // window.
            .filter(Expr::Column(Column::new_unqualified(TIME_BEFORE)).is_not_null())?
            .build()?;
        let mut of_series = rows.schema().columns().into_iter();
        let first_fill = groups.schema().fields().len() - asked.len();
        let schema = Arc::clone(groups.schema());
        let mut columns = Vec::new();
        for (place, (_, field)) in schema.iter().enumerate() {
            let nothing = Expr::Literal(ScalarValue::try_from(field.data_type())?, None);
            let column = match place.checked_sub(first_fill) {
                Some(number) if asked[number].is_some() => {
                    Expr::Column(Column::new_unqualified(format!("value {number}")))
                }
                Some(_) => nothing,
                None if place == self.place => Expr::Column(Column::new_unqualified(TIME_BEFORE)),
                None if place < self.aggregate.group_expr.len() => of_series.next().map_or(nothing, Expr::Column),
                None => nothing,
            };
            columns.push(cast(column, field.data_type().clone()).alias(field.name()));
        }
        columns.push(lit(true).alias(IS_BEFORE));
        let before = LogicalPlanBuilder::from(rows).project(columns)?.build()?;
        let marked = schema.columns().into_iter().map(Expr::Column).chain([lit(false).alias(IS_BEFORE)]);
        let groups = LogicalPlanBuilder::from(groups).project(marked.collect::<Vec<_>>())?.build()?;
        union_all(groups, before)
    }

    /// The argument of an aggregate that returns a row's own value when it is the only row; an
    /// error for any other expression.
    fn value_of_one_row(&self, value: &Expr) -> Result<Expr> {
        let wrong = || {
            let functions = OF_ONE_ROW.join(", ");
            misuse(format!(
                "'{BEFORE}' is for the value of a row before the window: for one of {functions}, not {}",
                value.schema_name()
            ))
        };
        let Expr::Column(column) = without_cast(value) else { return Err(wrong()) };
        let is_meant = |expr: &&Expr| expr.schema_name().to_string() == column.name;
        let function = self.aggregate.aggr_expr.iter().find(is_meant).ok_or_else(wrong)?;
        let Expr::AggregateFunction(function) = function.clone().unalias() else { return Err(wrong()) };
        let params = function.params;
        if !OF_ONE_ROW.contains(&function.func.name()) || params.filter.is_some() {
            return Err(wrong());
        }
        let value = params.args.first().ok_or_else(wrong)?;
        Ok(without_cast(value).clone())
    }
}

/// Removes the casts that widen a value's type.
fn without_cast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Float64 || cast.field.data_type().is_integer() => {
            without_cast(&cast.expr)
        }
        _ => expr,
    }
}
