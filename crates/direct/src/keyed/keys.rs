//! The condition of a keyed write: equalities and lists for every key column, perhaps a span of time,
//! and perhaps conditions on the rows found by them.

use super::compile::{MAX_LISTED, Scope};
use super::is_exact;
use super::program::{Condition, Program};
use crate::cells::{Cell, ParameterTypes, compared_time};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use fleetdb_engine::{ColumnType, Role, Value};

/// The containers that a condition names, and the times in them.
pub(super) struct Keys {
    /// The alternatives for each key column, in key order. At most one column has several.
    alternatives: Vec<Vec<Cell>>,
    times: Vec<(Bound, Cell)>,
    /// What else the rows must meet.
    conditions: Vec<Condition>,
}

/// How a time bounds those of the rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    At,
    From,
    After,
    To,
    Before,
}

/// A container's key, and the first and last time in it; all times in a table without one.
pub(super) struct Span {
    pub(super) key: Vec<Value>,
    pub(super) from: i64,
    pub(super) to: i64,
}

impl Keys {
    /// Compiles a condition, and returns what else the rows must meet; `None` if it must be planned.
    pub(super) fn of(
        condition: &Expr,
        scope: &Scope<'_>,
        types: &mut ParameterTypes,
    ) -> Option<(Self, Option<Condition>)> {
        // The key of a table without key columns is its time alone.
        if scope.schema.key.is_empty() {
            return None;
        }
        let alternatives = vec![Vec::new(); scope.schema.key.len()];
        let mut found = Self { alternatives, times: Vec::new(), conditions: Vec::new() };
        found.add(condition, scope, types)?;
        let several = found.alternatives.iter().filter(|cells| cells.len() > 1).count();
        let is_complete = found.alternatives.iter().all(|cells| !cells.is_empty());
        let conditions = std::mem::take(&mut found.conditions);
        let also = (!conditions.is_empty()).then_some(Condition::And(conditions));
        (is_complete && several <= 1).then_some((found, also))
    }

    /// Whether each of the rows is named by its whole primary key.
    pub(super) fn are_rows(&self, has_time: bool) -> bool {
        !has_time || self.times.iter().any(|(bound, _)| *bound == Bound::At)
    }

    /// Whether it names single rows, or a span of time in one container.
    pub(super) fn are_bounded(&self, has_time: bool) -> bool {
        self.are_rows(has_time) || (!self.times.is_empty() && !self.are_long(has_time))
    }

    /// Whether it names more than a row of each of several containers, which may take long to count.
    pub(super) fn are_long(&self, has_time: bool) -> bool {
        !self.are_rows(has_time) && self.alternatives.iter().any(|cells| cells.len() > 1)
    }

    fn add(&mut self, condition: &Expr, scope: &Scope<'_>, types: &mut ParameterTypes) -> Option<()> {
        match condition {
            Expr::Nested(inner) => self.add(inner, scope, types),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.add(left, scope, types)?;
                self.add(right, scope, types)
            }
            Expr::BinaryOp { left, op, right } if let Some((bound, mirrored)) = bounds(op) => {
                let (column, bound, value) = match scope.column(left) {
                    Some(column) => (column, bound, right),
                    None => (scope.column(right)?, mirrored, left),
                };
                match is_of_key(&column, bound, scope) {
                    true => self.bound(&column, bound, value, scope, types),
                    false => self.also(condition, scope, types),
                }
            }
            Expr::Between { expr, negated: false, low, high }
                if scope.column(expr).is_some_and(|column| is_of_key(&column, Bound::From, scope)) =>
            {
                let column = scope.column(expr)?;
                self.bound(&column, Bound::From, low, scope, types)?;
                self.bound(&column, Bound::To, high, scope, types)
            }
            Expr::InList { expr, list, negated: false }
                if let Some(column @ Program::Old(place)) = scope.column(expr)
                    && is_of_key(&column, Bound::At, scope) =>
            {
                let column = &scope.schema.columns[place];
                if column.role != Role::Key || list.len() > MAX_LISTED {
                    return None;
                }
                let cells = list.iter().map(|value| key_cell(value, column.column_type, scope, types));
                self.alternate(scope, place, cells.collect::<Option<_>>()?)
            }
            other => self.also(other, scope, types),
        }
    }

    /// Adds a condition that the rows must meet.
    fn also(&mut self, condition: &Expr, scope: &Scope<'_>, types: &mut ParameterTypes) -> Option<()> {
        self.conditions.push(scope.condition(condition, types)?);
        Some(())
    }

    fn bound(
        &mut self,
        column: &Program,
        bound: Bound,
        value: &Expr,
        scope: &Scope<'_>,
        types: &mut ParameterTypes,
    ) -> Option<()> {
        let Program::Old(place) = column else { return None };
        let column = &scope.schema.columns[*place];
        match (column.role, bound) {
            (Role::Key, Bound::At) => {
                let cell = key_cell(value, column.column_type, scope, types)?;
                self.alternate(scope, *place, vec![cell])
            }
            (Role::Time, bound) => {
                self.times.push((bound, compared_time(value, column.column_type, scope.zone, types)?));
                Some(())
            }
            _ => None,
        }
    }

    /// Sets the values of a key column.
    fn alternate(&mut self, scope: &Scope<'_>, place: usize, cells: Vec<Cell>) -> Option<()> {
        let part = scope.schema.key.iter().position(|&of_key| of_key == place)?;
        // Two conditions on one column are left to the planner.
        self.alternatives[part].is_empty().then(|| self.alternatives[part] = cells)
    }

    /// The containers and times for these parameters, each container once.
    pub(super) fn spans(&self, parameters: &[Value]) -> Vec<Span> {
        let (mut from, mut to) = (i64::MIN, i64::MAX);
        for (bound, cell) in &self.times {
            // NULL is equal to nothing.
            let Value::Int(time) = cell.value(parameters, &[]) else { return Vec::new() };
            let (first, last) = match bound {
                Bound::At => (Some(*time), Some(*time)),
                Bound::From => (Some(*time), Some(i64::MAX)),
                Bound::After => (time.checked_add(1), Some(i64::MAX)),
                Bound::To => (Some(i64::MIN), Some(*time)),
                Bound::Before => (Some(i64::MIN), time.checked_sub(1)),
            };
            let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
            (from, to) = (from.max(first), to.min(last));
        }
        let several = self.alternatives.iter().position(|cells| cells.len() > 1).unwrap_or(0);
        let mut spans: Vec<Span> = Vec::new();
        for number in 0..self.alternatives[several].len() {
            let cells = self.alternatives.iter().enumerate();
            let cell = |(part, cells): (usize, &Vec<Cell>)| {
                let cell = if part == several { &cells[number] } else { &cells[0] };
                cell.value(parameters, &[]).clone()
            };
            let key: Vec<Value> = cells.map(cell).collect();
            if from <= to && !key.contains(&Value::Null) && spans.iter().all(|span| span.key != key) {
                spans.push(Span { key, from, to });
            }
        }
        spans
    }
}

/// Whether a bound of a column names rows by their primary keys.
fn is_of_key(column: &Program, bound: Bound, scope: &Scope<'_>) -> bool {
    let Program::Old(place) = column else { return false };
    match scope.schema.columns[*place].role {
        Role::Key => bound == Bound::At,
        Role::Time => true,
        Role::Field => false,
    }
}

/// The bound that an operator sets with the column on its left, and with the column on its right.
fn bounds(operator: &BinaryOperator) -> Option<(Bound, Bound)> {
    match operator {
        BinaryOperator::Eq => Some((Bound::At, Bound::At)),
        BinaryOperator::GtEq => Some((Bound::From, Bound::To)),
        BinaryOperator::Gt => Some((Bound::After, Bound::Before)),
        BinaryOperator::LtEq => Some((Bound::To, Bound::From)),
        BinaryOperator::Lt => Some((Bound::Before, Bound::After)),
        _ => None,
    }
}

/// A value that a key column is compared with.
fn key_cell(value: &Expr, column_type: ColumnType, scope: &Scope<'_>, types: &mut ParameterTypes) -> Option<Cell> {
    // Dates are compared by rules of their own.
    if is_exact(column_type) && column_type != ColumnType::Date32 {
        types.cell(value, column_type, scope.zone)
    } else {
        None
    }
}
