//! Parts of statements: RETURNING, and the clauses of a SELECT.

use crate::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, OrderByExpr, Select, SelectItem, Statement as SqlStatement, TableFactor, Value as Literal,
};

/// The RETURNING clause of a statement.
pub fn returning_clause(sql: &SqlStatement) -> Option<&[SelectItem]> {
    match sql {
        SqlStatement::Insert(insert) => insert.returning.as_deref(),
        SqlStatement::Update(update) => update.returning.as_deref(),
        SqlStatement::Delete(delete) => delete.returning.as_deref(),
        _ => None,
    }
}

impl Statement {
    /// Whether the statement writes and returns rows.
    pub fn has_returning(&self) -> bool {
        self.sql().and_then(returning_clause).is_some()
    }
}

/// The RETURNING clause of a statement that supports one, for modification.
pub fn returning_clause_mut(sql: &mut SqlStatement) -> Option<&mut Option<Vec<SelectItem>>> {
    match sql {
        SqlStatement::Insert(insert) => Some(&mut insert.returning),
        SqlStatement::Update(update) => Some(&mut update.returning),
        SqlStatement::Delete(delete) => Some(&mut delete.returning),
        _ => None,
    }
}

/// Whether the SELECT list is a single aggregate.
pub fn is_aggregate(items: &[SelectItem]) -> bool {
    let [SelectItem::UnnamedExpr(Expr::Function(call)) | SelectItem::ExprWithAlias { expr: Expr::Function(call), .. }] =
        items
    else {
        return false;
    };
    let name = call.name.to_string().to_ascii_lowercase();
    call.over.is_none() && ["avg", "count", "max", "min", "sum"].contains(&name.as_str())
}

/// Whether this is an output position, as in `ORDER BY 1`.
pub fn is_place(order: &OrderByExpr) -> bool {
    matches!(&order.expr, Expr::Value(literal) if matches!(literal.value, Literal::Number(..)))
}

/// The tables in the FROM clause of a SELECT.
pub fn tables_of(select: &Select) -> impl Iterator<Item = &TableFactor> {
    select.from.iter().flat_map(|from| {
        let joined = from.joins.iter().map(|join| &join.relation);
        [&from.relation].into_iter().chain(joined)
    })
}
