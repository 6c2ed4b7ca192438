//! `RETURNING`, which INSERT, UPDATE and DELETE may have.

use datafusion::sql::sqlparser::ast::{SelectItem, Statement as SqlStatement};

/// The RETURNING clause of a statement.
pub fn returning_clause(sql: &SqlStatement) -> Option<&[SelectItem]> {
    match sql {
        SqlStatement::Insert(insert) => insert.returning.as_deref(),
        SqlStatement::Update(update) => update.returning.as_deref(),
        SqlStatement::Delete(delete) => delete.returning.as_deref(),
        _ => None,
    }
}

/// The RETURNING clause of a statement that supports one, for modification.
pub(crate) fn returning_clause_mut(sql: &mut SqlStatement) -> Option<&mut Option<Vec<SelectItem>>> {
    match sql {
        SqlStatement::Insert(insert) => Some(&mut insert.returning),
        SqlStatement::Update(update) => Some(&mut update.returning),
        SqlStatement::Delete(delete) => Some(&mut delete.returning),
        _ => None,
    }
}
