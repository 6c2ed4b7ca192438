//! PostgreSQL forms of statements that write: `UPDATE t SET v = m.v FROM m WHERE m.id = t.id`, `SET
//! (a, b) = (1, 2)`.

use super::tuples::parts;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Join, JoinConstraint, JoinOperator, MergeAction, Statement, TableFactor,
    TableWithJoins, Update, UpdateTableFromKind,
};

/// Rewrites a statement to the form that DataFusion plans.
pub(super) fn in_planned_form(statement: &mut Statement) {
    match statement {
        Statement::Update(update) => {
            from_as_joins(update);
            all_one_by_one(&mut update.assignments);
        }
        Statement::Merge(merge) => {
            for clause in &mut merge.clauses {
                if let MergeAction::Update(update) = &mut clause.action {
                    all_one_by_one(&mut update.assignments);
                }
            }
        }
        _ => {}
    }
}

fn all_one_by_one(assignments: &mut Vec<Assignment>) {
    *assignments = std::mem::take(assignments).into_iter().flat_map(one_by_one).collect();
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

#[cfg(test)]
#[path = "writes_tests.rs"]
mod tests;
