//! Values of columns that an INSERT or UPDATE does not give, or for which it says DEFAULT.

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Insert, ObjectName, OnConflictAction, OnInsert, Parens, Query, SelectItem,
    SetExpr, Value as Literal,
};
use fleetdb_engine::{Code, Column, DefaultValue, Error, Result, TableSchema};
use fleetdb_functions::names::NEXT_NUMBER;
use fleetdb_statement::built::{call, column, derived_with_columns, quoted, select, unjoined, values};
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::names::{identifier, is_default, object_name};
use std::collections::HashSet;

/// The value of a column in a row that does not give one, as an expression.
///
/// # Errors
/// A program with other syntax wrote the default.
pub(crate) fn default_expression(schema: &TableSchema, column: &Column) -> Result<Expr> {
    match &column.default {
        None => Ok(Expr::value(Literal::Null)),
        Some(DefaultValue::Number { .. }) => {
            Ok(call(NEXT_NUMBER, vec![Expr::value(Literal::SingleQuotedString(schema.name.clone()))]))
        }
        Some(DefaultValue::Expression(text)) => {
            expr_of(text).map(|value| Expr::Nested(Box::new(value))).ok_or_else(|| {
                Error::new(
                    Code::Syntax,
                    format!("the default of column \"{}\" is not an expression: {text}", column.name),
                )
            })
        }
    }
}

/// Names in an INSERT the columns that have defaults, with their values, and replaces the word DEFAULT.
///
/// # Errors
/// The statement gives a value for a column that is always numbered by the table.
pub(crate) fn fill_defaults(insert: &mut Insert, schema: &TableSchema) -> Result<()> {
    if let Some(OnInsert::OnConflict(clause)) = &mut insert.on
        && let OnConflictAction::DoUpdate(update) = &mut clause.action
    {
        fill_defaults_of_assignments(&mut update.assignments, schema)?;
    }
    if insert.source.is_none() && insert.assignments.is_empty() {
        let row = schema.columns.iter().map(|column| default_expression(schema, column)).collect::<Result<_>>()?;
        insert.columns = schema.columns.iter().map(|column| quoted(&column.name).into()).collect();
        insert.source = Some(Box::new(values(vec![row])));
        return Ok(());
    }
    let Some(source) = &mut insert.source else { return Ok(()) };
    let Some(given) = places(&insert.columns, schema, &source.body)? else {
        // A query gives values for all columns, or the planner refuses it.
        return schema.columns.iter().try_for_each(|column| check_may_give(schema, column));
    };
    let known: HashSet<usize> = given.iter().copied().collect();
    let has_default = |place: &usize| !known.contains(place) && schema.columns[*place].default.is_some();
    let missing: Vec<usize> = (0..schema.columns.len()).filter(has_default).collect();
    let defaults = missing.iter().map(|place| default_expression(schema, &schema.columns[*place]));
    let defaults = defaults.collect::<Result<Vec<_>>>()?;
    if let SetExpr::Values(rows) = source.body.as_mut() {
        for Parens { content: row, .. } in &mut rows.rows {
            if row.len() != given.len() {
                // The planner refuses it.
                return Ok(());
            }
            for (value, place) in row.iter_mut().zip(&given) {
                if is_default(value) {
                    *value = default_expression(schema, &schema.columns[*place])?;
                } else {
                    check_may_give(schema, &schema.columns[*place])?;
                }
            }
            row.extend(defaults.iter().cloned());
        }
    } else {
        given.iter().try_for_each(|place| check_may_give(schema, &schema.columns[*place]))?;
        if !missing.is_empty() {
            let names: Vec<String> = given.iter().map(|place| schema.columns[*place].name.clone()).collect();
            select_over(source, &names, names.iter().map(|name| column(GIVEN, name)).chain(defaults));
        }
    }
    if !missing.is_empty() {
        let all = given.iter().chain(&missing).map(|place| quoted(&schema.columns[*place].name).into());
        insert.columns = all.collect();
    }
    Ok(())
}

/// The name of the query of an INSERT below another one.
pub(super) const GIVEN: &str = "given";

/// Puts a query with these columns above the query of an INSERT, whose columns are [`GIVEN`] with `names`.
pub(super) fn select_over(source: &mut Query, names: &[String], columns: impl Iterator<Item = Expr>) {
    let query = std::mem::replace(source, values(Vec::new()));
    let from = unjoined(derived_with_columns(query, GIVEN, names));
    *source = select(columns.map(SelectItem::UnnamedExpr).collect(), vec![from], None);
}

/// The places of the columns that an INSERT gives values for; `None` if it gives all without naming them,
/// or columns that the planner refuses.
pub(super) fn places(columns: &[ObjectName], schema: &TableSchema, body: &SetExpr) -> Result<Option<Vec<usize>>> {
    if columns.is_empty() {
        return Ok(matches!(body, SetExpr::Values(_)).then(|| (0..schema.columns.len()).collect()));
    }
    let mut found = Vec::with_capacity(columns.len());
    for name in columns {
        match schema.find(&object_name(name)?) {
            Some(place) if !found.contains(&place) => found.push(place),
            _ => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// Replaces the word DEFAULT in the assignments of an UPDATE or ON CONFLICT.
///
/// # Errors
/// They set a column that is always numbered by the table.
pub(crate) fn fill_defaults_of_assignments(assignments: &mut [Assignment], schema: &TableSchema) -> Result<()> {
    for Assignment { target, value } in assignments {
        let AssignmentTarget::ColumnName(name) = target else { continue };
        let column = name.0.last().and_then(|part| part.as_ident()).map(identifier);
        let Some(place) = column.and_then(|name| schema.find(&name)) else { continue };
        let column = &schema.columns[place];
        if is_default(value) {
            *value = default_expression(schema, column)?;
        } else {
            check_may_give(schema, column)?;
        }
    }
    Ok(())
}

/// Refuses a value for a column that its table always numbers.
fn check_may_give(schema: &TableSchema, column: &Column) -> Result<()> {
    if !column.is_always_numbered() {
        return Ok(());
    }
    let message = format!(
        "column \"{}\" of relation \"{}\" is GENERATED ALWAYS AS IDENTITY: leave it out, or give DEFAULT",
        column.name, schema.name
    );
    Err(Error::new(Code::GeneratedAlways, message))
}
