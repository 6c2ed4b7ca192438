//! Rewrites ASOF JOINs in a statement as joins with a marker, which `fleetdb-plan` plans.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, Select, Statement, TableFactor, VisitorMut,
};
use fleetdb_plan::asof::marker::ASOF_MATCH;
use fleetdb_statement::built::call;
use fleetdb_statement::walk::walk_mut;
use std::ops::ControlFlow;

/// Turns the statement's ASOF JOINs into LEFT JOINs with a marker.
///
/// # Errors
/// An ASOF JOIN with USING or NATURAL.
pub(crate) fn mark_asof_joins(statement: &mut Statement) -> fleetdb_engine::Result<()> {
    match walk_mut(statement, &mut Marks) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(message) => Err(fleetdb_engine::Error::new(fleetdb_engine::Code::Syntax, message)),
    }
}

struct Marks;

impl VisitorMut for Marks {
    type Break = String;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<String> {
        select.from.iter_mut().flat_map(|from| &mut from.joins).try_for_each(mark)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<String> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => table_with_joins.joins.iter_mut().try_for_each(mark),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn mark(join: &mut Join) -> ControlFlow<String> {
    let JoinOperator::AsOf { match_condition, constraint } = &join.join_operator else {
        return ControlFlow::Continue(());
    };
    let matches = call(ASOF_MATCH, vec![match_condition.clone()]);
    let on = match constraint {
        JoinConstraint::None => matches,
        JoinConstraint::On(keys) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(keys.clone()))),
            op: BinaryOperator::And,
            right: Box::new(matches),
        },
        JoinConstraint::Using(_) | JoinConstraint::Natural => {
            return ControlFlow::Break("ASOF JOIN takes its keys as ON a.id = b.id".to_owned());
        }
    };
    join.join_operator = JoinOperator::LeftOuter(JoinConstraint::On(on));
    ControlFlow::Continue(())
}
