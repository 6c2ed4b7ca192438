//! What a column's definition says beyond its name and type: DEFAULT, GENERATED ... AS IDENTITY, SERIAL,
//! CHECK and REFERENCES. DataFusion does not plan these, so they are taken out of the statement.

use crate::session::Session;
use crate::tables::checks::CheckScope;
use crate::tables::foreign_keys::definition_of;
use arrow::array::Int64Array;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ColumnDef, ColumnOption, ColumnOptionDef, DataType as SqlType, Expr, GeneratedAs, SelectItem,
    SequenceOptions, TableConstraint, Value as Literal,
};
use fleetdb_engine::{CheckDefinition, Code, ColumnType, DefaultValue, Error, ForeignKeyDefinition, Result, Value};
use fleetdb_functions::errors::{engine_error, unsupported};
use fleetdb_functions::values::literals::value_of_text_in;
use fleetdb_statement::built::select;
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::visit_expressions;
use std::ops::ControlFlow;

/// What definitions of columns and tables say beyond names and types.
#[derive(Default)]
pub(crate) struct Extras {
    /// Values of columns, by name.
    pub(crate) defaults: Vec<(String, DefaultValue)>,
    /// Columns that must not be NULL.
    pub(crate) not_null: Vec<String>,
    checks: Vec<CheckConstraint>,
    pub(crate) foreign_keys: Vec<ForeignKeyDefinition>,
    /// The first of the table's own numbers.
    pub(crate) first_number: Option<i64>,
}

impl Extras {
    /// Takes the extras out of a column's definition.
    ///
    /// # Errors
    /// An option has a form that is not supported.
    pub(crate) fn take_from_column(&mut self, column: &mut ColumnDef) -> Result<()> {
        let name = identifier(&column.name);
        if let Some(integer) = serial(&column.data_type) {
            column.data_type = integer;
            self.defaults.push((name.clone(), DefaultValue::Number { always: false }));
            self.not_null.push(name.clone());
        }
        let is_extra = |option: &mut ColumnOptionDef| {
            matches!(
                option.option,
                ColumnOption::Default(_)
                    | ColumnOption::Generated { .. }
                    | ColumnOption::Check(_)
                    | ColumnOption::ForeignKey(_)
            )
        };
        let taken: Vec<_> = column.options.extract_if(.., is_extra).collect();
        for ColumnOptionDef { name: constraint, option } in taken {
            match option {
                ColumnOption::Default(value) => {
                    if let Some(value) = default_value(&value) {
                        self.defaults.push((name.clone(), value));
                    }
                }
                ColumnOption::Generated { generation_expr: Some(_), .. } => {
                    return Err(unsupported("GENERATED ALWAYS AS (expression)"));
                }
                ColumnOption::Generated { generated_as, sequence_options, .. } => {
                    let always = matches!(generated_as, GeneratedAs::Always);
                    self.first_number = first_number(sequence_options.as_deref().unwrap_or_default())?;
                    self.defaults.push((name.clone(), DefaultValue::Number { always }));
                    self.not_null.push(name.clone());
                }
                ColumnOption::Check(mut check) => {
                    check.name = check.name.or(constraint);
                    self.checks.push(check);
                }
                ColumnOption::ForeignKey(key) => {
                    let key = definition_of(&key, constraint.as_ref(), vec![name.clone()])?;
                    self.foreign_keys.push(key);
                }
                _ => {}
            }
        }
        if self.defaults.iter().filter(|(column, _)| *column == name).count() > 1 {
            let message = format!("multiple default values specified for column \"{name}\"");
            return Err(Error::new(Code::Syntax, message));
        }
        Ok(())
    }

    /// Takes the checks and foreign keys out of a table's constraints.
    ///
    /// # Errors
    /// A constraint has a form that is not supported.
    pub(crate) fn take_from_constraints(&mut self, constraints: &mut Vec<TableConstraint>) -> Result<()> {
        let is_extra = |constraint: &mut TableConstraint| {
            matches!(constraint, TableConstraint::Check(_) | TableConstraint::ForeignKey(_))
        };
        for constraint in constraints.extract_if(.., is_extra) {
            match constraint {
                TableConstraint::Check(check) => self.checks.push(check),
                TableConstraint::ForeignKey(key) => {
                    let columns = key.columns.iter().map(identifier).collect();
                    self.foreign_keys.push(definition_of(&key, None, columns)?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The value of a column in a row that does not give one.
    pub(crate) fn default_of(&self, column: &str) -> Option<DefaultValue> {
        self.defaults.iter().find(|(name, _)| name == column).map(|(_, value)| value.clone())
    }

    /// The checks, given the columns that they may name.
    ///
    /// # Errors
    /// Those of [`CheckScope::condition`].
    pub(crate) fn checks_in(&self, scope: &CheckScope) -> Result<Vec<CheckDefinition>> {
        let check = |check: &CheckConstraint| {
            if check.enforced == Some(false) {
                return Err(unsupported("CHECK ... NOT ENFORCED"));
            }
            Ok(CheckDefinition { name: check.name.as_ref().map(identifier), condition: scope.condition(&check.expr)? })
        };
        self.checks.iter().map(check).collect()
    }
}

/// The value that DEFAULT gives; `None` for NULL.
pub(crate) fn default_value(value: &Expr) -> Option<DefaultValue> {
    match value {
        Expr::Value(literal) if matches!(literal.value, Literal::Null) => None,
        value => Some(DefaultValue::Expression(value.to_string())),
    }
}

/// The first number that the options of an identity column say.
///
/// # Errors
/// The options say something else.
pub(crate) fn first_number(options: &[SequenceOptions]) -> Result<Option<i64>> {
    let mut first = None;
    for option in options {
        match option {
            SequenceOptions::StartWith(start, _) => {
                let number = start.to_string().parse();
                first = Some(number.map_err(|_| Error::invalid(format!("START WITH {start}: write an integer")))?);
            }
            SequenceOptions::IncrementBy(by, _) if by.to_string() == "1" => {}
            SequenceOptions::Cache(_)
            | SequenceOptions::Cycle(false)
            | SequenceOptions::MinValue(None)
            | SequenceOptions::MaxValue(None) => {}
            other => return Err(unsupported(&format!("IDENTITY with{other}"))),
        }
    }
    Ok(first)
}

/// The integer type that a SERIAL type stands for.
fn serial(data_type: &SqlType) -> Option<SqlType> {
    let SqlType::Custom(name, _) = data_type else { return None };
    Some(match name.to_string().to_ascii_lowercase().as_str() {
        "serial" | "serial4" => SqlType::Integer(None),
        "bigserial" | "serial8" => SqlType::BigInt(None),
        "smallserial" | "serial2" => SqlType::SmallInt(None),
        _ => return None,
    })
}

impl Session {
    /// Computes the value of a default once, so that a wrong one is refused when it is defined. Returns the
    /// text to keep: an instant as a text is one in the zone of this session.
    ///
    /// # Errors
    /// The expression names columns or tables, cannot be planned, or is of another type than the column.
    pub(crate) fn checked_default(&self, column: &str, text: &str, column_type: ColumnType) -> Result<String> {
        let of_column = |error: Error| error.context(format_args!("default of column \"{column}\""));
        let value =
            expr_of(text).ok_or_else(|| of_column(Error::new(Code::Syntax, format!("{text} is no expression"))))?;
        let has_query = visit_expressions(&value, |expr| match expr {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        if has_query.is_break() {
            return Err(of_column(Error::new(Code::NotSupported, "cannot use subquery in DEFAULT expression")));
        }
        self.refresh()?;
        let plan = self
            .plan_query(select(vec![SelectItem::UnnamedExpr(value.clone())], Vec::new(), None))
            .map_err(of_column)?;
        let rows = self.start(plan)?.collect().map_err(of_column)?;
        let Some(found) = rows.first().map(|rows| rows.column(0)) else { return Ok(text.to_owned()) };
        let to = column_type.to_arrow();
        let Some(found_text) =
            ScalarValue::try_from_array(found, 0).map_err(engine_error)?.try_as_str().flatten().map(str::to_owned)
        else {
            let options = CastOptions { safe: false, ..Default::default() };
            cast_with_options(found, &to, &options).map_err(|error| of_column(engine_error(error.into())))?;
            return Ok(text.to_owned());
        };
        match value_of_text_in(&found_text, column_type, self.zone()).map_err(of_column)? {
            Value::Int(instant) if matches!((column_type, &value), (ColumnType::TimestampUtc(_), Expr::Value(_))) => {
                let instant = cast_with_options(&Int64Array::from(vec![instant]), &to, &CastOptions::default())?;
                Ok(format!("'{}'", array_value_to_string(&instant, 0)?))
            }
            _ => Ok(text.to_owned()),
        }
    }
}
