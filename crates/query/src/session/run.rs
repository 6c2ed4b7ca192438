//! Runs a statement by its [`Command`](fleetdb_statement::command::Command).

use super::Session;
use crate::answer::Answer;
use crate::tables::columns::Extras;
use crate::tables::ddl::{self, write_words};
use crate::tables::foreign_keys::warning;
use crate::tables::options::TableOptions;
use crate::transfer::copy_from::copy_from;
use crate::transfer::export::{FileFormat, write_file};
use crate::write::returning::{Returning, WriteOutcome};
use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, LogicalPlan};
use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement as ParsedStatement};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType, Statement as SqlStatement};
use fleetdb_engine::{Code, ColumnType, DefaultValue, Error, Result};
use fleetdb_functions::errors::{engine_error, unsupported};
use fleetdb_statement::Statement;
use fleetdb_statement::built;
use fleetdb_statement::command::Kind;
use fleetdb_statement::names::{object_name, table_name, temporary_name};
use std::path::Path;
use std::sync::Arc;

/// The tag of an INSERT before its count, as in PostgreSQL: it includes an object id that is always
/// 0.
const INSERTED: &str = "INSERT 0";

impl Session {
    pub(super) fn run(&self, statement: Statement, described: Option<&SchemaRef>) -> Result<Answer> {
        let command = statement.command();
        if self.is_read_only()
            && let Some(what) = command.writes
        {
            self.check_may_write(what)?;
        }
        match command.kind? {
            Kind::Setting(tag) => self.set(&statement).map(|_| Answer::done(tag)),
            Kind::Begin => self.begin_as(&statement).map(|_| Answer::done("BEGIN")),
            Kind::Commit => self.commit(),
            Kind::Rollback => self.roll_back(),
            Kind::RollbackTo(savepoint) => self.roll_back_to(&savepoint).map(|_| Answer::done("ROLLBACK")),
            Kind::Savepoint(name) => self.transaction().save(name).map(|()| Answer::done("SAVEPOINT")),
            Kind::Release(savepoint) => self.transaction().release(&savepoint).map(|()| Answer::done("RELEASE")),
            Kind::Nothing(tag) => self.check_transaction().map(|()| Answer::done(tag)),
            Kind::Discard => self.discard_all().map(|()| Answer::done("DISCARD ALL")),
            Kind::Show(name) if self.setting(&name).is_some() => self.show(&name),
            kind => {
                let (tree, _held) = statement.into_parts();
                self.run_tree(tree, &kind, described)
            }
        }
    }

    /// Runs a statement by its tree.
    fn run_tree(&self, statement: ParsedStatement, kind: &Kind, described: Option<&SchemaRef>) -> Result<Answer> {
        let mut sql = match statement {
            ParsedStatement::Statement(sql) => sql,
            ParsedStatement::CopyTo(copy) => return self.copy_to(&copy),
            other => {
                self.check_explained(&other)?;
                return self.run_planned(other);
            }
        };
        let returning = Returning::take(&mut sql, described)?;
        let returning = returning.as_ref();
        let tag = tag_of(&sql);
        if let Some(done) = self.run_on_temporary(&sql, returning)? {
            return Ok(done);
        }
        if let Some(done) = self.run_as_values(&sql, returning)? {
            return Ok(self.done(tag, done));
        }
        if let Some(done) = self.run_as_keyed(&sql, returning)? {
            return Ok(self.done(tag, done));
        }
        match *sql {
            SqlStatement::AlterTable(alter) => {
                self.check_transaction()?;
                let altered = self.alter_table(alter);
                self.transaction().drop_fixed_view();
                altered
            }
            SqlStatement::CreateTable(create) if create.temporary || temporary_name(&create.name).is_some() => {
                self.create_temporary(create)
            }
            SqlStatement::Discard { .. } => {
                self.check_transaction()?;
                self.temporaries.restore(Arc::default());
                Ok(Answer::done("DISCARD TEMP"))
            }
            SqlStatement::CreateTable(mut create) => {
                let options = TableOptions::take(&mut create.table_options)?;
                let mut extras = Extras::default();
                create.columns.iter_mut().try_for_each(|column| extras.take_from_column(column))?;
                extras.take_from_constraints(&mut create.constraints)?;
                // DataFusion resolves a key's columns only among the columns listed in the
                // statement.
                let key = create.query.as_ref().map(|_| ddl::take_primary_key(&mut create.constraints)).transpose()?;
                let statement = ParsedStatement::Statement(Box::new(SqlStatement::CreateTable(create)));
                let warning = warning(&extras.foreign_keys);
                Ok(self.create_table(statement, key, &options, extras)?.warned(warning))
            }
            copy @ SqlStatement::Copy { .. } => {
                self.outside_transaction("COPY ... FROM")?;
                let db = self.store.writer()?;
                let count = copy_from(db, &copy, &self.files, self.zone())?;
                let acknowledged = db.make_durable(self.durability())?;
                Ok(self.done("COPY", WriteOutcome::of_rows(count, acknowledged)))
            }
            SqlStatement::Vacuum(vacuum) => {
                self.outside_transaction("VACUUM")?;
                let db = self.store.writer()?;
                if vacuum.full { db.compact() } else { db.settle() }.map(|()| Answer::done("VACUUM"))
            }
            SqlStatement::CreateView(create) => {
                self.check_transaction()?;
                self.create_view(&create)
            }
            SqlStatement::Drop { object_type: ObjectType::View, if_exists, names, .. } => {
                self.check_transaction()?;
                self.drop_views(&names, if_exists)
            }
            // Temporary tables that exist were dropped before.
            SqlStatement::Drop { object_type: ObjectType::Table, if_exists: true, mut names, .. }
                if names.iter().any(|name| temporary_name(name).is_some()) =>
            {
                self.check_transaction()?;
                names.retain(|name| temporary_name(name).is_none());
                if names.is_empty() { Ok(Answer::done("DROP TABLE")) } else { self.drop_tables(&names, true) }
            }
            SqlStatement::Drop { object_type: ObjectType::Table, if_exists, names, .. } if names.len() > 1 => {
                self.check_transaction()?;
                self.drop_tables(&names, if_exists)
            }
            SqlStatement::Prepare { name, data_types, statement } => {
                self.check_transaction()?;
                self.keep_named(&name, data_types, &statement).map(|()| Answer::done("PREPARE"))
            }
            SqlStatement::Deallocate { name, .. } => {
                self.check_transaction()?;
                self.forget_named(&name);
                Ok(Answer::done("DEALLOCATE"))
            }
            SqlStatement::Insert(insert) => self.insert(insert, returning).map(|done| self.done(tag, done)),
            SqlStatement::Update(update) => self.update(update, returning).map(|done| self.done(tag, done)),
            SqlStatement::Delete(delete) => self.delete(delete, returning).map(|done| self.done(tag, done)),
            SqlStatement::Merge(merge) => self.merge(&merge).map(|done| self.done(tag, done)),
            SqlStatement::Truncate(truncate) => {
                let tables: Vec<_> = truncate.table_names.iter().map(|table| &table.name).collect();
                let done = self.truncate(&tables)?;
                Ok(Answer::done("TRUNCATE TABLE").acknowledged_by(done.acknowledged))
            }
            other if *kind == Kind::Insert => self.insert_several(&other).map(|done| self.done(tag, done)),
            other => self.run_planned(ParsedStatement::Statement(Box::new(other))),
        }
    }

    /// `DROP TABLE a, b`: drops none if one of them does not exist.
    fn drop_tables(&self, names: &[ObjectName], if_exists: bool) -> Result<Answer> {
        let db = self.store.writer()?;
        let names = names.iter().map(object_name).collect::<Result<Vec<_>>>()?;
        for name in &names {
            self.transaction().check_not_written(name)?;
            if !if_exists {
                db.table(name)?;
            }
        }
        names.iter().filter(|name| db.table(name).is_ok()).try_for_each(|name| db.drop_table(name))?;
        self.transaction().drop_fixed_view();
        Ok(Answer::done("DROP TABLE"))
    }

    /// `COPY table TO 'file'` or `COPY (query) TO 'file'`. The format is that of STORED AS, or of
    /// the file's extension.
    fn copy_to(&self, copy: &CopyToStatement) -> Result<Answer> {
        if !copy.partitioned_by.is_empty() || !copy.options.is_empty() {
            return Err(unsupported("COPY with options or PARTITIONED BY"));
        }
        let path = Path::new(&copy.target);
        self.files.check(path)?;
        let format = match copy.stored_as.as_deref() {
            None => FileFormat::of(path)?,
            Some("CSV") => FileFormat::Csv,
            Some("PARQUET") => FileFormat::Parquet,
            Some(other) => return Err(unsupported(&format!("COPY ... STORED AS {other}"))),
        };
        self.transaction().check()?;
        self.refresh()?;
        let plan = match &copy.source {
            CopyToSource::Relation(name) => {
                let from = built::unjoined(built::table(name.clone(), None));
                self.plan_query(built::select(built::all_columns(), vec![from], None))?
            }
            // Parsed by itself, because it may be for the dialect's parser. Positions in this text
            // would mislead.
            CopyToSource::Query(query) => {
                self.plan_statement(self.parse_one(&query.to_string())?).map_err(Error::without_position)?
            }
        };
        if matches!(plan, LogicalPlan::Dml(_)) {
            return Err(unsupported("COPY of a statement that writes to a file"));
        }
        let rows = write_file(self.start(plan)?, path, format, |_| ())?;
        Ok(Answer::done(format!("COPY {rows}")))
    }

    /// Runs a statement that DataFusion handles unchanged.
    fn run_planned(&self, statement: ParsedStatement) -> Result<Answer> {
        let plan = self.plan_of(statement)?;
        match &plan {
            LogicalPlan::Ddl(DdlStatement::DropTable(drop)) => {
                self.transaction().check_not_written(table_name(&drop.name)?)?;
                let dropped = ddl::drop_table(self.store.writer()?, drop);
                self.transaction().drop_fixed_view();
                return dropped;
            }
            LogicalPlan::Ddl(DdlStatement::CreateIndex(_)) => {
                return Err(Error::new(
                    Code::NotSupported,
                    "CREATE INDEX is not supported: rows are found by their primary key, in its order, and by time; \
                     put the columns that queries search by first in the primary key",
                ));
            }
            LogicalPlan::Ddl(other) => return Err(unsupported(ddl::words_of(other))),
            LogicalPlan::Dml(dml) => return Err(unsupported(write_words(&dml.op))),
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => return self.start(plan).map(Answer::of_plan),
            _ => {}
        }
        self.start(plan)
    }

    fn create_table(
        &self,
        statement: ParsedStatement,
        key: Option<Vec<String>>,
        options: &TableOptions,
        mut extras: Extras,
    ) -> Result<Answer> {
        match key {
            Some(_) => self.outside_transaction("CREATE TABLE ... AS")?,
            None => self.check_transaction()?,
        }
        let plan = self.plan_of(statement)?;
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = plan else {
            return Err(unsupported("this form of CREATE TABLE"));
        };
        self.check_defaults(&create, &mut extras)?;
        let filled = key.is_some();
        let created = ddl::create_table(self.store.writer()?, &create, key, options, &extras, self.zone())?;
        self.transaction().drop_fixed_view();
        if !created || !filled {
            return Ok(Answer::done("CREATE TABLE"));
        }
        let CreateMemoryTable { name, input, .. } = create;
        let name = table_name(&name)?.to_owned();
        match self.fill(&name, input.as_ref().clone()) {
            Ok(done) => Ok(self.done("SELECT", done)),
            Err(error) => {
                // Undoes the statement's effects.
                self.store.writer()?.drop_table(&name)?;
                Err(error)
            }
        }
    }

    /// Checks the defaults of the columns of a new table, and writes them in the form that is kept.
    pub(crate) fn check_defaults(&self, create: &CreateMemoryTable, extras: &mut Extras) -> Result<()> {
        for field in create.input.schema().fields() {
            let of_column = extras.defaults.iter_mut().filter(|(column, _)| column == field.name());
            for (column, default) in of_column {
                if let DefaultValue::Expression(text) = default {
                    *text = self.checked_default(column, text, ColumnType::of_field(field)?)?;
                }
            }
        }
        Ok(())
    }

    /// Writes a query's rows to a newly created table.
    fn fill(&self, name: &str, query: LogicalPlan) -> Result<WriteOutcome> {
        self.refresh()?;
        let source = self.runtime.block_on(self.context.table_provider(name)).map_err(engine_error)?;
        let plan = datafusion::logical_expr::LogicalPlanBuilder::insert_into(
            query,
            name,
            datafusion::datasource::provider_as_source(source),
            InsertOp::Append,
        );
        self.write_streaming(plan.and_then(|plan| plan.build()).map_err(engine_error)?)
    }
}

/// The tag of a statement that writes, before its count.
fn tag_of(write: &SqlStatement) -> &'static str {
    match write {
        SqlStatement::Update(_) => "UPDATE",
        SqlStatement::Delete(_) => "DELETE",
        SqlStatement::Merge(_) => "MERGE",
        _ => INSERTED,
    }
}
