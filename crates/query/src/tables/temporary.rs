//! Creates temporary tables.

use crate::answer::Answer;
use crate::session::Session;
use crate::tables::columns::Extras;
use crate::tables::ddl::{definition, take_primary_key};
use crate::tables::foreign_keys::warning;
use crate::tables::options::TableOptions;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{CreateTable, OnCommit as SqlOnCommit, Statement as SqlStatement};
use fleetdb_engine::{Code, DefaultValue, Error, Result};
use fleetdb_functions::errors::unsupported;
use fleetdb_plan::temporary::{OnCommit, TemporaryTable};
use fleetdb_statement::built::quoted;
use fleetdb_statement::names::{identifier, temporary_name};
use std::sync::Arc;

impl Session {
    /// Runs `CREATE TEMPORARY TABLE name (columns)`, or with `AS query`.
    pub(crate) fn create_temporary(&self, mut create: CreateTable) -> Result<Answer> {
        self.check_transaction()?;
        let name = match (temporary_name(&create.name), create.name.0.as_slice()) {
            (Some(name), _) => Some(name),
            (None, [name]) => name.as_ident().map(identifier),
            _ => None,
        };
        let name = name.ok_or_else(|| {
            Error::new(Code::InvalidDefinition, "cannot create temporary relation in non-temporary schema")
        })?;
        if self.temporaries.get(&name).is_some() {
            if create.if_not_exists {
                return Ok(Answer::done("CREATE TABLE"));
            }
            return Err(Error::new(Code::DuplicateTable, format!("relation \"{name}\" already exists")));
        }
        let on_commit = match create.on_commit.take() {
            None | Some(SqlOnCommit::PreserveRows) => OnCommit::Preserve,
            Some(SqlOnCommit::DeleteRows) => OnCommit::DeleteRows,
            Some(SqlOnCommit::Drop) => OnCommit::Drop,
        };
        let options = TableOptions::take(&mut create.table_options)?;
        if options != TableOptions::default() {
            return Err(unsupported("WITH (...) for a temporary table"));
        }
        let mut extras = Extras::default();
        create.columns.iter_mut().try_for_each(|column| extras.take_from_column(column))?;
        extras.take_from_constraints(&mut create.constraints)?;
        if extras.defaults.iter().any(|(_, default)| matches!(default, DefaultValue::Number { .. })) {
            return Err(unsupported("SERIAL or IDENTITY in a temporary table"));
        }
        let key = match &create.query {
            Some(_) if !create.constraints.is_empty() => Some(take_primary_key(&mut create.constraints)?),
            _ => None,
        };
        let is_filled = create.query.is_some();
        // DataFusion plans the columns, but not that the table is temporary.
        (create.temporary, create.global, create.name) = (false, None, vec![quoted(&name)].into());
        let plan = self.plan_of(ParsedStatement::Statement(Box::new(SqlStatement::CreateTable(create))))?;
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = plan else {
            return Err(unsupported("this form of CREATE TEMPORARY TABLE"));
        };
        self.check_defaults(&create, &mut extras)?;
        let definition = definition(&create, key, &options, &extras, self.zone())?;
        let schema = Arc::new(definition.not_stored()?);
        let key = definition.primary_key.iter().map(|name| schema.column_index(name)).collect::<Result<_>>()?;
        let mut table = TemporaryTable { schema, key, on_commit, rows: Vec::new() };
        if !is_filled {
            self.temporaries.put(table);
            return Ok(Answer::done("CREATE TABLE").warned(warning(&extras.foreign_keys)));
        }
        table.rows = self.held_rows(&table, create.input.as_ref().clone())?;
        let count = table.count();
        self.check_keys(&table)?;
        self.temporaries.put(table);
        Ok(Answer::done(format!("SELECT {count}")))
    }
}
