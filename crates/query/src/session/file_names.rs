//! `FROM 'rows.parquet'`: a file's name where a table's name stands.

use crate::transfer::export::FileFormat;
use crate::transfer::read_files::function_for;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, Statement, TableFactor, TableFunctionArgs, Value as Literal, VisitorMut,
};
use fleetdb_engine::{Error, Result};
use fleetdb_statement::built::table_alias;
use fleetdb_statement::walk::walk_mut;
use std::ops::ControlFlow;
use std::path::Path;

/// Rewrites names of files in a statement as calls of the functions that read them.
///
/// # Errors
/// A quoted text in FROM is no name of a Parquet or CSV file.
pub(super) fn as_calls(statement: &mut Statement) -> Result<()> {
    match walk_mut(statement, &mut FileNames) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct FileNames;

impl VisitorMut for FileNames {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let TableFactor::Table { name, args: args @ None, alias, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let [part] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let Some(Ident { value: path, quote_style: Some('\''), .. }) = part.as_ident().cloned() else {
            return ControlFlow::Continue(());
        };
        let function = match FileFormat::of(Path::new(&path)) {
            Ok(format) => function_for(format),
            Err(error) => return ControlFlow::Break(error),
        };
        // As in DuckDB, columns may be named by the file.
        let stem = Path::new(&path).file_stem().and_then(|stem| stem.to_str()).map(table_alias);
        *alias = alias.take().or(stem);
        let path = Expr::value(Literal::SingleQuotedString(path));
        let path = FunctionArg::Unnamed(FunctionArgExpr::Expr(path));
        *args = Some(TableFunctionArgs { args: vec![path], settings: None });
        *name = vec![Ident::new(function)].into();
        ControlFlow::Continue(())
    }
}
