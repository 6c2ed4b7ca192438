//! JSON forms that need more than a function: casts (`'{}'::jsonb`), the aggregates (`json_agg(v
//! ORDER BY ts)`), functions that return rows (`FROM t, jsonb_array_elements(t.payload) AS e`), and
//! whole rows (`row_to_json(t)`).
//!
//! | in the text | rewritten |
//! |---|---|
//! | `x::jsonb` | `jsonb(x)` |
//! | `json_agg(x ORDER BY y)` | `json_array_of(array_agg(to_json(x) ORDER BY y))` |
//! | `json_object_agg(k, v)` | `json_object_of(array_agg(json_member(k, v)))` |
//! | `SELECT json_object_keys(x)` | `SELECT unnest(json_keys(x))` |
//! | `FROM json_array_elements(x)` | `FROM LATERAL (SELECT as_json(unnest(json_values(x))) AS value)` |
//! | `to_json(t)` with `FROM t` | `to_json(json_row(t.*))` |

use super::latest::name;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, Ident, ObjectName, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem, SetExpr,
    Statement, TableAlias, TableAliasColumnDef, TableFactor, Value, Values, VisitorMut,
};
use fleetdb_json::ROW;
use fleetdb_statement::built::{call, cast};
use fleetdb_statement::clauses::tables_of;
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::{visit_expressions_mut, visit_outside_subqueries_mut, walk_mut};
use std::ops::ControlFlow;

/// The functions whose arguments may be whole rows.
const OF_ROWS: [&str; 11] = [
    "row_to_json",
    "to_json",
    "to_jsonb",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "jsonb_object_agg",
    "json_build_array",
    "jsonb_build_array",
    "json_build_object",
    "jsonb_build_object",
];

/// A function that returns rows.
struct RowsOf {
    name: &'static str,
    columns: &'static [RowsColumn],
}

/// A column: its name, the function around `unnest` that sets its type, and the call that makes the
/// array for `unnest`. `%` stands for the argument.
type RowsColumn = (&'static str, &'static str, &'static str);

/// Those functions. `jsonb_` makes `jsonb` of a text without a type. A column without a name is
/// called like the function's alias.
const ROWS_OF: [RowsOf; 10] = [
    RowsOf { name: "json_array_elements", columns: &[("value", "as_json", "json_values(%)")] },
    RowsOf { name: "jsonb_array_elements", columns: &[("value", "as_jsonb", "json_values(jsonb(%))")] },
    RowsOf { name: "json_array_elements_text", columns: &[("value", "", "json_value_texts(%)")] },
    RowsOf { name: "jsonb_array_elements_text", columns: &[("value", "", "json_value_texts(jsonb(%))")] },
    RowsOf { name: "json_object_keys", columns: &[("", "", "json_keys(%)")] },
    RowsOf { name: "jsonb_object_keys", columns: &[("", "", "json_keys(jsonb(%))")] },
    RowsOf {
        name: "json_each",
        columns: &[("key", "", "json_pair_keys(%)"), ("value", "as_json", "json_pair_values(%)")],
    },
    RowsOf {
        name: "jsonb_each",
        columns: &[("key", "", "json_pair_keys(jsonb(%))"), ("value", "as_jsonb", "json_pair_values(jsonb(%))")],
    },
    RowsOf {
        name: "json_each_text",
        columns: &[("key", "", "json_pair_keys(%)"), ("value", "", "json_pair_texts(%)")],
    },
    RowsOf {
        name: "jsonb_each_text",
        columns: &[("key", "", "json_pair_keys(jsonb(%))"), ("value", "", "json_pair_texts(jsonb(%))")],
    },
];

/// The rows of a column, as an expression.
fn unnested((_, typed, list): &RowsColumn, arg: &str) -> String {
    format!("{typed}(unnest({}))", list.replace('%', arg))
}

/// Rewrites the JSON forms of a statement.
pub(super) fn as_calls(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Forms { inserts: false, depth: 0 });
}

struct Forms {
    /// Whether the statement is an INSERT, which converts each value to its column's type.
    inserts: bool,
    /// The number of enclosing queries.
    depth: usize,
}

impl VisitorMut for Forms {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        self.inserts = matches!(statement, Statement::Insert(_));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        let order = match &mut query.order_by {
            Some(order) => match &mut order.kind {
                OrderByKind::Expressions(by) => by.as_mut_slice(),
                OrderByKind::All(_) => &mut [],
            },
            None => &mut [],
        };
        super::selects(&mut query.body, &mut |select| rewrite_select(select, order));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        if let SetExpr::Values(values) = query.body.as_mut() {
            values_of_one_type(values, self.inserts && self.depth == 0);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let null = || Expr::value(Value::Null);
        match expr {
            Expr::Cast { expr: of, data_type: to @ (DataType::JSON | DataType::JSONB), array: false, .. } => {
                let of = std::mem::replace(of.as_mut(), null());
                *expr = json_of(of, to);
            }
            Expr::TypedString(typed) if matches!(typed.data_type, DataType::JSON | DataType::JSONB) => {
                *expr = json_of(Expr::Value(typed.value.clone()), &typed.data_type);
            }
            Expr::Function(function) => {
                if let Some(aggregate) = aggregate(function) {
                    *expr = aggregate;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Makes all values of a column of VALUES JSON if one is, or all of them texts for an INSERT:
/// DataFusion refuses values that differ in their metadata.
fn values_of_one_type(values: &mut Values, are_inserted: bool) {
    let width = values.rows.iter().map(|row| row.content.len()).max().unwrap_or(0);
    for place in 0..width {
        let kinds: Vec<_> = values.rows.iter().map(|row| row.content.get(place).and_then(kind_of)).collect();
        let Some(kind) = kinds.iter().flatten().next() else { continue };
        if kinds.iter().all(|other| other.as_ref() == Some(kind)) {
            continue;
        }
        for (row, own) in values.rows.iter_mut().zip(&kinds) {
            let Some(value) = row.content.get_mut(place) else { continue };
            let of = std::mem::replace(value, Expr::value(Value::Null));
            *value = match own {
                Some(_) if are_inserted => cast(of, DataType::Text),
                None if !are_inserted => call(kind, vec![of]),
                _ => of,
            };
        }
    }
}

/// The kind of JSON that an expression is, judged by its form.
fn kind_of(expr: &Expr) -> Option<&'static str> {
    match expr {
        Expr::Nested(inner) => kind_of(inner),
        Expr::BinaryOp { left, op: BinaryOperator::Arrow | BinaryOperator::HashArrow, .. } => kind_of(left),
        Expr::Function(function) => match name_of(&function.name)?.as_str() {
            "json" | "as_json" | "to_json" | "row_to_json" | "json_build_object" | "json_build_array" => Some("json"),
            "jsonb" | "as_jsonb" | "to_jsonb" | "jsonb_build_object" | "jsonb_build_array" | "jsonb_set" => {
                Some("jsonb")
            }
            _ => None,
        },
        _ => None,
    }
}

/// A cast to `json` or `jsonb`.
fn json_of(expr: Expr, to: &DataType) -> Expr {
    let of = match expr {
        // The type of a parameter.
        Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => cast(Expr::Value(value), DataType::Text),
        other => other,
    };
    call(if *to == DataType::JSON { "json" } else { "jsonb" }, vec![of])
}

/// The name of a function without a schema.
fn name_of(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(identifier),
        _ => None,
    }
}

fn exprs(function: &mut Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let expr = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(expr).collect()
}

/// A JSON aggregate as a call on top of `array_agg`.
fn aggregate(function: &mut Function) -> Option<Expr> {
    let name = name_of(&function.name)?;
    let (is_object, prefix) = match name.as_str() {
        "json_agg" => (false, "json"),
        "jsonb_agg" => (false, "jsonb"),
        "json_object_agg" => (true, "json"),
        "jsonb_object_agg" => (true, "jsonb"),
        _ => return None,
    };
    let args = exprs(function)?;
    let (args, around) = match (is_object, args.as_slice()) {
        (true, [_, _]) => (vec![call("json_member", args)], format!("{prefix}_object_of")),
        (false, [arg]) => {
            let is_row = matches!(arg, Expr::Function(row) if name_of(&row.name).as_deref() == Some(ROW));
            let around = if is_row && prefix == "json" { "json_array_of_rows" } else { &format!("{prefix}_array_of") };
            (args, around.to_owned())
        }
        _ => return None,
    };
    let mut collect = function.clone();
    collect.name = ObjectName::from(vec![Ident::new("array_agg")]);
    let FunctionArguments::List(list) = &mut collect.args else { return None };
    let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    if is_distinct && !is_object {
        // PostgreSQL sorts distinct values.
        let sorted = |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
        if !list.clauses.iter().any(sorted) {
            let by = args.iter().cloned().map(|expr| OrderByExpr {
                expr,
                options: OrderByOptions { asc: None, nulls_first: None },
                with_fill: None,
            });
            list.clauses.push(FunctionArgumentClause::OrderBy(by.collect()));
        }
        return Some(call(&format!("to_{prefix}"), vec![Expr::Function(collect)]));
    }
    let args = match is_object {
        true => args,
        false => args.into_iter().map(|arg| call(&format!("to_{prefix}"), vec![arg])).collect(),
    };
    list.args = args.into_iter().map(|arg| FunctionArg::Unnamed(arg.into())).collect();
    Some(call(&around, vec![Expr::Function(collect)]))
}

fn rewrite_select(select: &mut Select, order: &mut [OrderByExpr]) {
    select.projection.iter_mut().for_each(rows_selected);
    let mut columns = Vec::new();
    for from in &mut select.from {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        for table in std::iter::once(&mut from.relation).chain(joined) {
            columns.extend(rows_in_from(table));
        }
    }
    if !columns.is_empty() {
        name_columns(select, order, &columns);
    }
    // The alias of another function is the name of its column.
    let is_table = |table: &&TableFactor| !matches!(table, TableFactor::Table { args: Some(_), .. });
    let tables: Vec<String> = tables_of(select).filter(is_table).filter_map(name).collect();
    let whole_rows = |expr: &mut Expr| {
        if let Expr::Function(function) = expr {
            rows_as_calls(function, &tables);
        }
        ControlFlow::<()>::Continue(())
    };
    let _ = visit_expressions_mut(select, whole_rows);
}

/// Functions that return rows in the SELECT list.
fn rows_selected(item: &mut SelectItem) {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return };
    let _ = visit_outside_subqueries_mut(expr, |expr| {
        if let Expr::Function(function) = expr
            && let Some(rows) = name_of(&function.name).and_then(|name| rows_of(&name))
            && let [column] = rows.columns
            && let Some([arg]) = exprs(function).as_deref()
            && let Some(unnested) = expr_of(&unnested(column, &arg.to_string()))
        {
            *expr = unnested;
        }
        ControlFlow::<()>::Continue(())
    });
}

fn rows_of(name: &str) -> Option<&'static RowsOf> {
    ROWS_OF.iter().find(|rows| rows.name == name)
}

/// The column that the name of a function's alias means.
struct AliasColumn {
    alias: String,
    column: Ident,
}

/// Replaces such a function in FROM by a subquery. Returns what its alias means, if it is a value.
fn rows_in_from(table: &mut TableFactor) -> Option<AliasColumn> {
    let (function, args, alias, numbers) = match table {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            (name, &args.args, alias, *with_ordinality)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => (name, &*args, alias, *with_ordinality),
        _ => return None,
    };
    let rows = rows_of(&name_of(function)?)?;
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))] = args.as_slice() else { return None };
    let arg = arg.to_string();
    let own = || TableAlias { explicit: true, name: Ident::new(rows.name), columns: Vec::new(), at: None };
    let mut alias = alias.clone().unwrap_or_else(own);
    let (mut items, mut names) = (Vec::new(), Vec::new());
    for column in rows.columns {
        let name = if column.0.is_empty() { alias.name.clone() } else { Ident::new(column.0) };
        items.push(format!("{} AS {name}", unnested(column, &arg)));
        names.push(name);
    }
    if let (true, [(_, _, list), ..]) = (numbers, rows.columns) {
        items.push(format!("unnest(json_numbers({})) AS ordinality", list.replace('%', &arg)));
        names.push(Ident::new("ordinality"));
    }
    let Some(Expr::Subquery(subquery)) = expr_of(&format!("(SELECT {})", items.join(", "))) else { return None };
    if !alias.columns.is_empty() {
        // An alias may name only the first columns.
        let missing = names.iter().skip(alias.columns.len()).cloned();
        alias.columns.extend(missing.map(|name| TableAliasColumnDef { name, data_type: None }));
    }
    let first = alias.columns.first().map(|column| column.name.clone()).or_else(|| names.first().cloned())?;
    let meant = AliasColumn { alias: identifier(&alias.name), column: first };
    *table = TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None };
    (rows.columns.len() == 1 && !numbers && identifier(&meant.column) != meant.alias).then_some(meant)
}

/// Replaces the alias of a function by the column that it means: `e ->> 'id'` in `FROM t,
/// jsonb_array_elements(t.items) AS e`.
fn name_columns(select: &mut Select, order: &mut [OrderByExpr], columns: &[AliasColumn]) {
    let column_of = |expr: &Expr| match expr {
        Expr::Identifier(name) => columns.iter().find(|known| known.alias == identifier(name)),
        _ => None,
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(known) = column_of(expr)
        {
            let alias = Ident::with_quote('"', known.alias.clone());
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
    let mut replace = |expr: &mut Expr| {
        if let Some(known) = column_of(expr) {
            let table = Ident::with_quote('"', known.alias.clone());
            *expr = Expr::CompoundIdentifier(vec![table, known.column.clone()]);
        }
        ControlFlow::<()>::Continue(())
    };
    let _ = visit_expressions_mut(select, &mut replace);
    for by in order {
        // A name alone is that of a selected column.
        if !matches!(by.expr, Expr::Identifier(_)) {
            let _ = visit_expressions_mut(&mut by.expr, &mut replace);
        }
    }
}

/// Replaces the arguments of a JSON function that are whole rows of these tables.
fn rows_as_calls(function: &mut Function, tables: &[String]) {
    let is_of_rows = name_of(&function.name).is_some_and(|name| OF_ROWS.contains(&name.as_str()));
    let FunctionArguments::List(list) = &mut function.args else { return };
    if !is_of_rows {
        return;
    }
    for arg in &mut list.args {
        let table = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name)))
                if tables.contains(&identifier(name)) =>
            {
                ObjectName::from(vec![name.clone()])
            }
            FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(table)) => table.clone(),
            _ => continue,
        };
        let mut row = call(ROW, Vec::new());
        if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut row {
            list.args.push(FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(table)));
        }
        *arg = FunctionArg::Unnamed(row.into());
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
