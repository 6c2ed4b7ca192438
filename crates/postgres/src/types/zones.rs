//! Times with a zone, in sessions whose zone is not UTC. Columns store instants, which do not
//! depend on the session. Its zone takes effect here and in the text form of results
//! ([`text_form_in`](fleetdb_functions::values::texts::text_form_in)):
//!
//! 1. What the statement itself contains (casts, date parts, sums with intervals, buckets of whole
//!    days) is rewritten before type coercion ([`Clocks`]).
//! 2. Casts that DataFusion adds, for example to compare a date or a text with an instant, are
//!    rewritten after it ([`CastByClocks`]). A column without a zone holds UTC: compared with an
//!    instant, it means UTC in every session.
//!
//! In UTC, the default, the only change is that FleetDB's own parser reads the texts
//! ([`times`](fleetdb_functions::values::times)).

use super::mixed_times::{is_local, with_instants};
use super::utc_times::holds_utc;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::{
    Between, Case, Cast, InList, InSubquery, ScalarFunction, SetComparison, WindowFunction,
};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Subquery, WindowFrameBound, WindowFrameUnits, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;
use fleetdb_engine::{Code, ColumnType, Error};
use fleetdb_functions::clocks::{TEXTS, instant, minus, plus, read, shown, text, with_zone};
use fleetdb_functions::errors::query_error;
use fleetdb_functions::expressions::{leaf, leaves, map_named};
use fleetdb_functions::values::times::{TimeText, read_for};
use fleetdb_functions::values::zone::{CurrentZone, Zone};
use std::sync::Arc;

const NS_PER_DAY: i64 = 86_400_000_000_000;

const TEMPLATE: &str = "to_timestamp and to_date take only a constant text as their template";
const FRAME: &str = "RANGE with days or months over TIMESTAMPTZ is not supported in this session's time zone, where \
                     their length varies: write hours, such as INTERVAL '24 hours', or SET TIME ZONE 'UTC'";

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
            Expr::InList(list) if row_of(&list.expr).is_some() => Ok(self.rows_meant(list, schema)),
            Expr::InList(InList { expr, list, negated }) => {
                let sides: Vec<&Expr> = std::iter::once(expr.as_ref()).chain(list).collect();
                Ok(self.instants_of(&sides, schema).map(|mut sides| {
                    let expr = Box::new(sides.remove(0));
                    Expr::InList(InList::new(expr, sides, *negated))
                }))
            }
            Expr::Case(case) => Ok(self.case_meant(case, schema)),
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                Ok(self.with_subquery(expr, subquery, schema)?.map(|(expr, subquery)| {
                    Expr::InSubquery(InSubquery { expr: Box::new(expr), subquery, negated: *negated })
                }))
            }
            Expr::SetComparison(of) => {
                Ok(self.with_subquery(&of.expr, &of.subquery, schema)?.map(|(expr, subquery)| {
                    Expr::SetComparison(SetComparison { expr: Box::new(expr), subquery, ..of.clone() })
                }))
            }
            Expr::WindowFunction(of) => Ok(self.default_meant(of, schema)),
            Expr::ScalarFunction(call) => self.call_meant(call, schema),
            _ => Ok(None),
        }
    }

    /// As [`meant`](Self::meant), in UTC: only what has another type if it includes an instant.
    ///
    /// # Errors
    /// A template of `to_timestamp` is not constant.
    pub(super) fn meant_in_utc(&self, expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
        Ok(match expr {
            Expr::Case(case) => self.case_meant(case, schema),
            Expr::WindowFunction(of) => self.default_meant(of, schema),
            Expr::ScalarFunction(call) if is_of_one_type(call.name()) => self.args_meant(call, schema),
            Expr::ScalarFunction(call) => return check_templates(call).map(|()| None),
            _ => None,
        })
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

    /// A list of rows: `(id, ts) IN ((1, DATE '2026-07-01'))`.
    fn rows_meant(&self, list: &InList, schema: &DFSchema) -> Option<Expr> {
        let rows = std::iter::once(list.expr.as_ref()).chain(&list.list).map(row_of);
        let mut rows = rows.map(|row| row.cloned()).collect::<Option<Vec<ScalarFunction>>>()?;
        let width = rows.first()?.args.len();
        let mut is_changed = false;
        for place in 0..width {
            let sides = rows.iter().map(|row| row.args.get(place)).collect::<Option<Vec<&Expr>>>()?;
            let Some(instants) = self.instants_of(&sides, schema) else { continue };
            rows.iter_mut().zip(instants).for_each(|(row, instant)| row.args[place] = instant);
            is_changed = true;
        }
        let mut rows = rows.into_iter().map(Expr::ScalarFunction);
        let row = Box::new(rows.next()?);
        is_changed.then(|| Expr::InList(InList::new(row, rows.collect(), list.negated)))
    }

    /// A value that is compared with the rows of a subquery: `ts IN (SELECT day FROM holidays)`.
    fn with_subquery(&self, expr: &Expr, of: &Subquery, schema: &DFSchema) -> Result<Option<(Expr, Subquery)>> {
        let plan = &of.subquery;
        let (Ok(compared), [field, ..]) = (expr.get_type(schema), plan.schema().fields().as_ref()) else {
            return Ok(None);
        };
        let is_instant = |of: &DataType| matches!(of, DataType::Timestamp(_, Some(_)));
        if is_instant(&compared) && is_local(field.data_type()) {
            let subquery = with_instants(Arc::clone(plan), &[0], self.zone)?;
            return Ok(Some((expr.clone(), Subquery { subquery, ..of.clone() })));
        }
        let unit = self.unit_of_local(expr, &compared, schema).filter(|_| is_instant(field.data_type()));
        Ok(unit.map(|unit| (instant(expr.clone(), unit, self.zone), of.clone())))
    }

    /// The default of `lag` and `lead`.
    fn default_meant(&self, of: &WindowFunction, schema: &DFSchema) -> Option<Expr> {
        let [value, _, default] = of.params.args.as_slice() else { return None };
        if !matches!(of.fun.name(), "lag" | "lead") {
            return None;
        }
        let [value, default] = self.days_by_clocks([value, default], schema)?;
        let mut of = of.clone();
        (of.params.args[0], of.params.args[2]) = (value, default);
        Some(Expr::WindowFunction(Box::new(of)))
    }

    fn cast_meant(&self, of: &Cast, schema: &DFSchema) -> Option<Expr> {
        let from = of.expr.get_type(schema).ok()?;
        match leaves(&from, of.field.data_type()) {
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
        let is_instant = |of: &DataType| matches!(leaf(of), DataType::Timestamp(_, Some(_)));
        let has_instant = types.iter().any(|of| of.as_ref().is_some_and(is_instant));
        let unit = |(side, of): (&&Expr, &Option<DataType>)| self.unit_of_local(side, of.as_ref()?, schema);
        let units: Vec<_> = sides.iter().zip(&types).map(unit).collect();
        (has_instant && units.iter().any(Option::is_some)).then(|| {
            let instants = sides.iter().zip(units).map(|(side, unit)| match unit {
                Some(unit) => instant((*side).clone(), unit, self.zone),
                None => (*side).clone(),
            });
            instants.collect()
        })
    }

    /// The unit of a date or a local time, or of an array of such; `None` for anything else.
    fn unit_of_local(&self, expr: &Expr, data_type: &DataType, schema: &DFSchema) -> Option<TimeUnit> {
        match leaf(data_type) {
            DataType::Date32 | DataType::Date64 => Some(TimeUnit::Second),
            DataType::Timestamp(unit, None) if !holds_utc(expr, schema, &[]) => Some(*unit),
            _ => None,
        }
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
        check_templates(call)?;
        let zone_name = || lit(self.zone.name());
        let unit = |arg: &Expr| match arg.get_type(schema) {
            Ok(DataType::Timestamp(unit, Some(_))) => Some(unit),
            _ => None,
        };
        let is_instant =
            |arg: &Expr| arg.get_type(schema).is_ok_and(|of| matches!(leaf(&of), DataType::Timestamp(_, Some(_))));
        let again = |args: Vec<Expr>| Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&call.func), args));
        let shown_of = |arg: &Expr| unit(arg).map(|unit| shown(arg.clone(), unit, self.zone));
        let now = || Ok::<_, datafusion::error::DataFusionError>(self.functions.udf("now")?.call(Vec::new()));
        Ok(match (call.name(), call.args.as_slice()) {
            ("current_date", []) => Some(cast(shown(now()?, TimeUnit::Nanosecond, self.zone), DataType::Date32)),
            ("current_time", []) => {
                let shown = shown(now()?, TimeUnit::Nanosecond, self.zone);
                Some(cast(shown, DataType::Time64(TimeUnit::Nanosecond)))
            }
            ("text_of" | TEXTS, [time]) if is_instant(time) => Some(text(time.clone(), self.zone)),
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
            (name, _) if is_of_one_type(name) => self.args_meant(call, schema),
            ("age", [until, since]) if unit(until).is_some() || unit(since).is_some() => {
                Some(again([until, since].map(|time| shown_of(time).unwrap_or_else(|| time.clone())).to_vec()))
            }
            ("to_timestamp", [text]) if is_of_text(text, schema) => {
                Some(read(text.clone(), with_zone(TimeUnit::Nanosecond), self.zone))
            }
            ("to_timestamp", [text, templates @ ..]) if is_of_text(text, schema) => {
                if templates.iter().any(|template| !matches!(template, Expr::Literal(..))) {
                    return Err(query_error(Error::new(Code::NotSupported, TEMPLATE)));
                }
                if templates.iter().any(reads_zone) {
                    return Ok(None);
                }
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

    fn args_meant(&self, call: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
        let args = self.instants_of(&call.args.iter().collect::<Vec<_>>(), schema)?;
        Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&call.func), args)))
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

/// Whether all arguments of a function, and the elements of those that are arrays, have one type.
pub(super) fn is_of_one_type(function: &str) -> bool {
    let of_values = matches!(function, "coalesce" | "nullif" | "greatest" | "least");
    of_values || matches!(function, "make_array" | "array_has" | "array_position")
}

/// A row of several values: `(1, ts)`.
pub(super) fn row_of(expr: &Expr) -> Option<&ScalarFunction> {
    match expr {
        Expr::ScalarFunction(call) if call.name() == "struct" => Some(call),
        _ => None,
    }
}

fn recast(of: Expr, as_before: &Cast) -> Expr {
    Expr::Cast(Cast { expr: Box::new(of), field: Arc::clone(&as_before.field) })
}

/// Rewrites a cast between an instant and a local date, time or text, whether the user or
/// DataFusion wrote it.
fn cast_by_clocks(of: &Cast, from: &DataType, zone: Zone) -> Option<Expr> {
    let expr = || of.expr.as_ref().clone();
    match leaves(from, of.field.data_type()) {
        (
            DataType::Timestamp(unit, Some(_)),
            DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_),
        ) => Some(recast(shown(expr(), *unit, zone), of)),
        (DataType::Date32 | DataType::Date64, DataType::Timestamp(_, Some(_))) => {
            Some(recast(instant(expr(), TimeUnit::Second, zone), of))
        }
        (DataType::Timestamp(_, Some(_)), DataType::Utf8) => Some(recast(text(expr(), zone), of)),
        _ => read_by_cast(of, from, zone),
    }
}

/// Rewrites a cast from text to timestamp to use FleetDB's parser; `None` for any other cast.
pub(super) fn read_by_cast(of: &Cast, from: &DataType, zone: Zone) -> Option<Expr> {
    match leaves(from, of.field.data_type()) {
        (DataType::Utf8, to @ DataType::Timestamp(..)) => {
            let read = || recast(read(of.expr.as_ref().clone(), to.clone(), zone), of);
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

/// Fails if the template of a `to_timestamp` or `to_date` is computed for each row, which DataFusion
/// cannot run.
fn check_templates(call: &ScalarFunction) -> Result<()> {
    let is_read = matches!(call.name(), "to_timestamp" | "to_date");
    match is_read && call.args.iter().skip(1).any(|template| !template.column_refs().is_empty()) {
        true => Err(query_error(Error::new(Code::NotSupported, TEMPLATE))),
        false => Ok(()),
    }
}

/// Whether a constant template of chrono reads the zone or seconds since 1970.
fn reads_zone(template: &Expr) -> bool {
    let Expr::Literal(text, _) = template else { return false };
    let parts = ["%z", "%:z", "%#z", "%+", "%s"];
    text.try_as_str().flatten().is_some_and(|text| parts.iter().any(|part| text.contains(part)))
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

/// Fails if a window is measured in days or months, whose lengths depend on the zone:
/// `RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW`. DataFusion would take those of UTC.
fn check_frames(node: &LogicalPlan, zone: Zone) -> Result<()> {
    let (LogicalPlan::Window(window), false) = (node, zone == Zone::Utc) else { return Ok(()) };
    // Clocks with a fixed offset have days of 24 hours.
    let is_by_clocks = |of: IntervalMonthDayNano| of.months != 0 || (of.days != 0 && matches!(zone, Zone::Named(_)));
    let is_by_clocks = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => {
            let by = by.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano));
            matches!(by, Ok(ScalarValue::IntervalMonthDayNano(Some(by))) if is_by_clocks(by))
        }
        WindowFrameBound::CurrentRow => false,
    };
    let is_refused = |expr: &Expr| {
        let Expr::WindowFunction(of) = expr.clone().unalias_nested().data else { return false };
        let (frame, order) = (&of.params.window_frame, &of.params.order_by);
        let is_over_instants = order
            .iter()
            .any(|by| matches!(by.expr.get_type(window.input.schema()), Ok(DataType::Timestamp(_, Some(_)))));
        frame.units == WindowFrameUnits::Range
            && is_over_instants
            && (is_by_clocks(&frame.start_bound) || is_by_clocks(&frame.end_bound))
    };
    match window.window_expr.iter().any(is_refused) {
        true => Err(query_error(Error::new(Code::NotSupported, FRAME))),
        false => Ok(()),
    }
}

fn casts_in(node: LogicalPlan, zone: Zone) -> Result<Transformed<LogicalPlan>> {
    check_frames(&node, zone)?;
    let mut has = false;
    node.apply_expressions(|expr| {
        has |= expr.exists(|expr| Ok(matches!(expr, Expr::Cast(_))))?;
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has {
        return Ok(Transformed::no(node));
    }
    let schema = merge_schema(&node.inputs());
    // In UTC nobody asks where a column comes from.
    let inputs: Vec<LogicalPlan> =
        if zone == Zone::Utc { Vec::new() } else { node.inputs().into_iter().cloned().collect() };
    let inputs: Vec<&LogicalPlan> = inputs.iter().collect();
    map_named(node, |expr| {
        expr.transform_up(|expr| {
            let meant = match &expr {
                Expr::Cast(cast) => added_cast(cast, &schema, &inputs, zone),
                _ => None,
            };
            Ok(meant.map_or_else(|| Transformed::no(expr), Transformed::yes))
        })
    })
}

fn added_cast(of: &Cast, schema: &DFSchema, inputs: &[&LogicalPlan], zone: Zone) -> Option<Expr> {
    // In UTC, the default, only casts to timestamps can change, so other types need not be
    // computed.
    if zone == Zone::Utc && !matches!(leaf(of.field.data_type()), DataType::Timestamp(..)) {
        return None;
    }
    let from = of.expr.get_type(schema).ok()?;
    match leaves(&from, of.field.data_type()) {
        _ if zone == Zone::Utc => read_by_cast(of, &from, zone),
        (DataType::Timestamp(unit, None), DataType::Timestamp(_, Some(_))) if !holds_utc(&of.expr, schema, inputs) => {
            Some(recast(instant(of.expr.as_ref().clone(), *unit, zone), of))
        }
        _ => cast_by_clocks(of, &from, zone),
    }
}

#[cfg(test)]
#[path = "zones_tests.rs"]
mod tests;
