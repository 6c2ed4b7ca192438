//! Refuses statements that would make DataFusion panic or return a wrong result: a wrong answer is
//! worse than none.
//!
//! - `SELECT FROM t`, a query without columns, as a subquery: DataFusion assumes a first column and
//!   would panic (55.2, `SchemaDisplay` of a scalar subquery; found by mutated requests).
//! - `TABLESAMPLE`, which DataFusion ignores.
//! - `SELECT s ISNULL`, where sqlparser takes `ISNULL` for an alias.
//! - `INTERSECT ALL` and `EXCEPT ALL`, which DataFusion plans as joins that do not count
//!   duplicates.

use datafusion::sql::sqlparser::ast::{
    Expr, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, Statement, TableFactor, Visitor,
};
use fleetdb_engine::{Code, Error, Result};
use fleetdb_statement::walk::walk;
use std::ops::ControlFlow;

const NO_COLUMNS: &str = "a subquery without columns is not supported, but in EXISTS (...)";
const SAMPLE: &str = "TABLESAMPLE is not supported: WHERE random() < 0.1 takes a tenth of the rows";
const IS_NULL: &str = "write IS NULL for ISNULL, or \"isnull\" where it is a name";
const ALL: &str = "INTERSECT ALL and EXCEPT ALL are not supported: number rows that are there more than once, with \
                   row_number() OVER (PARTITION BY ...), and use INTERSECT or EXCEPT";

/// Refuses the forms the module lists.
///
/// # Errors
/// The statement contains one of them.
pub(crate) fn refuse(statement: &Statement) -> Result<()> {
    match walk(statement, &mut Look { depth: 0, is_of_exists: false }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(why) => Err(Error::new(Code::NotSupported, why)),
    }
}

struct Look {
    /// The number of enclosing queries.
    depth: usize,
    /// Whether the next query is the operand of an EXISTS.
    is_of_exists: bool,
}

impl Visitor for Look {
    type Break = &'static str;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        self.is_of_exists = matches!(expr, Expr::Exists { .. });
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Self::Break> {
        match table {
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                ControlFlow::Break(SAMPLE)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        let may_be = std::mem::take(&mut self.is_of_exists) || self.depth == 0;
        if !may_be && selects_nothing(&query.body) {
            return ControlFlow::Break(NO_COLUMNS);
        }
        if counts_rows(&query.body) {
            return ControlFlow::Break(ALL);
        }
        if names_isnull(&query.body) {
            return ControlFlow::Break(IS_NULL);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

fn selects_nothing(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.projection.is_empty(),
        SetExpr::Query(query) => selects_nothing(&query.body),
        SetExpr::SetOperation { left, .. } => selects_nothing(left),
        _ => false,
    }
}

fn names_isnull(body: &SetExpr) -> bool {
    let is_name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => {
            alias.quote_style.is_none() && alias.value.eq_ignore_ascii_case("isnull")
        }
        _ => false,
    };
    match body {
        SetExpr::Select(select) => select.projection.iter().any(is_name),
        SetExpr::SetOperation { left, right, .. } => names_isnull(left) || names_isnull(right),
        _ => false,
    }
}

/// Whether the body is or contains an INTERSECT ALL or EXCEPT ALL. Nested queries are checked
/// separately.
fn counts_rows(body: &SetExpr) -> bool {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return false };
    let is_one = matches!(op, SetOperator::Intersect | SetOperator::Except | SetOperator::Minus)
        && matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
    is_one || counts_rows(left) || counts_rows(right)
}
