//! What PostgreSQL calls the columns of a query: `SELECT count(*), max(v)` gives `count` and `max`, which programs ask for by
//! these names (`FigureColname` in its `parse_target.c`).
//!
//! DataFusion has the whole expression as a name, and no two columns may have one; so that one can be there twice, the second
//! has another for as long as it is planned ([`tell_apart`]).

use crate::ddl::identifier;
use crate::returning;
use crate::statement::Statement;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType as SqlType, Expr, Ident, OrderByKind, Query, SelectItem, SetExpr, Statement as SqlStatement,
    Value as Literal, visit_expressions_mut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The name of what has none of its own.
const NO_NAME: &str = "?column?";

/// PostgreSQL's own names of types that have others in SQL.
const TYPES: [(&str, &str); 11] = [
    ("bigint", "int8"),
    ("boolean", "bool"),
    ("character", "bpchar"),
    ("decimal", "numeric"),
    ("double", "float8"),
    ("double precision", "float8"),
    ("float", "float8"),
    ("int", "int4"),
    ("integer", "int4"),
    ("real", "float4"),
    ("smallint", "int2"),
];

/// Names of a query's columns.
#[derive(Clone, Debug, Default)]
pub struct ColumnNames(Vec<Item>);

#[derive(Clone, Debug)]
enum Item {
    Name(String),
    /// `*`: as many columns as there are.
    Wildcard,
}

impl Statement {
    /// The names of its columns.
    ///
    /// ```
    /// use arrow::datatypes::{DataType, Field, Schema};
    /// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
    /// use fleetdb_query::Session;
    /// let db = Database::open(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let session = Session::new(db.into()).unwrap();
    /// let rows = session.sql("SELECT max(t.v), 1 FROM (VALUES (7)) t (v)").unwrap();
    /// let names = session.parse_one("SELECT max(t.v), 1 FROM (VALUES (7)) t (v)").unwrap().column_names();
    /// let schema = names.of(&rows.schema().unwrap());
    /// assert_eq!((schema.field(0).name().as_str(), schema.field(1).name().as_str()), ("max", "?column?"));
    /// ```
    pub fn column_names(&self) -> ColumnNames {
        let items = match self.sql() {
            Some(SqlStatement::Query(query)) => items(&query.body),
            Some(other) => returning::clause(other),
            None => None,
        };
        ColumnNames(items.unwrap_or_default().iter().map(item_name).collect())
    }
}

impl ColumnNames {
    /// A query's columns, as DataFusion calls them, by these names.
    pub fn of(&self, schema: &SchemaRef) -> SchemaRef {
        let count = schema.fields().len();
        let is_wildcard = |item: &Item| matches!(item, Item::Wildcard);
        let wildcards = self.0.iter().filter(|item| is_wildcard(item)).count();
        let named = self.0.len() - wildcards;
        // Of two wildcards nobody knows where one ends and the other begins.
        if named == 0 || wildcards > 1 || wildcards == 0 && named != count || named > count {
            return Arc::clone(schema);
        }
        let mut names = Vec::with_capacity(count);
        for item in &self.0 {
            match item {
                Item::Name(name) => names.push(Some(name)),
                Item::Wildcard => names.resize(names.len() + count - named, None),
            }
        }
        let fields = schema.fields().iter().zip(names).map(|(field, name)| match name {
            Some(name) if name != field.name() => Arc::new(field.as_ref().clone().with_name(name)),
            _ => Arc::clone(field),
        });
        Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
    }
}

/// What the first SELECT of a query, which names its columns, selects.
fn items(body: &SetExpr) -> Option<&[SelectItem]> {
    match body {
        SetExpr::Select(select) => Some(&select.projection),
        SetExpr::Query(query) => items(&query.body),
        SetExpr::SetOperation { left, .. } => items(left),
        _ => None,
    }
}

fn item_name(item: &SelectItem) -> Item {
    match item {
        SelectItem::UnnamedExpr(expr) => Item::Name(name_of(expr)),
        SelectItem::ExprWithAlias { expr, alias } => {
            let is_ours = alias.value.strip_prefix(&expr.to_string()).is_some_and(|rest| rest.starts_with(APART));
            Item::Name(if is_ours { name_of(expr) } else { identifier(alias) })
        }
        _ => Item::Wildcard,
    }
}

/// What PostgreSQL calls an expression that is selected without a name.
pub(crate) fn name_of(expr: &Expr) -> String {
    name(expr).map_or_else(|| NO_NAME.to_owned(), |name| name.text)
}

/// The name of an expression; a weak one, as that of a type, gives way to another's.
struct Name {
    text: String,
    is_weak: bool,
}

fn strong(text: impl Into<String>) -> Option<Name> {
    Some(Name { text: text.into(), is_weak: false })
}

fn weak(text: impl Into<String>) -> Option<Name> {
    Some(Name { text: text.into(), is_weak: true })
}

/// The name that an expression has; `None` without one.
fn name(expr: &Expr) -> Option<Name> {
    let of_kind = match expr {
        Expr::Identifier(column) => return strong(identifier(column)),
        Expr::CompoundIdentifier(parts) => return parts.last().and_then(|column| strong(identifier(column))),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(field) => name(field),
                AccessExpr::Subscript(_) => None,
            });
            return field.or_else(|| name(root));
        }
        Expr::Function(function) => {
            return function.name.0.last().and_then(|part| strong(identifier(part.as_ident()?)));
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return name(inner),
        Expr::Cast { expr, data_type, .. } => {
            return name(expr).filter(|name| !name.is_weak).or_else(|| weak(type_name(data_type)));
        }
        Expr::TypedString(typed) => return weak(type_name(&typed.data_type)),
        Expr::Interval(_) => return weak("interval"),
        Expr::Case { else_result, .. } => {
            return else_result.as_deref().and_then(name).filter(|name| !name.is_weak).or_else(|| weak("case"));
        }
        Expr::Subquery(query) => return subquery_name(query),
        Expr::Array(_) => "array",
        Expr::AtTimeZone { .. } => "timezone",
        Expr::Ceil { .. } => "ceil",
        Expr::Exists { negated: false, .. } => "exists",
        Expr::Extract { .. } => "extract",
        Expr::Floor { .. } => "floor",
        Expr::Overlay { .. } => "overlay",
        Expr::Position { .. } => "position",
        Expr::Substring { shorthand: true, .. } => "substr",
        Expr::Substring { .. } => "substring",
        Expr::Trim { .. } => "btrim",
        Expr::Tuple(_) => "row",
        _ => return None,
    };
    strong(of_kind)
}

/// As PostgreSQL: by the one column of the subquery.
fn subquery_name(query: &Query) -> Option<Name> {
    match items(&query.body)?.first()? {
        SelectItem::UnnamedExpr(expr) => name(expr),
        SelectItem::ExprWithAlias { alias, .. } => strong(identifier(alias)),
        _ => None,
    }
}

fn type_name(data_type: &SqlType) -> String {
    let name = data_type.to_string().to_ascii_lowercase();
    let plain = name.split('(').next().unwrap_or(&name).trim();
    let known = TYPES.iter().find(|(of_sql, _)| *of_sql == plain);
    known.map_or(plain, |(_, name)| name).to_owned()
}

/// Gives what is selected without a name the one that PostgreSQL has for it, where the rows are ordered by that:
/// `SELECT ts::date, max(v) FROM t GROUP BY 1 ORDER BY ts, max`.
pub(crate) fn name_ordered(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), &query.order_by) else { return };
    let (items, OrderByKind::Expressions(order)) = (&mut select.projection, &order.kind) else { return };
    if items.iter().any(|item| matches!(item_name(item), Item::Wildcard)) {
        return;
    }
    for by in order {
        // A column that is ordered by is there under its name, too, in front of what is selected.
        let (name, is_apart) = match &by.expr {
            Expr::Identifier(name) => (identifier(name), false),
            Expr::CompoundIdentifier(parts) => (parts.last().map(identifier).unwrap_or_default(), true),
            _ => continue,
        };
        let has_name = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => identifier(alias) == name,
            SelectItem::UnnamedExpr(expr) => is_column(expr) && name_of(expr) == name,
            _ => false,
        };
        if items.iter().any(has_name) {
            continue;
        }
        let mut called = items.iter_mut().enumerate().filter_map(|(place, item)| match item {
            SelectItem::UnnamedExpr(expr) if name_of(expr) == name && (!is_apart || is_cast_column(expr)) => {
                Some((place, item))
            }
            _ => None,
        });
        if let (Some((place, item)), None) = (called.next(), called.next()) {
            *item = match is_apart {
                true => apart(item_expr(item), place),
                false => SelectItem::ExprWithAlias { expr: item_expr(item), alias: Ident::with_quote('"', name) },
            };
        }
    }
}

fn item_expr(item: &SelectItem) -> Expr {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr.clone(),
        _ => Expr::value(Literal::Null),
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// Whether it is a column, or one that is cast, which DataFusion calls the same.
fn is_cast_column(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_cast_column(inner),
        other => is_column(other),
    }
}

/// What stands between an expression and a number in the name of one that is there again.
const APART: char = ':';

/// An expression under a name that is its own.
fn apart(expr: Expr, place: usize) -> SelectItem {
    let alias = Ident::with_quote('"', format!("{expr}{APART}{}", place + 1));
    SelectItem::ExprWithAlias { expr, alias }
}

/// Gives expressions that a SELECT has twice, or beside `*`, names to tell them apart by.
pub(crate) fn tell_apart(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) if select.projection.len() > 1 => tell_items_apart(&mut select.projection),
        SetExpr::Query(query) => tell_apart(&mut query.body),
        SetExpr::SetOperation { left, right, .. } => {
            tell_apart(left);
            tell_apart(right);
        }
        _ => {}
    }
}

fn tell_items_apart(items: &mut [SelectItem]) {
    let has_wildcard =
        items.iter().any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let mut known = HashSet::new();
    for (place, item) in items.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        if !known.insert(planned_name(expr)) || has_wildcard && is_cast_column(expr) {
            *item = apart(expr.clone(), place);
        }
    }
}

/// What DataFusion calls an expression; it has the same name for one that is cast, or that has casts in it.
pub(crate) fn planned_name(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(column) => identifier(column),
        Expr::CompoundIdentifier(parts) => parts.iter().map(identifier).collect::<Vec<_>>().join("."),
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => planned_name(inner),
        other => {
            let mut bare = other.clone();
            let _ = visit_expressions_mut(&mut bare, |expr| {
                while let Expr::Nested(inner) | Expr::Cast { expr: inner, .. } = expr {
                    *expr = std::mem::replace(inner.as_mut(), Expr::value(Literal::Null));
                }
                ControlFlow::<()>::Continue(())
            });
            bare.to_string()
        }
    }
}

#[cfg(test)]
#[path = "column_names_tests.rs"]
mod tests;
