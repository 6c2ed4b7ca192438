//! Times with a zone, in sessions whose zone is not UTC. Columns store instants, which do not
//! depend on the session. Its zone takes effect here and in the text form of results
//! ([`text_form_in`](crate::texts::text_form_in)):
//!
//! 1. What the statement itself contains (casts, date parts, sums with intervals, buckets of whole
//!    days) is rewritten before type coercion ([`Clocks`]).
//! 2. Casts that DataFusion adds, for example to compare a date or a text with an instant, are
//!    rewritten after it ([`CastByClocks`]). A column without a zone holds UTC: compared with an
//!    instant, it means UTC in every session.
//!
//! In UTC, the default, the only change is that FleetDB's own parser reads the texts
//! ([`times`](crate::times)).

use crate::functions::clocks::{instant, minus, plus, read, shown, text, with_zone};
use crate::times::{TimeText, read_for};
use crate::zone::Zone;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::{Between, Case, Cast, InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};
use datafusion::optimizer::AnalyzerRule;
use fleetdb_engine::ColumnType;
use std::sync::{Arc, Mutex, PoisonError};

const NS_PER_DAY: i64 = 86_400_000_000_000;

/// The session's zone for the running statement. Rules read it from here because the session's
/// settings are locked while they run.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentZone(Arc<Mutex<Zone>>);

impl CurrentZone {
    pub(crate) fn set(&self, zone: Zone) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = zone;
    }

    pub(crate) fn get(&self) -> Zone {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's zone, and its functions.
#[derive(Clone, Copy)]
pub(crate) struct Clocks<'a> {
    pub(crate) zone: Zone,
    pub(crate) functions: &'a dyn FunctionRegistry,
}

impl Clocks<'_> {
    /// Whether the session's zone is UTC.
    pub(super) fn are_utc(&self) -> bool {
        self.zone == Zone::Utc
    }

    /// Rewrites an expression whose parts are already rewritten; `None` if it stays the same.
    ///
    /// # Errors
    /// A function that the rewrite needs is not registered.
    pub(super) fn meant(&self, expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
        match expr {
            Expr::Cast(cast) => Ok(self.cast_meant(cast, schema)),
            Expr::BinaryExpr(binary) => {
                Ok(self.sum_meant(binary, schema).or_else(|| self.comparison_meant(binary, schema)))
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let sides = self.days_by_clocks([expr.as_ref(), low.as_ref(), high.as_ref()], schema);
                Ok(sides.map(|[expr, low, high]| {
                    Expr::Between(Between::new(Box::new(expr), *negated, Box::new(low), Box::new(high)))
                }))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let sides: Vec<&Expr> = std::iter::once(expr.as_ref()).chain(list).collect();
                Ok(self.instants_of(&sides, schema).map(|mut sides| {
                    let expr = Box::new(sides.remove(0));
                    Expr::InList(InList::new(expr, sides, *negated))
                }))
            }
            Expr::Case(case) => Ok(self.case_meant(case, schema)),
            Expr::ScalarFunction(call) => self.call_meant(call, schema),
            _ => Ok(None),
        }
    }

    /// The values that a CASE compares, and its results.
    fn case_meant(&self, case: &Case, schema: &DFSchema) -> Option<Expr> {
        let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
        let results: Vec<&Expr> = results.map(AsRef::as_ref).collect();
        let whens = case.when_then_expr.iter().map(|(when, _)| when);
        let compared: Vec<&Expr> = case.expr.iter().chain(whens).map(AsRef::as_ref).collect();
        let new_results = self.instants_of(&results, schema);
        let new_compared = case.expr.as_ref().and_then(|_| self.instants_of(&compared, schema));
        if new_results.is_none() && new_compared.is_none() {
            return None;
        }
        let owned = |all: Vec<&Expr>| all.into_iter().cloned().collect::<Vec<_>>();
        let mut results = new_results.unwrap_or_else(|| owned(results)).into_iter().map(Box::new);
        let mut compared = new_compared.unwrap_or_else(|| owned(compared)).into_iter().map(Box::new);
        let operand = if case.expr.is_some() { compared.next() } else { None };
        let branches = compared.zip(results.by_ref()).collect();
        Some(Expr::Case(Case::new(operand, branches, results.next())))
    }

    fn cast_meant(&self, of: &Cast, schema: &DFSchema) -> Option<Expr> {
        let from = of.expr.get_type(schema).ok()?;
        match (&from, of.field.data_type()) {
            (DataType::Timestamp(unit, None), DataType::Timestamp(_, Some(_))) => {
                Some(recast(instant(of.expr.as_ref().clone(), *unit, self.zone), of))
            }
            (DataType::Timestamp(unit, Some(_)), DataType::Timestamp(_, None)) => {
                Some(recast(shown(of.expr.as_ref().clone(), *unit, self.zone), of))
            }
            _ => cast_by_clocks(of, &from, self.zone),
        }
    }

    /// `ts >= current_date`, `ts - DATE '2026-07-01'`.
    fn comparison_meant(&self, binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
        let (is_meant, op) = match binary.op {
            op @ (Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt) => (true, op),
            op @ (Operator::GtEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) => (true, op),
            op => (op == Operator::Minus, op),
        };
        let sides = [binary.left.as_ref(), binary.right.as_ref()];
        let [left, right] = if is_meant { self.days_by_clocks(sides, schema)? } else { return None };
        Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
    }

    /// As [`instants_of`](Self::instants_of), of a fixed number.
    fn days_by_clocks<const N: usize>(&self, sides: [&Expr; N], schema: &DFSchema) -> Option<[Expr; N]> {
        self.instants_of(&sides, schema)?.try_into().ok()
    }

    /// Replaces dates and local times next to an instant by the instants that they are in the
    /// session's zone; `None` if there are none. DataFusion would compare all of them without a
    /// zone.
    fn instants_of(&self, sides: &[&Expr], schema: &DFSchema) -> Option<Vec<Expr>> {
        let types: Vec<Option<DataType>> = sides.iter().map(|side| side.get_type(schema).ok()).collect();
        let has_instant = types.iter().any(|of| matches!(of, Some(DataType::Timestamp(_, Some(_)))));
        let unit_of_local = |side: &Expr, of: &Option<DataType>| match of {
            Some(DataType::Date32 | DataType::Date64) => Some(TimeUnit::Second),
            Some(DataType::Timestamp(unit, None)) if !holds_utc(side, schema, &[]) => Some(*unit),
            _ => None,
        };
        let units: Vec<_> = sides.iter().zip(&types).map(|(side, of)| unit_of_local(side, of)).collect();
        (has_instant && units.iter().any(Option::is_some)).then(|| {
            let instants = sides.iter().zip(units).map(|(side, unit)| match unit {
                Some(unit) => instant((*side).clone(), unit, self.zone),
                None => (*side).clone(),
            });
            instants.collect()
        })
    }

    /// `ts + INTERVAL '1 day'`: a local day may have 23 or 25 hours.
    fn sum_meant(&self, binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
        let is_plus = match binary.op {
            Operator::Plus => true,
            Operator::Minus => false,
            _ => return None,
        };
        let (left, right) = (&binary.left, &binary.right);
        let types = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
        let (time, unit, interval) = match types {
            (DataType::Timestamp(unit, Some(_)), DataType::Interval(_)) => (left, unit, right),
            (DataType::Interval(_), DataType::Timestamp(unit, Some(_))) if is_plus => (right, unit, left),
            _ => return None,
        };
        if let Expr::Literal(ScalarValue::IntervalMonthDayNano(of), _) = interval.as_ref()
            && of.is_none_or(|of| of.months == 0 && of.days == 0)
        {
            return None;
        }
        let sum = if is_plus { plus } else { minus };
        Some(sum(time.as_ref().clone(), interval.as_ref().clone(), unit, self.zone))
    }

    fn call_meant(&self, call: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
        let zone_name = || lit(self.zone.name());
        let unit = |arg: &Expr| match arg.get_type(schema) {
            Ok(DataType::Timestamp(unit, Some(_))) => Some(unit),
            _ => None,
        };
        let again = |args: Vec<Expr>| Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&call.func), args));
        let shown_of = |arg: &Expr| unit(arg).map(|unit| shown(arg.clone(), unit, self.zone));
        let now = || Ok::<_, datafusion::error::DataFusionError>(self.functions.udf("now")?.call(Vec::new()));
        Ok(match (call.name(), call.args.as_slice()) {
            ("current_date", []) => Some(cast(shown(now()?, TimeUnit::Nanosecond, self.zone), DataType::Date32)),
            ("current_time", []) => {
                let shown = shown(now()?, TimeUnit::Nanosecond, self.zone);
                Some(cast(shown, DataType::Time64(TimeUnit::Nanosecond)))
            }
            ("text_of", [time]) if unit(time).is_some() => Some(text(time.clone(), self.zone)),
            ("time_of_day", [time]) => shown_of(time).map(|shown| again(vec![shown])),
            ("date_part", [field, time]) if !is_text(field, "epoch") => {
                shown_of(time).map(|shown| again(vec![field.clone(), shown]))
            }
            ("to_char", [time, template]) if !has_zone(template) => {
                shown_of(time).map(|shown| again(vec![shown, template.clone()]))
            }
            ("date_trunc", [of, time]) if unit(time).is_some() => {
                let in_zone = self.functions.udf("date_trunc_in_zone")?;
                Some(in_zone.call(vec![of.clone(), time.clone(), zone_name()]))
            }
            ("coalesce" | "nullif" | "greatest" | "least", args) => {
                self.instants_of(&args.iter().collect::<Vec<_>>(), schema).map(again)
            }
            ("age", [until, since]) if unit(until).is_some() || unit(since).is_some() => {
                Some(again([until, since].map(|time| shown_of(time).unwrap_or_else(|| time.clone())).to_vec()))
            }
            ("to_timestamp", [text]) if is_of_text(text, schema) => {
                Some(read(text.clone(), with_zone(TimeUnit::Nanosecond), self.zone))
            }
            // The template has no zone.
            ("to_timestamp", [text, Expr::Literal(template, _)])
                if is_of_text(text, schema)
                    && template.try_as_str().flatten().is_some_and(|template| !template.contains("%z")) =>
            {
                let read = cast(Expr::ScalarFunction(call.clone()), DataType::Timestamp(TimeUnit::Nanosecond, None));
                Some(instant(read, TimeUnit::Nanosecond, self.zone))
            }
            ("time_bucket", [width, time]) if unit(time).is_some() && is_of_days(width) => {
                Some(again(vec![width.clone(), time.clone(), zone_name()]))
            }
            ("time_bucket_gapfill", [width, time, rest @ ..]) if unit(time).is_some() => {
                // An optional zone, then the optional bounds.
                let (zone, bounds) = rest.split_at(rest.len() % 2);
                let own = (zone.is_empty() && is_of_days(width)).then(zone_name);
                let bounds = bounds.iter().map(|bound| self.bound(bound, schema));
                let args = [width, time].into_iter().chain(zone).cloned();
                Some(again(args.chain(own).chain(bounds).collect()))
            }
            _ => None,
        })
    }

    /// A bound of the range. A text, a date, or a constant time without a zone is local time.
    fn bound(&self, bound: &Expr, schema: &DFSchema) -> Expr {
        let unit = TimeUnit::Nanosecond;
        match bound.get_type(schema) {
            Ok(DataType::Utf8) => read(bound.clone(), with_zone(unit), self.zone),
            Ok(DataType::Date32 | DataType::Timestamp(_, None)) if bound.column_refs().is_empty() => {
                instant(bound.clone(), unit, self.zone)
            }
            _ => bound.clone(),
        }
    }
}

fn recast(of: Expr, as_before: &Cast) -> Expr {
    Expr::Cast(Cast { expr: Box::new(of), field: Arc::clone(&as_before.field) })
}

/// Rewrites a cast between an instant and a local date, time or text, whether the user or
/// DataFusion wrote it.
fn cast_by_clocks(of: &Cast, from: &DataType, zone: Zone) -> Option<Expr> {
    let expr = || of.expr.as_ref().clone();
    match (from, of.field.data_type()) {
        (
            DataType::Timestamp(unit, Some(_)),
            DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_),
        ) => Some(recast(shown(expr(), *unit, zone), of)),
        (DataType::Date32 | DataType::Date64, DataType::Timestamp(_, Some(_))) => {
            Some(recast(instant(expr(), TimeUnit::Second, zone), of))
        }
        (DataType::Timestamp(_, Some(_)), DataType::Utf8) => Some(text(expr(), zone)),
        _ => read_by_cast(of, from, zone),
    }
}

/// Rewrites a cast from text to timestamp to use FleetDB's parser; `None` for any other cast.
pub(super) fn read_by_cast(of: &Cast, from: &DataType, zone: Zone) -> Option<Expr> {
    match (from, of.field.data_type()) {
        (DataType::Utf8, to @ DataType::Timestamp(..)) => {
            let read = || read(of.expr.as_ref().clone(), to.clone(), zone);
            Some(time_of_literal(&of.expr, to, zone).unwrap_or_else(read))
        }
        _ => None,
    }
}

/// Parses a literal as a time of this type, in a session with this zone; `None` if it is not a time
/// or out of the type's range.
pub(super) fn time_of_literal(expr: &Expr, data_type: &DataType, zone: Zone) -> Option<Expr> {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = expr else { return None };
    let TimeText::Count(count) = read_for(text, ColumnType::from_arrow(data_type).ok()?, zone) else { return None };
    ScalarValue::Int64(Some(count)).cast_to(data_type).ok().map(|time| Expr::Literal(time, None))
}

fn is_text(expr: &Expr, wanted: &str) -> bool {
    matches!(expr, Expr::Literal(text, _) if text.try_as_str().flatten().is_some_and(|text| text.eq_ignore_ascii_case(wanted)))
}

fn is_of_text(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Utf8))
}

/// Whether a template names the zone, outside of its quotes. Such templates are formatted in UTC.
fn has_zone(template: &Expr) -> bool {
    let Expr::Literal(text, _) = template else { return false };
    text.try_as_str().flatten().is_some_and(|text| {
        let text = text.to_ascii_lowercase();
        let mut fields = text.split('"').step_by(2);
        fields.any(|fields| ["tz", "of", "%z"].iter().any(|zone| fields.contains(zone)))
    })
}

/// Whether a bucket's width is a day or longer.
fn is_of_days(width: &Expr) -> bool {
    let Expr::Literal(width, _) = width else { return false };
    let is_long = |of: IntervalMonthDayNano| of.months != 0 || of.days != 0 || of.nanoseconds >= NS_PER_DAY;
    match width.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano)) {
        Ok(ScalarValue::IntervalMonthDayNano(of)) => of.is_some_and(is_long),
        // An invalid width is rejected elsewhere.
        _ => false,
    }
}

/// The rule that rewrites the casts added by DataFusion.
#[derive(Debug)]
pub(crate) struct CastByClocks(pub(crate) CurrentZone);

impl AnalyzerRule for CastByClocks {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = self.0.get();
        plan.transform_up_with_subqueries(|node| casts_in(node, zone)).data()
    }

    fn name(&self) -> &'static str {
        "cast_by_clocks"
    }
}

fn casts_in(node: LogicalPlan, zone: Zone) -> Result<Transformed<LogicalPlan>> {
    let mut has = false;
    node.apply_expressions(|expr| {
        has |= expr.exists(|expr| Ok(matches!(expr, Expr::Cast(_))))?;
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has {
        return Ok(Transformed::no(node));
    }
    let (schema, names) = (merge_schema(&node.inputs()), NamePreserver::new(&node));
    // In UTC nobody asks where a column comes from.
    let inputs: Vec<LogicalPlan> =
        if zone == Zone::Utc { Vec::new() } else { node.inputs().into_iter().cloned().collect() };
    let inputs: Vec<&LogicalPlan> = inputs.iter().collect();
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let changed = expr.transform_up(|expr| {
            let meant = match &expr {
                Expr::Cast(cast) => added_cast(cast, &schema, &inputs, zone),
                _ => None,
            };
            Ok(meant.map_or_else(|| Transformed::no(expr), Transformed::yes))
        })?;
        Ok(changed.update_data(|expr| name.restore(expr)))
    })
}

fn added_cast(of: &Cast, schema: &DFSchema, inputs: &[&LogicalPlan], zone: Zone) -> Option<Expr> {
    // In UTC, the default, only casts to timestamps can change, so other types need not be
    // computed.
    if zone == Zone::Utc && !matches!(of.field.data_type(), DataType::Timestamp(..)) {
        return None;
    }
    let from = of.expr.get_type(schema).ok()?;
    match (&from, of.field.data_type()) {
        _ if zone == Zone::Utc => read_by_cast(of, &from, zone),
        (DataType::Timestamp(unit, None), DataType::Timestamp(_, Some(_))) if !holds_utc(&of.expr, schema, inputs) => {
            Some(recast(instant(of.expr.as_ref().clone(), *unit, zone), of))
        }
        _ => cast_by_clocks(of, &from, zone),
    }
}

/// Whether a time without a zone comes from a column that stores such times, which are UTC, or from
/// a subquery. A date, an instant's local time and a literal follow the session's clocks. Columns
/// that `inputs` compute are followed to where they come from.
fn holds_utc(expr: &Expr, schema: &DFSchema, inputs: &[&LogicalPlan]) -> bool {
    if !matches!(expr.get_type(schema), Ok(DataType::Timestamp(_, None))) {
        return false;
    }
    match expr {
        Expr::Column(column) => {
            let computed = inputs.iter().find_map(|input| computed_in(column, input));
            return computed.is_none_or(|(expr, input)| holds_utc(expr, input.schema(), &[input]));
        }
        Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_) => return true,
        _ => {}
    }
    let mut holds = false;
    let looked = expr.apply_children(|part| {
        holds |= holds_utc(part, schema, inputs);
        Ok(if holds { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    holds || looked.is_err()
}

/// The expression that a plan computes as a column, and the plan that this expression reads; `None`
/// for a column of a table, and where it is not known.
fn computed_in<'a>(column: &Column, plan: &'a LogicalPlan) -> Option<(&'a Expr, &'a LogicalPlan)> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let place = projection.schema.maybe_index_of_column(column)?;
            Some((projection.expr.get(place)?, &projection.input))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let place = alias.schema.maybe_index_of_column(column)?;
            computed_in(&Column::from(alias.input.schema().qualified_field(place)), &alias.input)
        }
        LogicalPlan::Filter(filter) => computed_in(column, &filter.input),
        LogicalPlan::Sort(sort) => computed_in(column, &sort.input),
        LogicalPlan::Limit(limit) => computed_in(column, &limit.input),
        _ => None,
    }
}

#[cfg(test)]
#[path = "zones_tests.rs"]
mod tests;
