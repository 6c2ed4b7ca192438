//! ON CONFLICT: what an INSERT does with rows whose keys already exist.
//!
//! The clause becomes a query over the new rows, called `excluded`, and the old ones
//! ([`after_conflict`]). `dml` runs the query under the commit lock.

use crate::statement::names::{identifier, object_name, quote};
use crate::write::rows::primary_key_names;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Expr, OnConflict, OnConflictAction,
};
use fleetdb_engine::{Code, Column, ColumnType, Error, Result, Role, TableSchema, Unit};

/// The name of the new rows in an ON CONFLICT clause.
const EXCLUDED: &str = "excluded";

/// Returns the assigned columns and their values. A key column may only be assigned its own new
/// value.
pub(crate) fn check_assignments<'a>(
    schema: &TableSchema,
    assignments: &'a [Assignment],
) -> Result<Vec<(String, &'a Expr)>> {
    let mut columns = Vec::new();
    for assignment in assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(Error::new(Code::NotSupported, "SET (a, b) = ... is not supported: set each column by itself"));
        };
        let column = match name.0.last().and_then(|part| part.as_ident()) {
            Some(name) => identifier(name),
            None => object_name(name)?,
        };
        let place = schema.column_index(&column)?;
        match schema.columns[place].role {
            Role::Field if columns.iter().any(|(set, _)| *set == column) => {
                let message = format!("multiple assignments to same column \"{column}\"");
                return Err(Error::new(Code::Syntax, message));
            }
            Role::Field => columns.push((column, &assignment.value)),
            // Some programs assign all columns of the new row.
            _ if is_new(&column, &assignment.value) => {}
            _ => {
                return Err(Error::new(
                    Code::NotSupported,
                    format!("column '{column}' is part of the primary key: delete the row and insert another"),
                ));
            }
        }
    }
    Ok(columns)
}

/// Whether a value is the given column of the new row.
fn is_new(column: &str, value: &Expr) -> bool {
    match value {
        Expr::CompoundIdentifier(parts) => {
            parts.len() == 2 && identifier(&parts[0]) == EXCLUDED && identifier(&parts[1]) == column
        }
        _ => false,
    }
}

/// The effect of an ON CONFLICT clause that differs from a plain INSERT.
pub(crate) enum Conflict {
    /// The new row is ignored.
    Nothing,
    /// Updates the existing row: for each of the table's columns an expression over the new row,
    /// called `excluded`, and the old row, called `called`; and the condition under which the old
    /// row is changed.
    Update {
        called: String,
        columns: Vec<String>,
        condition: Option<String>,
        /// The indexes of the assigned columns.
        set: Vec<usize>,
    },
}

/// The column that says whether an old row exists, in the query for an ON CONFLICT clause.
const THERE: &str = "fleetdb_there";

/// The effect of a clause on rows whose keys already exist. The INSERT refers to the table as
/// `called`. `None` if the new row replaces the old one, as it does without the clause.
pub(crate) fn conflict(schema: &TableSchema, called: &str, clause: &OnConflict) -> Result<Option<Conflict>> {
    let key = primary_key_names(schema);
    match &clause.conflict_target {
        None => {}
        Some(ConflictTarget::Columns(columns))
            if columns.len() == key.len()
                && columns.iter().all(|column| key.contains(&identifier(column).as_str())) => {}
        Some(_) => {
            return Err(Error::new(
                Code::InvalidColumnReference,
                format!("ON CONFLICT is about the primary key: ({})", key.join(", ")),
            ));
        }
    }
    let OnConflictAction::DoUpdate(update) = &clause.action else { return Ok(Some(Conflict::Nothing)) };
    let set = check_assignments(schema, &update.assignments)?;
    let new = |name: &str| format!("{EXCLUDED}.{}", quote(name));
    let mut fields = schema.columns.iter().filter(|column| column.role == Role::Field);
    let all_new = fields.all(|column| set.iter().any(|(name, value)| *name == column.name && is_new(name, value)));
    // In a table that merges fields, a new NULL does not replace an old value by itself.
    if all_new && update.selection.is_none() && !schema.merges_fields() {
        return Ok(None);
    }
    let column = |column: &Column| {
        let old = match set.iter().find(|(name, _)| *name == column.name) {
            _ if column.role != Role::Field => return new(&column.name),
            Some((_, value)) => assigned(value, column.column_type),
            None => format!("{}.{}", quote(called), quote(&column.name)),
        };
        format!("CASE WHEN {THERE} THEN {old} ELSE {} END", new(&column.name))
    };
    let columns = schema.columns.iter().map(column).collect();
    let condition = update.selection.as_ref().map(ToString::to_string);
    let set = set.iter().map(|(name, _)| schema.column_index(name)).collect::<Result<_>>()?;
    Ok(Some(Conflict::Update { called: called.to_owned(), columns, condition, set }))
}

/// A value as its column takes it, where the session's zone bears on that.
fn assigned(value: &Expr, column_type: ColumnType) -> String {
    let data_type = match column_type {
        ColumnType::Date32 => "DATE",
        ColumnType::Utf8 => "TEXT",
        ColumnType::TimestampUtc(Unit::Second) => "TIMESTAMPTZ(0)",
        ColumnType::TimestampUtc(Unit::Millisecond) => "TIMESTAMPTZ(3)",
        ColumnType::TimestampUtc(Unit::Microsecond) => "TIMESTAMPTZ(6)",
        ColumnType::TimestampUtc(Unit::Nanosecond) => "TIMESTAMPTZ(9)",
        _ => return format!("({value})"),
    };
    format!("CAST(({value}) AS {data_type})")
}

/// The query for the rows to write, given the names of an INSERT's new rows and of the old ones.
pub(crate) fn after_conflict(schema: &TableSchema, conflict: &Conflict, new: &str, old: &str) -> String {
    let called = match conflict {
        Conflict::Nothing => &schema.name,
        Conflict::Update { called, .. } => called,
    };
    let called = quote(called);
    let equal = |name: &&str| format!("({called}.{0} IS NOT DISTINCT FROM {EXCLUDED}.{0})", quote(name));
    let same = primary_key_names(schema).iter().map(equal).collect::<Vec<_>>().join(" AND ");
    match conflict {
        Conflict::Nothing => {
            format!("SELECT * FROM {new} AS {EXCLUDED} WHERE NOT EXISTS (SELECT 1 FROM {old} AS {called} WHERE {same})")
        }
        Conflict::Update { columns, condition, .. } => format!(
            "SELECT {} FROM {new} AS {EXCLUDED} LEFT JOIN (SELECT *, true AS {THERE} FROM {old}) AS {called} ON {same} \
             WHERE {THERE} IS NULL OR ({})",
            columns.join(", "),
            condition.as_deref().unwrap_or("true")
        ),
    }
}
