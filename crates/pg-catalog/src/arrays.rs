//! Columns of numbers that are texts here but arrays in PostgreSQL, and operations on them.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Subscript,
};
use fleetdb_statement::generated::expr_of;

/// Columns of PostgreSQL's type int2vector, which is indexed from 0: `1 2`; one by JDBC's name.
const VECTORS: [&str; 5] = ["indkey", "indclass", "indcollation", "indoption", "i_indoption"];
/// Array columns, such as `{1,2}`.
const ARRAYS: [&str; 2] = ["conkey", "confkey"];

/// An expression for a column as an array.
struct Array {
    sql: String,
    /// The index of the first element.
    first: i32,
}

impl Array {
    fn of(column: &str) -> Option<Self> {
        let lower = column.to_ascii_lowercase();
        let name = lower.rsplit('.').next()?.trim_matches('"');
        let is_name = |names: &[&str]| names.contains(&name);
        if is_name(&VECTORS) {
            return Some(Self { sql: format!("CAST(string_to_array({column}, ' ') AS SMALLINT[])"), first: 0 });
        }
        let numbers = format!("string_to_array(trim({column}, '{{}}'), ',')");
        is_name(&ARRAYS).then(|| Self { sql: format!("CAST({numbers} AS SMALLINT[])"), first: 1 })
    }
}

/// The column as an array of numbers; `None` if it is not one of these columns.
pub(super) fn numbers(column: &Expr) -> Option<String> {
    of_column(column).map(|array| array.sql)
}

fn of_column(column: &Expr) -> Option<Array> {
    matches!(column, Expr::Identifier(_) | Expr::CompoundIdentifier(_)).then(|| Array::of(&column.to_string()))?
}

/// Rewrites an array operation on one of these columns.
pub(super) fn instead_of(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::CompoundFieldAccess { root, access_chain } => {
            let [column @ .., AccessExpr::Subscript(Subscript::Index { index })] = access_chain.as_slice() else {
                return None;
            };
            if !matches!(root.as_ref(), Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
                return None;
            }
            let column: String = column.iter().map(ToString::to_string).collect();
            let Array { sql, first } = Array::of(&format!("{root}{column}"))?;
            expr_of(&format!("array_element({sql}, {index} + {})", 1 - first))
        }
        Expr::AnyOp { left, compare_op, right, .. } => {
            expr_of(&format!("{left} {compare_op} ANY({})", numbers(unnested(right))?))
        }
        Expr::Cast { expr, data_type: DataType::Array(_), .. } => expr_of(&numbers(unnested(expr))?),
        Expr::Function(function) => of_function(function),
        _ => None,
    }
}

fn of_function(function: &Function) -> Option<Expr> {
    let name = function.name.0.last()?.as_ident()?.value.to_ascii_lowercase();
    match name.as_str() {
        "unnest" => expr_of(&format!("unnest({})", numbers(argument(function)?)?)),
        "generate_subscripts" => {
            let Array { sql, first } = of_column(argument(function)?)?;
            expr_of(&format!("unnest(range({first}, CAST(array_length({sql}) AS BIGINT) + {first}))"))
        }
        // Rows of an element and its place.
        "_pg_expandarray" => {
            let Array { sql, .. } = of_column(argument(function)?)?;
            let places = format!("range(1, CAST(array_length({sql}) AS BIGINT) + 1)");
            expr_of(&format!("named_struct('x', unnest({sql}), 'n', CAST(unnest({places}) AS INT))"))
        }
        // The crate rewrites `= ANY` as one of these.
        "array_contains" | "array_has" | "array_position" | "cardinality" => {
            let column = argument(function)?;
            let sql = function.to_string().replacen(&column.to_string(), &numbers(column)?, 1);
            expr_of(&sql)
        }
        _ => None,
    }
}

fn unnested(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unnested(inner),
        other => other,
    }
}

/// A function's first argument.
pub(super) fn argument(function: &Function) -> Option<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.first()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

#[cfg(test)]
#[path = "arrays_tests.rs"]
mod tests;
