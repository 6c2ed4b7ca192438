//! `unnest(a, b)` of arrays with the same text: DataFusion names an array by its text, whatever its
//! type, and rejects duplicate names. Also `unnest(a) AS x`, whose column is called `x`, or
//! `unnest` without the alias.

use crate::column_names::planned_name;
use datafusion::sql::sqlparser::ast::{Statement, TableFactor, VisitorMut};
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::walk::walk_mut;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Makes the names of repeated arrays unique, and names the column of a single one.
pub(super) fn tell_arrays_apart(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Unnests);
}

struct Unnests;

impl VisitorMut for Unnests {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::UNNEST { array_exprs, alias, .. } = table else { return ControlFlow::Continue(()) };
        if array_exprs.len() == 1 {
            super::name_column(alias, "unnest");
        }
        let mut known = HashSet::new();
        for array in array_exprs {
            while !known.insert(planned_name(array)) {
                // `coalesce` of one value is that value, with another name.
                match expr_of(&format!("coalesce({array})")) {
                    Some(same) => *array = same,
                    None => return ControlFlow::Break(()),
                }
            }
        }
        ControlFlow::Continue(())
    }
}
