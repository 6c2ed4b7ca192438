//! Views: queries that the database keeps by name. A statement that names one is run as if the query
//! were written out in its place, so conditions reach the tables as they do from any subquery.

use super::{SCHEMA, Session};
use crate::answer::Answer;
use arrow::datatypes::Field;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{
    CreateTableOptions, CreateView, Cte, FromTable, ObjectName, Query, Statement as SqlStatement, TableFactor,
    VisitorMut, With,
};
use fleetdb_engine::{Code, Error, Result, StoredQueries, StoredQuery};
use fleetdb_functions::errors::{too_deep, unsupported};
use fleetdb_functions::planned_names::written_names;
use fleetdb_plan::temporary::TablesByName;
use fleetdb_statement::built::{all_columns, derived_as, derived_with_columns, quoted, select, table_alias, unjoined};
use fleetdb_statement::depth::{UNCHECKED_LEVELS, levels};
use fleetdb_statement::named_queries;
use fleetdb_statement::names::{TEMPORARY_TABLES, identifier, object_name};
use fleetdb_statement::walk::walk_mut;
use fleetdb_statement::{Kind, Statement};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The maximum length of the queries of all views in a statement, each as often as it is named.
const MAX_BYTES: usize = 1 << 20;

impl Session {
    /// The views that statements see.
    pub(super) fn views(&self) -> Arc<StoredQueries> {
        Arc::clone(self.tables.shown().stored_queries())
    }

    /// Writes out the queries of the views that a statement names.
    pub(super) fn with_views(&self, statement: Statement) -> Result<Statement> {
        self.with_views_within(statement, Vec::new())
    }

    /// The levels of a statement [with its views](Self::with_views).
    pub(super) fn levels_with_views(&self, statement: &Statement) -> Result<usize> {
        match self.store.stored_queries().is_empty() {
            true if self.temporaries.is_empty() => Ok(statement.tree().levels()),
            _ => self.with_views(statement.clone()).map(|statement| statement.tree().levels()),
        }
    }

    /// Like [`with_views`](Self::with_views), for a statement within the queries of these views.
    fn with_views_within(&self, mut statement: Statement, within: Vec<String>) -> Result<Statement> {
        // A transaction may see others; planning writes those out.
        let views = self.store.stored_queries();
        if let Some(levels) = self.write_out_views(statement.tree_mut(), &views, within)? {
            statement.tree_mut().set_levels(levels);
            statement.set_mixed();
        }
        Ok(statement)
    }

    /// Writes out the queries of those of `views` that a tree names, within the queries of the views
    /// `within`. Returns the levels of the tree if there are some.
    pub(super) fn write_out_views(
        &self,
        tree: &mut ParsedStatement,
        views: &StoredQueries,
        within: Vec<String>,
    ) -> Result<Option<usize>> {
        let mut inner = tree;
        while let ParsedStatement::Explain(explain) = inner {
            inner = &mut explain.statement;
        }
        let ParsedStatement::Statement(sql) = inner else { return Ok(None) };
        // Definitions name tables, or are stored as they are.
        let is_stored = matches!(
            sql.as_ref(),
            SqlStatement::CreateView(_) | SqlStatement::Drop { .. } | SqlStatement::Prepare { .. }
        );
        let temporaries = self.temporaries.now();
        if is_stored || views.is_empty() && temporaries.is_empty() {
            return Ok(None);
        }
        for target in targets(sql) {
            let is_view = |name: &String| views.contains_key(name) && !is_temporary(target, name, &temporaries);
            if let Some(name) = named(target).filter(is_view) {
                let message = format!("cannot change rows of view \"{name}\"");
                let error = Error::new(Code::WrongObject, message);
                return Err(error.with_hint("Change those of the tables that it reads."));
            }
        }
        let mut writer = Writer { within, temporaries, ..Writer::new(self, views) };
        if let ControlFlow::Break(error) = walk_mut(sql.as_mut(), &mut writer) {
            return Err(error);
        }
        if writer.count == 0 {
            return Ok(None);
        }
        named_queries::check(sql.as_ref())?;
        Ok(Some(UNCHECKED_LEVELS + levels(sql.as_ref())?))
    }

    /// `CREATE [OR REPLACE] VIEW name [(columns)] AS query`.
    pub(super) fn create_view(&self, create: &CreateView) -> Result<Answer> {
        if create.temporary {
            return Err(unsupported("CREATE TEMPORARY VIEW"));
        }
        if create.materialized {
            return Err(unsupported("CREATE MATERIALIZED VIEW"));
        }
        if create.options != CreateTableOptions::None || create.to.is_some() {
            return Err(unsupported("CREATE VIEW with options"));
        }
        let db = self.store.writer()?;
        let name = object_name(&create.name)?;
        if create.if_not_exists && db.stored_queries().contains_key(&name) {
            db.make_definitions_durable()?;
            return Ok(Answer::done("CREATE VIEW"));
        }
        let text = match create.columns.as_slice() {
            [] => create.query.to_string(),
            columns => {
                let columns: Vec<String> = columns.iter().map(|column| identifier(&column.name)).collect();
                let query = derived_with_columns(create.query.as_ref().clone(), &name, &columns);
                select(all_columns(), vec![unjoined(query)], None).to_string()
            }
        };
        if text.len() > MAX_BYTES {
            return Err(too_deep(format_args!("views of more than {MAX_BYTES} bytes")));
        }
        let query = self.parse_one(&text)?;
        let command = query.command();
        if command.writes.is_some() || command.kind? != Kind::Query {
            return Err(Error::new(Code::NotSupported, "the query of a view must not write"));
        }
        if query.parameters() > 0 {
            return Err(Error::new(Code::UndefinedParameter, "the query of a view must not have parameters"));
        }
        self.refresh()?;
        let query = self.with_views_within(query, vec![name.clone()])?;
        // The text begins elsewhere in the statement.
        let plan = self.plan_statement(query).map_err(Error::without_position)?;
        let column = |field: &Arc<Field>| (field.name().clone(), field.data_type().to_string());
        let schema = Arc::new(plan.schema().as_arrow().clone());
        let schema = written_names(&schema).unwrap_or(schema);
        let columns: Vec<_> = schema.fields().iter().map(column).collect();
        let mut known = HashSet::new();
        if let Some((twice, _)) = columns.iter().find(|(name, _)| !known.insert(name.as_str())) {
            let message = format!("column \"{twice}\" specified more than once");
            return Err(Error::new(Code::DuplicateColumn, message));
        }
        db.store_query(&name, &StoredQuery { text, columns }, create.or_replace)?;
        self.transaction().drop_fixed_view();
        Ok(Answer::done("CREATE VIEW"))
    }

    /// `DROP VIEW [IF EXISTS] names`.
    pub(super) fn drop_views(&self, names: &[ObjectName], if_exists: bool) -> Result<Answer> {
        let db = self.store.writer()?;
        let names = names.iter().map(object_name).collect::<Result<Vec<_>>>()?;
        let stored = db.stored_queries();
        if let Some(table) = names.iter().find(|name| !stored.contains_key(*name) && db.table(name).is_ok()) {
            let error = Error::new(Code::WrongObject, format!("\"{table}\" is not a view"));
            return Err(error.with_hint("Use DROP TABLE to remove a table."));
        }
        if let Some(missing) = names.iter().find(|name| !if_exists && !stored.contains_key(*name)) {
            return db.drop_query(missing).map(|()| Answer::done("DROP VIEW"));
        }
        for name in names.iter().filter(|name| stored.contains_key(*name)) {
            db.drop_query(name)?;
        }
        self.transaction().drop_fixed_view();
        Ok(Answer::done("DROP VIEW"))
    }
}

/// The tables whose rows an UPDATE, DELETE or MERGE changes.
fn targets(sql: &SqlStatement) -> Vec<&TableFactor> {
    match sql {
        SqlStatement::Update(update) => vec![&update.table.relation],
        SqlStatement::Delete(delete) => match &delete.from {
            FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => {
                from.iter().map(|from| &from.relation).collect()
            }
        },
        SqlStatement::Merge(merge) => vec![&merge.table],
        _ => Vec::new(),
    }
}

/// The name of a table in FROM.
fn named(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { name, args: None, .. } => object_name(name).ok(),
        _ => None,
    }
}

/// Whether a table in FROM, which has this name without a schema, is temporary.
fn is_temporary(factor: &TableFactor, bare: &str, temporaries: &TablesByName) -> bool {
    matches!(factor, TableFactor::Table { name, .. } if name.0.len() == 1) && temporaries.contains_key(bare)
}

/// Replaces the names of views by their queries, and those of temporary tables by names with a schema.
struct Writer<'a> {
    session: &'a Session,
    views: &'a StoredQueries,
    /// The temporary tables, which hide others.
    temporaries: Arc<TablesByName>,
    /// The views whose queries are being written.
    within: Vec<String>,
    /// The length of the queries so far.
    bytes: usize,
    /// The names that WITH gives to queries, for each enclosing query.
    named: Vec<HashSet<String>>,
    /// The WITH of each enclosing query, which has been visited.
    withs: Vec<Option<With>>,
    /// The number of queries written.
    count: usize,
}

impl<'a> Writer<'a> {
    fn new(session: &'a Session, views: &'a StoredQueries) -> Self {
        let (within, named, withs) = (Vec::new(), Vec::new(), Vec::new());
        let temporaries = Arc::default();
        Self { session, views, temporaries, within, bytes: 0, named, withs, count: 0 }
    }

    fn is_named(&self, name: &str) -> bool {
        self.named.iter().any(|named| named.contains(name))
    }
}

impl Writer<'_> {
    /// The query of a view, with those of the views in it written out.
    fn query(&mut self, name: &str) -> Result<Query> {
        let text = &self.views[name].text;
        if self.within.iter().any(|around| around == name) {
            return Err(Error::new(Code::InvalidDefinition, format!("view \"{name}\" reads itself")));
        }
        self.bytes += text.len();
        if self.bytes > MAX_BYTES || self.within.len() >= UNCHECKED_LEVELS {
            return Err(too_deep(format_args!("views of more than {MAX_BYTES} bytes, or within others")));
        }
        let of_view = |error: Error| error.context(format_args!("view \"{name}\""));
        let (tree, _held) = self.session.parse_one(text).map_err(of_view)?.into_parts();
        let ParsedStatement::Statement(mut sql) = tree else { return Err(of_view(Error::bug("it is no query"))) };
        self.within.push(name.to_owned());
        let outer = std::mem::take(&mut self.named);
        let written = walk_mut(sql.as_mut(), self);
        self.named = outer;
        self.within.pop();
        match (written, *sql) {
            (ControlFlow::Break(error), _) => Err(error),
            (_, SqlStatement::Query(query)) => Ok(*query),
            _ => Err(of_view(Error::bug("it is no query"))),
        }
    }
}

impl VisitorMut for Writer<'_> {
    type Break = Error;

    /// A query of WITH sees the names before it, or with RECURSIVE all of them.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let mut with = query.with.take();
        let mut names = HashSet::new();
        if let Some(With { recursive, cte_tables, .. }) = &mut with {
            let name = |table: &Cte| identifier(&table.alias.name);
            let all: HashSet<String> = cte_tables.iter().map(name).collect();
            for table in cte_tables {
                self.named.push(if *recursive { all.clone() } else { names.clone() });
                walk_mut(table.query.as_mut(), self)?;
                self.named.pop();
                names.insert(name(table));
            }
        }
        self.named.push(names);
        self.withs.push(with);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        query.with = self.withs.pop().flatten();
        self.named.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let Some(found) = named(factor) else { return ControlFlow::Continue(()) };
        // The query of a view does not see them.
        let is_temporary = self.within.is_empty() && is_temporary(factor, &found, &self.temporaries);
        let TableFactor::Table { name, alias, .. } = factor else { return ControlFlow::Continue(()) };
        if name.0.len() == 1 && self.is_named(&found) {
            return ControlFlow::Continue(());
        }
        if is_temporary {
            alias.get_or_insert_with(|| table_alias(&found));
            *name = vec![quoted(TEMPORARY_TABLES), quoted(&found)].into();
            return ControlFlow::Continue(());
        }
        if !self.views.contains_key(&found) {
            // In another statement, the name could be one of its WITH.
            if !self.within.is_empty() && name.0.len() == 1 {
                *name = vec![quoted(SCHEMA), quoted(&found)].into();
            }
            return ControlFlow::Continue(());
        }
        let view = found;
        let alias = alias.take().unwrap_or_else(|| table_alias(&view));
        match self.query(&view) {
            Ok(query) => {
                self.count += 1;
                *factor = derived_as(query, alias);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}
