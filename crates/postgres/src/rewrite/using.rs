//! Unqualified references to `USING` columns: `SELECT id, count(*) FROM meters LEFT JOIN reads
//! USING (id) WHERE id < 9 GROUP BY id`. In PostgreSQL such a column belongs to neither table, has
//! the value of whichever side has one, and comes first in `*`. DataFusion takes the left table's
//! column even where that table has no row, keeps the right column's place in `*`, and reports the
//! name in WHERE as ambiguous. The references are rewritten to name their table, or both tables in
//! a FULL JOIN.

use datafusion::sql::sqlparser::ast::{
    Distinct, ExceptSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, OrderByKind,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, TableWithJoins,
    VisitorMut, WildcardAdditionalOptions,
};
use fleetdb_engine::{Code, Error, Result};
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::{visit_outside_subqueries_mut, walk_mut};
use std::ops::ControlFlow;

const NATURAL: &str = "NATURAL RIGHT JOIN and NATURAL FULL JOIN are not supported: name the columns, with USING (...)";
const UNKNOWN: &str = "FULL JOIN ... USING is not supported here, because several tables before it may have the column: \
                       use ON, and coalesce(a.id, b.id)";

/// Qualifies the references of a statement.
///
/// # Errors
/// A join's columns cannot be determined without the schemas of its tables.
pub(super) fn columns_by_table(statement: &mut Statement) -> Result<()> {
    match walk_mut(statement, &mut Queries) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(why) => Err(Error::new(Code::AmbiguousColumn, why)),
    }
}

struct Queries;

impl VisitorMut for Queries {
    type Break = &'static str;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<&'static str> {
        let mut why = None;
        let mut joined = Vec::new();
        super::selects(&mut query.body, &mut |select| match in_select(select) {
            Ok(columns) => joined = columns,
            Err(wrong) => why = Some(wrong),
        });
        if let (SetExpr::Select(select), Some(order_by)) = (query.body.as_ref(), &mut query.order_by)
            && let OrderByKind::Expressions(orders) = &mut order_by.kind
        {
            for order in orders {
                // In ORDER BY, an unqualified name refers to an output column first.
                if !is_selected(&select.projection, &order.expr) {
                    name_in(&mut order.expr, &joined);
                }
            }
        }
        why.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }
}

/// A column in the USING clause of a join.
struct Joined {
    name: String,
    column: Ident,
    /// The expression for an unqualified reference; `None` if its table is ambiguous.
    value: Option<Expr>,
}

fn in_select(select: &mut Select) -> std::result::Result<Vec<Joined>, &'static str> {
    let mut joined = Vec::new();
    let mut all = Some(Vec::new());
    for TableWithJoins { relation, joins } in &mut select.from {
        let mut tables = Tables { joined: Vec::new(), each: vec![Table::of(relation)], is_plain: true };
        for join in joins {
            tables.join(join)?;
        }
        all = all.zip(tables.all()).map(|(mut before, all)| {
            before.extend(all);
            before
        });
        joined.extend(tables.joined);
    }
    if joined.is_empty() {
        return Ok(joined);
    }
    for clause in [&mut select.selection, &mut select.having].into_iter().flatten() {
        name_in(clause, &joined);
    }
    if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
        groups.iter_mut().for_each(|group| name_in(group, &joined));
    }
    if let Some(Distinct::On(columns)) = &mut select.distinct {
        columns.iter_mut().for_each(|column| name_in(column, &joined));
    }
    let items = std::mem::take(&mut select.projection);
    select.projection = items.into_iter().flat_map(|item| in_item(item, &joined, all.as_deref())).collect();
    Ok(joined)
}

/// Tables that are joined with each other.
struct Tables {
    joined: Vec<Joined>,
    each: Vec<Table>,
    /// Whether it is known which tables have which of the USING columns.
    is_plain: bool,
}

struct Table {
    name: Option<ObjectName>,
    /// The columns merged with those of other tables.
    merged: Vec<Ident>,
}

impl Table {
    fn of(table: &TableFactor) -> Self {
        Self { name: name_of(table), merged: Vec::new() }
    }

    fn column(&self, column: &Ident) -> Option<Expr> {
        expr_of(&format!("{}.{column}", self.name.as_ref()?))
    }
}

impl Tables {
    fn join(&mut self, join: &mut Join) -> std::result::Result<(), &'static str> {
        use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
        let (is_right, is_full) =
            (matches!(join.join_operator, Right(_) | RightOuter(_)), matches!(join.join_operator, FullOuter(_)));
        let is_inner = matches!(join.join_operator, Join(_) | Inner(_));
        let mut right = Table::of(&join.relation);
        let constraint = match &mut join.join_operator {
            Join(by) | Inner(by) | Left(by) | LeftOuter(by) | Right(by) | RightOuter(by) | FullOuter(by) => Some(by),
            _ => None,
        };
        match constraint {
            Some(JoinConstraint::Using(columns)) => {
                let known = self.joined.len();
                for column in columns.iter().filter_map(|column| column.0.last()?.as_ident()) {
                    let name = identifier(column);
                    let before = self.joined[..known].iter().position(|joined| joined.name == name);
                    let on_left = match (before, self.each.as_mut_slice()) {
                        (Some(before), _) => self.joined[before].value.clone(),
                        (None, [only]) => {
                            only.merged.push(column.clone());
                            only.column(column)
                        }
                        // With two tables to choose from, the column's owner is unknown.
                        (None, _) => None,
                    };
                    self.is_plain &= on_left.is_some();
                    let value = match (on_left, right.column(column)) {
                        (Some(left), Some(right)) if is_full => expr_of(&format!("coalesce({left}, {right})")),
                        _ if is_full => return Err(UNKNOWN),
                        (_, right) if is_right => right,
                        (Some(left), _) => Some(left),
                        (None, right) => right.filter(|_| is_inner),
                    };
                    right.merged.push(column.clone());
                    match before {
                        Some(before) => self.joined[before].value = value,
                        None => self.joined.push(Joined { name, column: column.clone(), value }),
                    }
                }
            }
            Some(JoinConstraint::On(condition)) => name_in(condition, &self.joined),
            Some(JoinConstraint::Natural) if is_right || is_full => return Err(NATURAL),
            Some(JoinConstraint::Natural) => self.is_plain = false,
            Some(JoinConstraint::None) | None => {}
        }
        self.each.push(right);
        Ok(())
    }

    /// The expansion of `*`: the USING columns, then the other columns of the tables. `None` if
    /// unknown.
    fn all(&self) -> Option<Vec<SelectItem>> {
        let merged = self.joined.iter().map(|joined| {
            Some(SelectItem::ExprWithAlias { expr: joined.value.clone()?, alias: joined.column.clone() })
        });
        let rest = self.each.iter().map(|table| {
            let mut options = WildcardAdditionalOptions::default();
            if let [first, others @ ..] = table.merged.as_slice() {
                let (first_element, additional_elements) = (first.clone(), others.to_vec());
                options.opt_except = Some(ExceptSelectItem { first_element, additional_elements });
            }
            let name = SelectItemQualifiedWildcardKind::ObjectName(table.name.clone()?);
            Some(SelectItem::QualifiedWildcard(name, options))
        });
        if self.is_plain { merged.chain(rest).collect() } else { None }
    }
}

/// The name that qualifies a table's columns.
fn name_of(table: &TableFactor) -> Option<ObjectName> {
    let name = match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => &alias.name,
        TableFactor::Table { name, alias: None, args: None, .. } => name.0.last()?.as_ident()?,
        _ => return None,
    };
    Some(name.clone().into())
}

/// Rewrites an item of the SELECT list, and expands `*`.
fn in_item(item: SelectItem, joined: &[Joined], all: Option<&[SelectItem]>) -> Vec<SelectItem> {
    match item {
        SelectItem::UnnamedExpr(mut expr) => {
            let alias = joined_by(&expr, joined).map(|joined| joined.column.clone());
            name_in(&mut expr, joined);
            match alias {
                Some(alias) if matches!(expr, Expr::Function(_)) => vec![SelectItem::ExprWithAlias { expr, alias }],
                _ => vec![SelectItem::UnnamedExpr(expr)],
            }
        }
        SelectItem::ExprWithAlias { mut expr, alias } => {
            name_in(&mut expr, joined);
            vec![SelectItem::ExprWithAlias { expr, alias }]
        }
        other => match all {
            Some(all) if other == SelectItem::Wildcard(WildcardAdditionalOptions::default()) => all.to_vec(),
            _ => vec![other],
        },
    }
}

fn joined_by<'a>(expr: &Expr, joined: &'a [Joined]) -> Option<&'a Joined> {
    let Expr::Identifier(name) = expr else { return None };
    let name = identifier(name);
    joined.iter().find(|joined| joined.name == name)
}

/// Whether the name is an output alias in the SELECT list.
fn is_selected(items: &[SelectItem], expr: &Expr) -> bool {
    let Expr::Identifier(name) = expr else { return false };
    items
        .iter()
        .any(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if identifier(alias) == identifier(name)))
}

fn name_in(expr: &mut Expr, joined: &[Joined]) {
    // Subqueries have their own names.
    let _ = visit_outside_subqueries_mut(expr, |expr| {
        if let Some(joined) = joined_by(expr, joined)
            && let Some(value) = &joined.value
        {
            *expr = value.clone();
        }
        ControlFlow::<()>::Continue(())
    });
}

#[cfg(test)]
#[path = "using_tests.rs"]
mod tests;
