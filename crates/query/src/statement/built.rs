//! Builds expressions of statements.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
};

/// A call of a function.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let list = FunctionArgumentList {
        duplicate_treatment: None,
        args: args.into_iter().map(|arg| FunctionArg::Unnamed(arg.into())).collect(),
        clauses: Vec::new(),
    };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
