//! PostgreSQL forms of statements that write: `UPDATE t SET v = m.v FROM m WHERE m.id = t.id`, `SET
//! (a, b) = (1, 2)`.

use super::tuples::parts;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Cte, Expr, Join, JoinConstraint, JoinOperator, MergeAction, SetExpr, Statement,
    TableFactor, TableWithJoins, Update, UpdateTableFromKind,
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

/// Moves WITH from before an INSERT to its query: sqlparser takes the whole for a query.
pub(super) fn with_in_query(statement: &mut Statement) {
    let Statement::Query(query) = statement else { return };
    let (Some(with), SetExpr::Insert(Statement::Insert(insert))) = (&mut query.with, query.body.as_mut()) else {
        return;
    };
    let is_select =
        |body: &SetExpr| matches!(body, SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::SetOperation { .. });
    let writes =
        |cte: &Cte| matches!(cte.query.body.as_ref(), SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_));
    let Some(source) = insert.source.as_mut().filter(|source| is_select(&source.body)) else { return };
    if with.cte_tables.iter().any(writes) {
        return;
    }
    let own = source.with.take();
    with.recursive |= own.as_ref().is_some_and(|own| own.recursive);
    with.cte_tables.extend(own.into_iter().flat_map(|own| own.cte_tables));
    source.with = query.with.take();
    *statement = Statement::Insert(insert.clone());
}

#[cfg(test)]
#[path = "writes_tests.rs"]
mod tests;
