//! ON CONFLICT: what an INSERT does with rows whose keys already exist.
//!
//! The clause becomes a query over the new rows, called `excluded`, and the old ones
//! ([`after_conflict`]), which the session runs under the commit lock.

use crate::primary_key::primary_key_names;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, BinaryOperator, CaseWhen, ConflictTarget, DataType, ExactNumberInfo, Expr, Join,
    JoinConstraint, JoinOperator, ObjectName, OnConflict, OnConflictAction, Query, SelectItem, TimezoneInfo,
};
use fleetdb_engine::{Code, Column, ColumnType, Error, Result, Role, TableSchema, Unit};
use fleetdb_statement::built;
use fleetdb_statement::names::{identifier, object_name};

/// The name of the new rows in an ON CONFLICT clause.
pub const EXCLUDED: &str = "excluded";

/// Returns the assigned columns and their values. A key column may only be assigned its own new
/// value.
pub fn check_assignments<'a>(schema: &TableSchema, assignments: &'a [Assignment]) -> Result<Vec<(String, &'a Expr)>> {
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
pub enum Conflict {
    /// The new row is ignored.
    Nothing,
    /// Updates the existing row, by expressions over the new row, called `excluded`, and the old row.
    Update {
        /// The name of the old row.
        called: String,
        /// The values of the table's columns.
        columns: Vec<Expr>,
        /// The condition under which the old row is changed.
        condition: Option<Box<Expr>>,
        /// The indexes of the assigned columns.
        set: Vec<usize>,
    },
}

/// The column that says whether an old row exists, in the query for an ON CONFLICT clause.
const THERE: &str = "fleetdb_there";

/// The effect of a clause on rows whose keys already exist. The INSERT refers to the table as
/// `called`. `None` if the new row replaces the old one, as it does without the clause.
pub fn conflict(schema: &TableSchema, called: &str, clause: &OnConflict) -> Result<Option<Conflict>> {
    let key = primary_key_names(schema);
    match &clause.conflict_target {
        None => {}
        Some(ConflictTarget::OnConstraint(name)) if object_name(name)? == format!("{}_pkey", schema.name) => {}
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
    let new = |name: &str| built::column(EXCLUDED, name);
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
            None => built::column(called, &column.name),
        };
        Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen { condition: there(), result: old }],
            else_result: Some(Box::new(new(&column.name))),
        }
    };
    let columns = schema.columns.iter().map(column).collect();
    let condition = update.selection.clone().map(Box::new);
    let set = set.iter().map(|(name, _)| schema.column_index(name)).collect::<Result<_>>()?;
    Ok(Some(Conflict::Update { called: called.to_owned(), columns, condition, set }))
}

/// A value as its column takes it, where the session's zone bears on that.
fn assigned(value: &Expr, column_type: ColumnType) -> Expr {
    let with_digits = |digits| DataType::Timestamp(Some(digits), TimezoneInfo::Tz);
    let data_type = match column_type {
        ColumnType::Date32 => DataType::Date,
        ColumnType::Utf8 => DataType::Text,
        ColumnType::Uuid => DataType::Uuid,
        ColumnType::Array(element) => built::array_type(element),
        ColumnType::Time => DataType::Time(None, TimezoneInfo::None),
        ColumnType::Json => DataType::JSON,
        ColumnType::Jsonb => DataType::JSONB,
        ColumnType::Decimal { precision, scale } => {
            DataType::Numeric(ExactNumberInfo::PrecisionAndScale(precision.into(), scale.into()))
        }
        ColumnType::TimestampUtc(Unit::Second) => with_digits(0),
        ColumnType::TimestampUtc(Unit::Millisecond) => with_digits(3),
        ColumnType::TimestampUtc(Unit::Microsecond) => with_digits(6),
        ColumnType::TimestampUtc(Unit::Nanosecond) => with_digits(9),
        _ => return value.clone(),
    };
    built::cast(value.clone(), data_type)
}

fn there() -> Expr {
    Expr::Identifier(built::quoted(THERE))
}

/// The query for the rows to write, given the names of an INSERT's new rows and of the old ones.
pub fn after_conflict(schema: &TableSchema, conflict: &Conflict, new: ObjectName, old: ObjectName) -> Query {
    let called = match conflict {
        Conflict::Nothing => &schema.name,
        Conflict::Update { called, .. } => called,
    };
    let equal = |name: &&str| {
        let (old, new) = (built::column(called, name), built::column(EXCLUDED, name));
        Expr::IsNotDistinctFrom(Box::new(old), Box::new(new))
    };
    let keys = primary_key_names(schema);
    let all = keys.iter().map(equal).reduce(|all, equal| built::binary(all, BinaryOperator::And, equal));
    let has_same_key = all.unwrap_or_else(built::true_literal);
    let mut from = built::unjoined(built::table(new, Some(EXCLUDED)));
    match conflict {
        Conflict::Nothing => {
            let old = built::unjoined(built::table(old, Some(called)));
            let subquery = Box::new(built::select(built::any_row(), vec![old], Some(has_same_key)));
            built::select(built::all_columns(), vec![from], Some(Expr::Exists { subquery, negated: true }))
        }
        Conflict::Update { columns, condition, .. } => {
            let mut marked = built::all_columns();
            marked.push(SelectItem::ExprWithAlias { expr: built::true_literal(), alias: built::quoted(THERE) });
            let old = built::select(marked, vec![built::unjoined(built::table(old, None))], None);
            from.joins.push(Join {
                relation: built::derived(old, called),
                global: false,
                join_operator: JoinOperator::Left(JoinConstraint::On(has_same_key)),
            });
            let condition = condition.clone().map(|condition| {
                built::binary(Expr::IsNull(Box::new(there())), BinaryOperator::Or, Expr::Nested(condition))
            });
            built::select(columns.iter().cloned().map(SelectItem::UnnamedExpr).collect(), vec![from], condition)
        }
    }
}
