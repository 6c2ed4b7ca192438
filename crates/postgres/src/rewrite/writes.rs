//! PostgreSQL forms of statements that write: `UPDATE t SET v = m.v FROM m WHERE m.id = t.id`, `SET
//! (a, b) = (1, 2)`, and `DEFAULT` as a value, which is NULL for all columns.

use super::tuples::parts;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Insert, Join, JoinConstraint, JoinOperator, SetExpr, Statement, TableFactor,
    TableWithJoins, Update, UpdateTableFromKind, Value as Literal,
};

/// Rewrites a statement to the form that DataFusion plans.
pub(super) fn in_planned_form(statement: &mut Statement) {
    match statement {
        Statement::Update(update) => {
            from_as_joins(update);
            update.assignments = std::mem::take(&mut update.assignments).into_iter().flat_map(one_by_one).collect();
            update.assignments.iter_mut().for_each(|assignment| default_as_null(&mut assignment.value));
        }
        Statement::Insert(insert) => values_of(insert).for_each(default_as_null),
        _ => {}
    }
}

/// Turns the FROM of an UPDATE into joins: DataFusion plans joins there, but no FROM.
fn from_as_joins(update: &mut Update) {
    let Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) = update.from.take()
    else {
        return;
    };
    update.table.joins.extend(tables.into_iter().map(|table| Join {
        relation: match table {
            TableWithJoins { relation, joins } if joins.is_empty() => relation,
            joined => TableFactor::NestedJoin { table_with_joins: Box::new(joined), alias: None },
        },
        global: false,
        join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
    }));
}

/// Splits `(a, b) = (1, 2)` into `a = 1` and `b = 2`.
fn one_by_one(assignment: Assignment) -> Vec<Assignment> {
    if let AssignmentTarget::Tuple(columns) = &assignment.target
        && let Some(values) = parts(&assignment.value)
        && columns.len() == values.len()
    {
        let one = |(column, value): (&_, &Expr)| Assignment {
            target: AssignmentTarget::ColumnName(Clone::clone(column)),
            value: value.clone(),
        };
        return columns.iter().zip(values).map(one).collect();
    }
    vec![assignment]
}

/// The values in the rows of an INSERT.
fn values_of(insert: &mut Insert) -> impl Iterator<Item = &mut Expr> {
    let body = insert.source.as_mut().map(|source| source.body.as_mut());
    let rows = match body {
        Some(SetExpr::Values(values)) => values.rows.as_mut_slice(),
        _ => &mut [],
    };
    rows.iter_mut().flat_map(|row| row.iter_mut())
}

fn default_as_null(value: &mut Expr) {
    if let Expr::Identifier(name) = value
        && name.quote_style.is_none()
        && name.value.eq_ignore_ascii_case("default")
    {
        *value = Expr::value(Literal::Null);
    }
}

#[cfg(test)]
#[path = "writes_tests.rs"]
mod tests;
