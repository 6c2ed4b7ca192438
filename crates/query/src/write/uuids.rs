//! Texts for UUID columns. DataFusion refuses a statement that gives a text for one, because Arrow has no
//! such cast. A cast in the statement becomes a call of a function (`fleetdb-postgres`).

use super::defaults::places;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, DataType, Expr, Insert, Parens, SelectItem, SetExpr, Value as Literal,
};
use fleetdb_engine::{Column, ColumnType, Result, TableSchema};
use fleetdb_statement::built::{cast, column, derived_with_columns, select, unjoined, values};
use fleetdb_statement::names::identifier;

/// The name of the query of an INSERT.
const GIVEN: &str = "given";

fn is_uuid(column: &Column) -> bool {
    column.column_type == ColumnType::Uuid
}

/// Casts a value, unless DataFusion gives it the column's type.
fn cast_value(value: &mut Expr) {
    let has_type =
        matches!(value, Expr::Value(literal) if matches!(literal.value, Literal::Null | Literal::Placeholder(_)));
    if !has_type {
        *value = cast(std::mem::replace(value, Expr::value(Literal::Null)), DataType::Uuid);
    }
}

/// Casts what an INSERT gives for columns of UUIDs.
pub(crate) fn cast_uuids(insert: &mut Insert, schema: &TableSchema) -> Result<()> {
    if !schema.columns.iter().any(is_uuid) {
        return Ok(());
    }
    let Some(source) = &mut insert.source else { return Ok(()) };
    let all = || (0..schema.columns.len()).collect();
    let places: Vec<usize> = match insert.columns.is_empty() {
        true => all(),
        false => match places(&insert.columns, schema, &source.body)? {
            Some(places) => places,
            // The planner refuses it.
            None => return Ok(()),
        },
    };
    if !places.iter().any(|place| is_uuid(&schema.columns[*place])) {
        return Ok(());
    }
    if let SetExpr::Values(rows) = source.body.as_mut() {
        for Parens { content: row, .. } in &mut rows.rows {
            let of_uuids = row.iter_mut().zip(&places).filter(|(_, place)| is_uuid(&schema.columns[**place]));
            of_uuids.for_each(|(value, _)| cast_value(value));
        }
        return Ok(());
    }
    let names: Vec<String> = places.iter().map(|place| schema.columns[*place].name.clone()).collect();
    let items = places.iter().zip(&names).map(|(place, name)| {
        let given = column(GIVEN, name);
        SelectItem::UnnamedExpr(if is_uuid(&schema.columns[*place]) { cast(given, DataType::Uuid) } else { given })
    });
    let query = std::mem::replace(source.as_mut(), values(Vec::new()));
    let from = unjoined(derived_with_columns(query, GIVEN, &names));
    **source = select(items.collect(), vec![from], None);
    Ok(())
}

/// Casts what an UPDATE or ON CONFLICT assigns to columns of UUIDs.
pub(crate) fn cast_assigned_uuids(assignments: &mut [Assignment], schema: &TableSchema) {
    for Assignment { target, value } in assignments {
        let AssignmentTarget::ColumnName(name) = target else { continue };
        let name = name.0.last().and_then(|part| part.as_ident()).map(identifier);
        if name.and_then(|name| schema.find(&name)).is_some_and(|place| is_uuid(&schema.columns[place])) {
            cast_value(value);
        }
    }
}
