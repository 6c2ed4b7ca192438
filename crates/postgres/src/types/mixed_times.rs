//! Columns that hold instants in some rows, and dates or times without a zone in others: those of
//! UNION, EXCEPT, INTERSECT and VALUES. In PostgreSQL, such a column has a zone, and a date is its
//! midnight in the session's zone. In DataFusion, it has no zone, or dates are UTC.

use super::utc_times::holds_utc;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchemaRef, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Union, Values, cast,
};
use fleetdb_engine::{Code, Error};
use fleetdb_functions::clocks::{instant, with_zone};
use fleetdb_functions::errors::query_error;
use fleetdb_functions::values::zone::Zone;
use std::sync::Arc;

const USING: &str = "a join by USING or NATURAL compares a date with a TIMESTAMPTZ: write its condition with ON";

/// Converts the dates and times of such columns to instants. `assigned` are the columns of VALUES
/// that an INSERT writes; these have the types of the table.
///
/// # Errors
/// DataFusion cannot build the plan, or [`check_pairs`].
pub(super) fn as_instants(
    node: LogicalPlan,
    zone: Zone,
    assigned: Option<&DFSchemaRef>,
) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Union(union) => arms(union, zone),
        LogicalPlan::Join(join) if is_of_set(&join) => sides(join, zone),
        LogicalPlan::Join(join) if zone != Zone::Utc => {
            check_pairs(&join)?;
            Ok(Transformed::no(LogicalPlan::Join(join)))
        }
        LogicalPlan::Values(values) if assigned.is_none_or(|schema| !Arc::ptr_eq(schema, &values.schema)) => {
            rows(values, zone)
        }
        node => Ok(Transformed::no(node)),
    }
}

/// Whether these types include an instant, and a date or a time without a zone.
fn are_mixed<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> bool {
    types.clone().any(|of| matches!(of, DataType::Timestamp(_, Some(_)))) && types.into_iter().any(is_local)
}

pub(super) fn is_local(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None))
}

/// The places of the columns that are mixed in plans with the same number of columns.
fn mixed(plans: &[&LogicalPlan]) -> Vec<usize> {
    let width = plans.iter().map(|plan| plan.schema().fields().len()).min().unwrap_or(0);
    let types = |place: usize| plans.iter().map(move |plan| plan.schema().field(place).data_type());
    (0..width).filter(|place| are_mixed(types(*place))).collect()
}

fn arms(union: Union, zone: Zone) -> Result<Transformed<LogicalPlan>> {
    let mixed = mixed(&union.inputs.iter().map(AsRef::as_ref).collect::<Vec<_>>());
    if mixed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let arms = union.inputs.into_iter().map(|arm| with_instants(arm, &mixed, zone));
    let union = Union::try_new_with_loose_types(arms.collect::<Result<Vec<_>>>()?)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// Whether this join is DataFusion's plan of an INTERSECT or EXCEPT.
fn is_of_set(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.on.len() == join.left.schema().fields().len()
}

fn sides(join: Join, zone: Zone) -> Result<Transformed<LogicalPlan>> {
    let mixed = mixed(&[&join.left, &join.right]);
    if mixed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let left = with_instants(Arc::clone(&join.left), &mixed, zone)?;
    let right = with_instants(Arc::clone(&join.right), &mixed, zone)?;
    let join = LogicalPlan::Join(Join { left, right, ..join });
    Ok(Transformed::yes(join.recompute_schema()?))
}

/// Fails if `USING` or a NATURAL JOIN compares a date with an instant, which DataFusion would do in
/// UTC. A condition of `ON` is not yet a pair.
fn check_pairs(join: &Join) -> Result<()> {
    let is_mixed = |(left, right): &(Expr, Expr)| {
        let sides = [left.get_type(join.left.schema()), right.get_type(join.right.schema())];
        let [Ok(left), Ok(right)] = sides else { return false };
        let is_date = |of: &DataType| matches!(of, DataType::Date32 | DataType::Date64);
        (is_date(&left) || is_date(&right)) && are_mixed([left, right].iter())
    };
    match join.on.iter().any(is_mixed) {
        true => Err(query_error(Error::new(Code::NotSupported, USING))),
        false => Ok(()),
    }
}

/// Converts the dates and times at these places to instants. Times that come from a column of a
/// table are UTC.
///
/// # Errors
/// DataFusion cannot build the plan.
pub(super) fn with_instants(plan: Arc<LogicalPlan>, places: &[usize], zone: Zone) -> Result<Arc<LogicalPlan>> {
    let schema = plan.schema();
    if !places.iter().any(|place| is_local(schema.field(*place).data_type())) {
        return Ok(plan);
    }
    let columns = schema.iter().enumerate().map(|(place, (relation, field))| {
        let column = Expr::Column(Column::from((relation, field)));
        if !places.contains(&place) || !is_local(field.data_type()) {
            return column;
        }
        let zone = if holds_utc(&column, schema, &[&plan]) { Zone::Utc } else { zone };
        instant_of(column, field.data_type(), zone).alias_qualified(relation.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    Ok(Arc::new(LogicalPlanBuilder::from(Arc::unwrap_or_clone(plan)).project(columns)?.build()?))
}

fn instant_of(time: Expr, data_type: &DataType, zone: Zone) -> Expr {
    let unit = if let DataType::Timestamp(unit, _) = data_type { *unit } else { TimeUnit::Second };
    match zone {
        // DataFusion knows casts, and compares them in scans.
        Zone::Utc => cast(time, with_zone(unit)),
        zone => instant(time, unit, zone),
    }
}

/// DataFusion has cast the values of a mixed column to times without a zone.
fn rows(values: Values, zone: Zone) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(&values.schema);
    let own_type = |cell: &Expr, place: usize| match cell {
        Expr::Cast(of) if of.field.data_type() == schema.field(place).data_type() => of.expr.get_type(&schema),
        cell => cell.get_type(&schema),
    };
    let is_mixed = |place: &usize| {
        let types = values.values.iter().filter_map(|row| own_type(row.get(*place)?, *place).ok());
        let types: Vec<DataType> = types.collect();
        // Only dates make DataFusion take away the zone; otherwise the statement itself does.
        let has_date = types.iter().any(|of| matches!(of, DataType::Date32 | DataType::Date64));
        let has_zone = matches!(schema.field(*place).data_type(), DataType::Timestamp(_, Some(_)));
        (has_date || has_zone) && are_mixed(types.iter())
    };
    let may_be = |place: &usize| matches!(schema.field(*place).data_type(), DataType::Timestamp(..));
    let places: Vec<usize> = (0..schema.fields().len()).filter(may_be).filter(is_mixed).collect();
    if places.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Values(values)));
    }
    let as_instant = |cell: Expr, place: usize| {
        let data_type = own_type(&cell, place)?;
        let own = match cell {
            Expr::Cast(of) if of.field.data_type() == schema.field(place).data_type() => *of.expr,
            cell => cell,
        };
        let own = if is_local(&data_type) { instant_of(own, &data_type, zone) } else { own };
        Ok(cast(own, with_zone(TimeUnit::Nanosecond)))
    };
    let cells = |row: Vec<Expr>| {
        let cells = row.into_iter().enumerate();
        cells.map(|(place, cell)| if places.contains(&place) { as_instant(cell, place) } else { Ok(cell) }).collect()
    };
    let rows = values.values.into_iter().map(cells).collect::<Result<Vec<Vec<Expr>>>>()?;
    Ok(Transformed::yes(LogicalPlanBuilder::values(rows)?.build()?))
}
