//! Rewrites parsed statements about the catalog that DataFusion cannot plan.

use super::arrays::{self, argument};
use super::relations;
use super::tables::{HIDDEN_TABLE, SIZES_TABLE};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FunctionArguments, JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query, Select,
    SelectItem, SetExpr, Statement, TableFactor, Value as Literal, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use fleetdb_statement::clauses::is_place;
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::{visit_expressions, visit_expressions_mut, walk_mut};
use std::ops::ControlFlow;

/// Functions for the size of a table. Each returns the size of its segments.
const SIZES: [&str; 4] = ["pg_table_size", "pg_relation_size", "pg_total_relation_size", "pg_indexes_size"];

/// Tables that are always empty here: a scalar subquery on one is NULL, EXISTS is false, and ARRAY has
/// no elements.
const EMPTY: [&str; 4] = ["pg_attrdef", "pg_inherits", "pg_policy", "pg_sequence"];

/// The name of the recursive query in which asyncpg asks for types, their elements and components.
const RECURSION: &str = "typeinfo_tree";

/// Its replacement: the requested types after their element types. Single letters are sent as
/// bytes, as asyncpg expects for PostgreSQL's type "char".
const TYPES: &str = "
    WITH asked AS (SELECT oid, typelem FROM pg_catalog.pg_type WHERE arrow_cast(oid, 'UInt32') = ANY($1))
    SELECT t.oid, n.nspname AS ns, t.typname AS name, CAST(t.typtype AS BYTEA) AS kind,
        CAST(NULL AS INT) AS basetype, t.typelem AS elemtype, CAST(e.typdelim AS BYTEA) AS elemdelim,
        CAST(NULL AS INT) AS range_subtype, CAST(NULL AS INT) AS attrtypoids, CAST(NULL AS INT) AS attrnames,
        CAST(NULL AS TEXT) AS basetype_name, e.typname AS elemtype_name, CAST(NULL AS TEXT) AS range_subtype_name
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
    JOIN (SELECT oid, 0 AS depth FROM asked UNION ALL SELECT typelem, 1 FROM asked WHERE typelem <> 0) d ON d.oid = t.oid
    LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND t.typlen = -1
    ORDER BY d.depth DESC";

/// Aggregates that clients use in subqueries.
const AGGREGATES: [&str; 8] = ["array_agg", "bool_and", "bool_or", "count", "first_value", "max", "min", "string_agg"];

/// Rewrites a statement.
pub(super) fn rewrite(statement: &mut Statement) {
    if let Statement::Query(query) = statement
        && query.with.iter().flat_map(|with| &with.cte_tables).any(|table| table.alias.name.value == RECURSION)
        && let Ok(mut types) = Parser::parse_sql(&PostgreSqlDialect {}, TYPES)
        && let Some(types) = types.pop()
    {
        *statement = types;
        return;
    }
    relations::resolve(statement);
    let _ = walk_mut(statement, &mut Selects);
    let _ = visit_expressions_mut(statement, |expr| {
        if let Some(instead) = arrays::instead_of(expr).or_else(|| instead_of(expr)) {
            *expr = instead;
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Rewrites EXISTS in the SELECT list, which is planned only in conditions, as a count. A join of
/// descriptions with a subquery in its condition, which is not planned either, becomes one that
/// matches nothing.
struct Selects;

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
            if let (JoinOperator::Left(on) | JoinOperator::LeftOuter(on), TableFactor::Table { name, .. }) =
                (&mut join.join_operator, &join.relation)
                && let JoinConstraint::On(on) = on
                && last_of(name).as_deref() == Some("pg_description")
                && has_subquery(on)
            {
                *on = Expr::value(Literal::Boolean(false));
            }
        }
        if no_privileges(&mut select.projection) {
            select.selection = Some(Expr::value(Literal::Boolean(false)));
        }
        for item in &mut select.projection {
            visit_expressions_mut(item, |expr| {
                if let Expr::Exists { subquery, negated } = expr
                    && let Some(count) = counted(subquery, *negated)
                {
                    *expr = count;
                }
                ControlFlow::Continue(())
            })?;
        }
        ControlFlow::Continue(())
    }
}

/// Replaces `aclexplode(relacl)`, which lists privileges, with an empty entry. Returns whether
/// there was such a call; the caller then makes the result empty.
fn no_privileges(items: &mut [SelectItem]) -> bool {
    const NONE: &str = "named_struct('grantor', 0, 'grantee', 0, 'privilege_type', '', 'is_grantable', false)";
    let mut found = false;
    for item in items {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && let Expr::Function(function) = expr
            && last_of(&function.name).as_deref() == Some("aclexplode")
            && let Some(none) = expr_of(NONE)
        {
            *expr = none;
            found = true;
        }
    }
    found
}

/// A name without its schema.
fn last_of(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(identifier)
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| match expr {
        Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, is_one).is_break()
}

fn counted(subquery: &Query, negated: bool) -> Option<Expr> {
    let mut subquery = subquery.clone();
    let SetExpr::Select(select) = subquery.body.as_mut() else { return None };
    if is_empty(select) {
        return Some(Expr::value(Literal::Boolean(negated)));
    }
    select.projection = vec![SelectItem::UnnamedExpr(expr_of("count(*)")?)];
    expr_of(&format!("(({subquery}) {} 0)", if negated { "=" } else { ">" }))
}

fn instead_of(expr: &Expr) -> Option<Expr> {
    let function = match expr {
        Expr::Function(function) => function,
        Expr::Subquery(query) => return first_of(query),
        Expr::CompoundFieldAccess { root, access_chain } => return field_of(root, access_chain),
        _ => return None,
    };
    let name = last_of(&function.name)?;
    match name.as_str() {
        "array" => match &function.args {
            FunctionArguments::Subquery(query) => gathered(query),
            _ => None,
        },
        // Column names are texts here. node-postgres leaves an array of PostgreSQL's type `name` a
        // text, which Sequelize parses, but it parses an array of texts itself.
        "array_agg" => {
            let column = argument(function)?;
            is_column_name(column).then(|| expr_of(&format!("'{{' || string_agg({column}, ',') || '}}'")))?
        }
        // These columns are texts here, and always NULL.
        "array_to_string" => {
            let array = argument(function)?;
            let name = array.to_string().to_ascii_lowercase();
            let is_text = ["acl", "config", "options", "pg_blocking_pids(pid)"].iter().any(|end| name.ends_with(end));
            is_text.then(|| array.clone())
        }
        "to_regclass" => {
            let name = argument(function)?.to_string();
            let name = name.trim_matches('\'').rsplit('.').next()?.trim_matches('"');
            expr_of(&format!("(SELECT max(oid) FROM pg_catalog.pg_class WHERE relname = '{name}')"))
        }
        "to_regtype" => {
            expr_of(&format!("(SELECT max(oid) FROM pg_catalog.pg_type WHERE typname = {})", argument(function)?))
        }
        "pg_table_is_visible" => {
            let hidden = format!("SELECT count(*) FROM pg_catalog.{HIDDEN_TABLE} WHERE hidden_oid = ");
            expr_of(&format!("(({hidden}{}) = 0)", argument(function)?))
        }
        // Drivers ask for the parameter types, and would send texts without this cast.
        name if name.contains("_advisory_") && argument(function).is_some() => {
            let FunctionArguments::List(list) = &function.args else { return None };
            let numbers: Vec<_> = list.args.iter().map(|number| format!("CAST({number} AS BIGINT)")).collect();
            expr_of(&format!("{name}({})", numbers.join(", ")))
        }
        // The result is the same for all arguments, so they are dropped.
        "col_description" | "obj_description" | "shobj_description" if argument(function).is_some() => {
            expr_of(&format!("{name}()"))
        }
        "pg_database_size" | "pg_tablespace_size" => {
            expr_of(&format!("(SELECT coalesce(sum(bytes), 0) FROM pg_catalog.{SIZES_TABLE})"))
        }
        name if SIZES.contains(&name) => {
            let table = argument(function)?;
            let is = match table {
                Expr::Value(literal) => format!("sized_name = {literal}"),
                other => format!("sized_oid = {other}"),
            };
            expr_of(&format!("(SELECT coalesce(max(bytes), 0) FROM pg_catalog.{SIZES_TABLE} WHERE {is})"))
        }
        _ => None,
    }
}

/// Whether an expression is a table's `attname`.
fn is_column_name(expr: &Expr) -> bool {
    matches!(expr, Expr::CompoundIdentifier(names) if names.last().map(identifier).as_deref() == Some("attname"))
}

/// Rewrites `ARRAY(SELECT x ...)` as `(SELECT array_agg(x) ...)`, or as an empty array.
fn gathered(query: &Query) -> Option<Expr> {
    let mut query = query.clone();
    let order = query.order_by.take();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    if is_empty(select) {
        return expr_of("CAST(make_array() AS TEXT[])");
    }
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_slice() else {
        return None;
    };
    let order = match order.map(|order| order.kind) {
        None => String::new(),
        Some(OrderByKind::Expressions(order)) if !order.iter().any(is_place) => {
            format!(" ORDER BY {}", order.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        Some(_) => format!(" ORDER BY {expr}"),
    };
    let distinct = if select.distinct.take().is_some() { "DISTINCT " } else { "" };
    let all = expr_of(&format!("array_agg({distinct}{expr}{order})"))?;
    select.projection = vec![SelectItem::UnnamedExpr(all)];
    Some(Expr::Subquery(Box::new(query)))
}

/// A field of a composite value: `(acl).grantee`.
fn field_of(root: &Expr, fields: &[AccessExpr]) -> Option<Expr> {
    let (Expr::Nested(row), [AccessExpr::Dot(Expr::Identifier(field))]) = (root, fields) else { return None };
    expr_of(&format!("get_field({row}, '{}')", identifier(field)))
}

/// Whether a query reads one of the always empty tables.
pub(super) fn is_empty(select: &Select) -> bool {
    select.from.iter().any(|from| match &from.relation {
        TableFactor::Table { name, .. } => last_of(name).is_some_and(|name| EMPTY.contains(&name.as_str())),
        _ => false,
    })
}

/// Whether an expression builds JSON, as SQLAlchemy's for the sequence of an identity column: there are
/// no identity columns.
fn is_json(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(call) if last_of(&call.name).as_deref() == Some("json_build_object"))
}

/// Rewrites a scalar subquery so that DataFusion can tell it returns one row.
fn first_of(query: &Query) -> Option<Expr> {
    let mut query = query.clone();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_slice() else {
        return None;
    };
    let aggregates = visit_expressions(expr, |expr| match expr {
        Expr::Function(function) if AGGREGATES.contains(&function.name.to_string().to_ascii_lowercase().as_str()) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    let is_aggregate = aggregates.is_break();
    if is_json(expr) || is_empty(select) && !is_aggregate {
        return expr_of("CAST(NULL AS TEXT)");
    }
    if is_aggregate || select.from.is_empty() || query.order_by.is_some() {
        return None;
    }
    let value = arrays::numbers(expr).unwrap_or_else(|| expr.to_string());
    select.projection = vec![SelectItem::UnnamedExpr(expr_of(&format!("first_value({value})"))?)];
    query.limit_clause = None;
    Some(Expr::Subquery(Box::new(query)))
}
