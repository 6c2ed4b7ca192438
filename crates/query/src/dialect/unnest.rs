//! `unnest(a, b)` of arrays that are written alike: DataFusion knows an array by its text, whatever type that is given, and
//! plans no two of one name. And `unnest(a) AS x`, whose column is called `x`, or `unnest`.

use crate::column_names::planned_name;
use crate::parse::expr_of;
use datafusion::sql::sqlparser::ast::{Statement, TableFactor, VisitMut, VisitorMut};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Gives arrays that are written as one before them another name, and the column of a single one its name.
pub(super) fn tell_arrays_apart(statement: &mut Statement) {
    let _ = statement.visit(&mut Unnests);
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
                // Of one value it is that value.
                match expr_of(&format!("coalesce({array})")) {
                    Some(same) => *array = same,
                    None => return ControlFlow::Break(()),
                }
            }
        }
        ControlFlow::Continue(())
    }
}
