//! Texts for columns of UUIDs, arrays and JSON. DataFusion refuses a statement that gives a text for a
//! UUID or an array, because Arrow has no such cast; a cast in the statement becomes a call of a
//! function (`fleetdb-postgres`). For JSON, functions check the text; that of `jsonb` also makes it canonical.

use super::defaults::{GIVEN, places, select_over};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, DataType, Expr, Insert, Parens, SetExpr, Value as Literal,
};
use fleetdb_engine::{Column, ColumnType, Result, TableSchema};
use fleetdb_statement::built::{array_type, call, cast, column};
use fleetdb_statement::names::identifier;

/// Whether texts for a column are cast here.
fn is_cast(column: &Column) -> bool {
    matches!(column.column_type, ColumnType::Uuid | ColumnType::Array(_)) || column.column_type.is_json()
}

/// A value as its column takes it.
fn cast_for(column: &Column, value: Expr) -> Expr {
    match (column.column_type, &value) {
        (_, Expr::Value(literal)) if matches!(literal.value, Literal::Null) => value,
        // DataFusion gives it the column's type.
        (ColumnType::Uuid | ColumnType::Array(_), Expr::Value(literal))
            if matches!(literal.value, Literal::Placeholder(_)) =>
        {
            value
        }
        (ColumnType::Uuid, _) => cast(value, DataType::Uuid),
        (ColumnType::Array(element), _) => cast(value, array_type(element)),
        (ColumnType::Json | ColumnType::Jsonb, _) => call(column.column_type.sql_name(), vec![value]),
        _ => value,
    }
}

/// Puts a cast around a value.
fn cast_in_place(column: &Column, value: &mut Expr) {
    *value = cast_for(column, std::mem::replace(value, Expr::value(Literal::Null)));
}

/// Casts what an INSERT gives for columns of UUIDs, arrays and JSON.
pub(crate) fn cast_inserted(insert: &mut Insert, schema: &TableSchema) -> Result<()> {
    if !schema.columns.iter().any(is_cast) {
        return Ok(());
    }
    let Some(source) = &mut insert.source else { return Ok(()) };
    let places: Vec<usize> = match insert.columns.is_empty() {
        true => (0..schema.columns.len()).collect(),
        false => match places(&insert.columns, schema, &source.body)? {
            Some(places) => places,
            // The planner refuses it.
            None => return Ok(()),
        },
    };
    if !places.iter().any(|place| is_cast(&schema.columns[*place])) {
        return Ok(());
    }
    if let SetExpr::Values(rows) = source.body.as_mut() {
        for Parens { content: row, .. } in &mut rows.rows {
            row.iter_mut().zip(&places).for_each(|(value, place)| cast_in_place(&schema.columns[*place], value));
        }
        return Ok(());
    }
    let names: Vec<String> = places.iter().map(|place| schema.columns[*place].name.clone()).collect();
    let given = places.iter().zip(&names);
    let cast = given.map(|(place, name)| cast_for(&schema.columns[*place], column(GIVEN, name)));
    select_over(source, &names, cast);
    Ok(())
}

/// Casts what an UPDATE assigns to columns of UUIDs, arrays and JSON.
pub(crate) fn cast_assigned(assignments: &mut [Assignment], schema: &TableSchema) {
    for Assignment { target, value } in assignments {
        let AssignmentTarget::ColumnName(name) = target else { continue };
        let name = name.0.last().and_then(|part| part.as_ident()).map(identifier);
        if let Some(place) = name.and_then(|name| schema.find(&name)) {
            cast_in_place(&schema.columns[place], value);
        }
    }
}
