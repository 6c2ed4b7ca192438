//! Gives a query's columns PostgreSQL's names: `SELECT count(*), max(v)` returns `count` and `max`,
//! and programs rely on these names (`FigureColname` in its `parse_target.c`).
//!
//! DataFusion names a column after the whole expression and rejects duplicate names. To allow
//! duplicates, repeated columns get distinct names during planning ([`tell_apart`]).

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CreateTable, DataType as SqlType, Expr, Function, GroupByExpr, Ident, ObjectNamePart,
    OrderByKind, Query, Select, SelectItem, SetExpr, Statement as SqlStatement, TableFactor, UnaryOperator,
    Value as Literal, VisitorMut,
};
use fleetdb_functions::planned_names::{APART, as_written, written_names};
use fleetdb_query::Statement;
use fleetdb_statement::built;
use fleetdb_statement::clauses::returning_clause;
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::{visit_expressions, visit_expressions_mut, walk_mut};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The name of a column without a natural name.
const NO_NAME: &str = "?column?";

/// PostgreSQL's internal names for types that have different names in SQL.
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

/// The names of a query's columns.
#[derive(Clone, Debug, Default)]
pub struct ColumnNames(Vec<Item>);

#[derive(Clone, Debug)]
enum Item {
    Name(String),
    /// `*`, which stands for any number of columns.
    Wildcard,
}

/// The names of the statement's columns.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
/// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
/// use fleetdb_query::Session;
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let session = Session::new(db.into(), fleetdb_postgres::Postgres::new()).unwrap();
/// let rows = session.sql("SELECT max(t.v), 1 FROM (VALUES (7)) t (v)").unwrap();
/// let statement = session.parse_one("SELECT max(t.v), 1 FROM (VALUES (7)) t (v)").unwrap();
/// let names = fleetdb_postgres::column_names(&statement);
/// let schema = names.of(&rows.schema().unwrap());
/// assert_eq!((schema.field(0).name().as_str(), schema.field(1).name().as_str()), ("max", "?column?"));
/// ```
pub fn column_names(statement: &Statement) -> ColumnNames {
    statement.sql().map(names_of).unwrap_or_default()
}

/// The names of a parsed statement's columns.
pub(crate) fn names_of(statement: &SqlStatement) -> ColumnNames {
    let items = match statement {
        SqlStatement::Query(query) => items(&query.body),
        other => returning_clause(other),
    };
    ColumnNames(items.unwrap_or_default().iter().map(item_name).collect())
}

impl ColumnNames {
    /// Renames the columns of a query from DataFusion's names to these.
    pub fn of(&self, schema: &SchemaRef) -> SchemaRef {
        let count = schema.fields().len();
        let named = |items: &mut dyn Iterator<Item = &Item>| -> Vec<String> {
            items.map_while(|item| if let Item::Name(name) = item { Some(name.clone()) } else { None }).collect()
        };
        // With two wildcards, the boundary between them is unknown.
        let (in_front, behind) = (named(&mut self.0.iter()), named(&mut self.0.iter().rev()));
        let is_all = in_front.len() == self.0.len();
        if self.0.is_empty() || is_all && self.0.len() != count || !is_all && in_front.len() + behind.len() > count {
            return written_names(schema).unwrap_or_else(|| Arc::clone(schema));
        }
        let fields = schema.fields().iter().enumerate().map(|(place, field)| {
            let name = in_front.get(place).or_else(|| behind.get(count - 1 - place)).map(String::as_str);
            let name = name.unwrap_or_else(|| as_written(field.name()));
            if name == field.name() { Arc::clone(field) } else { Arc::new(field.as_ref().clone().with_name(name)) }
        });
        Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
    }
}

/// The SELECT list of a query's first SELECT, which names the columns.
fn items(body: &SetExpr) -> Option<&[SelectItem]> {
    match body {
        SetExpr::Select(select) => Some(&select.projection),
        SetExpr::Query(query) => items(&query.body),
        SetExpr::SetOperation { left, .. } => items(left),
        _ => None,
    }
}

/// The same as [`items`], but mutable.
fn items_mut(body: &mut SetExpr) -> &mut [SelectItem] {
    match body {
        SetExpr::Select(select) => &mut select.projection,
        SetExpr::Query(query) => items_mut(&mut query.body),
        SetExpr::SetOperation { left, .. } => items_mut(left),
        _ => &mut [],
    }
}

fn item_name(item: &SelectItem) -> Item {
    match item {
        SelectItem::UnnamedExpr(expr) => Item::Name(name_of(expr)),
        SelectItem::ExprWithAlias { alias, .. } => Item::Name(as_written(&identifier(alias)).to_owned()),
        _ => Item::Wildcard,
    }
}

/// PostgreSQL's name for an expression selected without an alias.
pub(crate) fn name_of(expr: &Expr) -> String {
    name(expr).map_or_else(|| NO_NAME.to_owned(), |name| name.text)
}

/// The name of an expression. A weak name, such as a type's, yields to a stronger one.
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

/// The name of an expression; `None` if it has none.
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
            return name(expr).filter(|name| !name.is_weak).or_else(|| weak(plain_type_name(data_type)));
        }
        Expr::TypedString(typed) => return weak(plain_type_name(&typed.data_type)),
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

/// As in PostgreSQL, the name of the subquery's single column.
fn subquery_name(query: &Query) -> Option<Name> {
    match items(&query.body)?.first()? {
        SelectItem::UnnamedExpr(expr) => name(expr),
        SelectItem::ExprWithAlias { alias, .. } => strong(identifier(alias)),
        _ => None,
    }
}

/// The name of a type without its digits.
fn plain_type_name(data_type: &SqlType) -> String {
    let name = type_name(data_type);
    name.split(['(', '[']).next().unwrap_or(&name).trim().to_owned()
}

/// PostgreSQL's internal name of a type, with its digits: `int4`, `timestamp(3)`.
pub(crate) fn type_name(data_type: &SqlType) -> String {
    let name = data_type.to_string().to_ascii_lowercase();
    let (plain, digits) = name.split_at(name.find(['(', '[']).unwrap_or(name.len()));
    let known = TYPES.iter().find(|(of_sql, _)| *of_sql == plain.trim());
    format!("{}{digits}", known.map_or(plain.trim(), |(_, name)| name))
}

/// Restores the names that unaliased items had before the query was rewritten.
pub(crate) fn keep_names(query: &mut Query, names: &ColumnNames) {
    for (item, name) in items_mut(&mut query.body).iter_mut().zip(&names.0) {
        if let (SelectItem::UnnamedExpr(expr), Item::Name(name)) = (&*item, name)
            && name_of(expr) != *name
        {
            *item = named(expr.clone(), name);
        }
    }
}

/// Gives unaliased items of queries in FROM, WITH and CREATE TABLE AS PostgreSQL's names, because
/// other parts of the statement refer to them: `SELECT max(count) FROM (SELECT count(*) FROM reads
/// GROUP BY meter) AS counts`.
pub(crate) fn name_derived(statement: &mut SqlStatement) {
    let _ = walk_mut(statement, &mut Derived);
}

struct Derived;

impl VisitorMut for Derived {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<()> {
        match statement {
            SqlStatement::CreateTable(CreateTable { query: Some(query), .. }) => name_selected(query),
            // Rows are assigned to columns by position.
            SqlStatement::Insert(insert) => insert.source.iter_mut().for_each(|query| tell_apart(&mut query.body)),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if table.alias.columns.is_empty() {
                name_selected(&mut table.query);
            }
            tell_doubles_apart(&mut table.query.body);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Exists { subquery, .. } | Expr::InSubquery { subquery, .. } | Expr::Subquery(subquery) = expr {
            tell_doubles_apart(&mut subquery.body);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, alias, .. } = table {
            if alias.as_ref().is_none_or(|alias| alias.columns.is_empty()) {
                name_selected(subquery);
            }
            tell_doubles_apart(&mut subquery.body);
        }
        ControlFlow::Continue(())
    }
}

fn name_selected(query: &mut Query) {
    let items = items_mut(&mut query.body);
    let names: Vec<Option<String>> = items
        .iter()
        .map(|item| match item_name(item) {
            Item::Name(name) => Some(name),
            Item::Wildcard => None,
        })
        .collect();
    for (item, name) in items.iter_mut().zip(&names) {
        if let (SelectItem::UnnamedExpr(expr), Some(text)) = (&*item, name)
            && !is_column(expr)
            && text != NO_NAME
            // Two columns of the same name would be ambiguous.
            && names.iter().filter(|other| *other == name).count() == 1
        {
            *item = named(expr.clone(), text);
        }
    }
}

fn named(expr: Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
}

/// Gives unaliased items PostgreSQL's names where ORDER BY refers to them: `SELECT ts::date, max(v)
/// FROM t GROUP BY 1 ORDER BY ts, max`.
pub(crate) fn name_ordered(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), &query.order_by) else { return };
    let has_sets = has_grouping_sets(select);
    let (items, OrderByKind::Expressions(order)) = (&mut select.projection, &order.kind) else { return };
    if items.iter().any(|item| matches!(item_name(item), Item::Wildcard)) {
        return;
    }
    for by in order {
        if let Some(place) = place_of(&by.expr)
            && let Some(item @ SelectItem::UnnamedExpr(_)) = items.get_mut(place)
            && (has_window(item) || has_sets && !is_column(&item_expr(item)))
        {
            // DataFusion cannot sort by an unaliased window function over aggregates, or expression over
            // grouping sets.
            *item = apart(item_expr(item), &name_of(&item_expr(item)), place);
            continue;
        }
        // A sort column also exists under its own name, and would take precedence over the SELECT
        // list.
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
                true => apart(item_expr(item), &name, place),
                false => named(item_expr(item), &name),
            };
        }
    }
}

/// The index in the SELECT list that the number in `ORDER BY 2` refers to.
pub(crate) fn place_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(literal) => match &literal.value {
            Literal::Number(number, _) => number.to_string().parse::<usize>().ok()?.checked_sub(1),
            _ => None,
        },
        _ => None,
    }
}

fn has_grouping_sets(select: &Select) -> bool {
    let is_one = |expr: &Expr| matches!(expr, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_));
    matches!(&select.group_by, GroupByExpr::Expressions(grouped, _) if grouped.iter().any(is_one))
}

fn has_window(item: &SelectItem) -> bool {
    visit_expressions(item, |expr| match expr {
        Expr::Function(Function { over: Some(_), .. }) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

fn item_expr(item: &SelectItem) -> Expr {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr.clone(),
        _ => Expr::value(Literal::Null),
    }
}

pub(crate) fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// Whether this is a column or a cast of one; DataFusion gives both the same name.
fn is_cast_column(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_cast_column(inner),
        other => is_column(other),
    }
}

/// An expression under a name that is unique during planning.
pub(crate) fn apart(expr: Expr, name: &str, place: usize) -> SelectItem {
    named(expr, &format!("{name}{APART}{}", place + 1))
}

/// Gives distinct names to columns that a SELECT contains twice, or contains next to `*`.
pub(crate) fn tell_apart(body: &mut SetExpr) {
    for_each_selected(body, tell_items_apart);
}

/// The same for a subquery. The outer query refers to columns by name, so only unnamed columns that
/// are selected twice are renamed.
fn tell_doubles_apart(body: &mut SetExpr) {
    for_each_selected(body, |items| {
        let mut first_of = HashMap::new();
        let planned = planned_names(items);
        for (place, planned) in planned.into_iter().enumerate() {
            let SelectItem::UnnamedExpr(expr) = &items[place] else { continue };
            let expr = expr.clone();
            let Some(first) = first_of.insert(planned, place) else { continue };
            // The first column keeps the name that the outer query uses.
            let of_first = item_expr(&items[first]);
            if !is_column(&of_first) {
                let name = name_of(&of_first);
                items[first] = apart(of_first, &name, first);
            }
            items[place] = apart(expr.clone(), &name_of(&expr), place);
        }
    });
}

fn for_each_selected(body: &mut SetExpr, tell: fn(&mut [SelectItem])) {
    match body {
        SetExpr::Select(select) if select.projection.len() > 1 => tell(&mut select.projection),
        SetExpr::Query(query) => for_each_selected(&mut query.body, tell),
        SetExpr::SetOperation { left, right, .. } => {
            for_each_selected(left, tell);
            for_each_selected(right, tell);
        }
        _ => {}
    }
}

fn tell_items_apart(items: &mut [SelectItem]) {
    let has_wildcard =
        items.iter().any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let is_column_item = |item: &&SelectItem| matches!(item, SelectItem::UnnamedExpr(expr) if is_column(expr));
    let columns: HashSet<String> = items.iter().filter(is_column_item).map(|item| name_of(&item_expr(item))).collect();
    let mut known = HashSet::new();
    let planned = planned_names(items);
    for (place, (item, planned)) in items.iter_mut().zip(planned).enumerate() {
        let (expr, name, is_named) = match &*item {
            SelectItem::UnnamedExpr(expr) => (expr, name_of(expr), false),
            SelectItem::ExprWithAlias { expr, alias } => (expr, identifier(alias), true),
            _ => continue,
        };
        // DataFusion names a subquery like its column.
        let is_like_column = matches!(expr, Expr::Subquery(_)) && columns.contains(&name);
        let is_double = !known.insert(planned);
        if is_double || !is_named && (is_like_column || has_wildcard && is_cast_column(expr)) {
            *item = apart(expr.clone(), &name, place);
        }
    }
}

/// Writes a call as DataFusion names it: a power is a call, and the case of a function's name does not count.
fn as_called(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } => {
            *expr = built::call("power", vec![left.as_ref().clone(), right.as_ref().clone()]);
        }
        Expr::Function(call) => {
            for part in &mut call.name.0 {
                if let ObjectNamePart::Identifier(name) = part {
                    *name = Ident::new(identifier(name));
                }
            }
        }
        _ => {}
    }
}

/// The names under which the items of a SELECT are planned. Each parameter may become the same value
/// as another one, or as one that is written there. So with parameters all values have one name, which
/// no column has.
fn planned_names(items: &[SelectItem]) -> Vec<String> {
    let find_parameter = |expr: &Expr| match expr {
        Expr::Value(literal) if matches!(literal.value, Literal::Placeholder(_)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let has_parameters = items.iter().any(|item| visit_expressions(item, find_parameter).is_break());
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => identifier(alias),
        other => {
            let mut expr = item_expr(other);
            if has_parameters {
                let _ = visit_expressions_mut(&mut expr, |expr| {
                    if is_value(expr) {
                        *expr = Expr::value(Literal::SingleQuotedString(APART.to_string()));
                    }
                    ControlFlow::<()>::Continue(())
                });
            }
            planned_name(&expr)
        }
    };
    items.iter().map(name).collect()
}

/// Whether an expression is a value or a parameter; a negative number is a value.
fn is_value(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => matches!(**expr, Expr::Value(_)),
        other => matches!(other, Expr::Value(_) | Expr::TypedString(_)),
    }
}

/// DataFusion's name for an expression; casts do not change it.
pub(crate) fn planned_name(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(column) => identifier(column),
        Expr::CompoundIdentifier(parts) => parts.iter().map(identifier).collect::<Vec<_>>().join("."),
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => planned_name(inner),
        Expr::TypedString(typed) => typed.value.to_string(),
        other => {
            let mut bare = other.clone();
            let _ = visit_expressions_mut(&mut bare, |expr| {
                as_called(expr);
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
