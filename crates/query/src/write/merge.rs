//! MERGE: the rows of a source change a table, row by row as its WHEN clauses say.
//!
//! 1. One query joins the source with the table, and says for each row which clause applies
//!    ([`merge_query`](crate::write::merge_query)). As in PostgreSQL, this is the first one whose condition
//!    holds.
//! 2. The rows of each clause become those that it writes. They are planned as those of an INSERT, so that
//!    values become the columns' types as they do there, and get defaults and numbers.
//! 3. All changes are one batch.

use crate::session::Session;
use crate::write::defaults::fill_defaults_of_assignments;
use crate::write::delete::{MAX_SINGLE_DELETES, delete_rows};
use crate::write::dml::{Change, distinct, upsert};
use crate::write::merge_query::{
    Action, Clause, FIRST, MergeQuery, Part, ROW, Source, UNMATCHED, numbered, of_clause, stored_name,
};
use crate::write::returning::WriteOutcome;
use crate::write::rows::{named, rows_with_keys_of};
use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    Assignment, BinaryOperator, Expr, Insert, Join, JoinConstraint, JoinOperator, Merge, Query, SelectItem, SetExpr,
    Statement as SqlStatement, TableWithJoins,
};
use fleetdb_direct::conflict::check_assignments;
use fleetdb_engine::{Code, Error, Result, TableSchema, TableView};
use fleetdb_functions::errors::engine_error;
use fleetdb_plan::table::FleetTable;
use fleetdb_statement::built::{self, quoted};
use std::sync::Arc;

impl Session {
    /// Runs a MERGE.
    pub(crate) fn merge(&self, merge: &Merge) -> Result<WriteOutcome> {
        let merge = MergeQuery::of(merge)?;
        self.write_after(None, |view| self.merged(&merge, view.table(merge.table())?))
    }

    /// The changes of a MERGE into this table.
    fn merged(&self, merge: &MergeQuery, table: &TableView) -> Result<Change> {
        let schema = table.schema();
        let (matched, unmatched) = (self.filled(&merge.matched, schema)?, self.filled(&merge.unmatched, schema)?);
        let plan = self.plan_query(merge.source_rows())?;
        let source = Source::new(plan.schema().as_arrow());
        let (values, condition) = merge.values_and_condition();
        self.check_names(values, merge.tables(), condition)?;
        let rows = source.named(self.rows_of(plan)?)?;
        let source = &source;
        let joined = self.joined_with(merge, table, source, rows)?;
        let mut written = Written::default();
        for (number, clause) in (FIRST..).zip(&matched) {
            let of_clause = Part { source, schema, rows: of_clause(&joined, number)? };
            match &clause.action {
                Action::Nothing | Action::Insert(_) => {}
                Action::Delete => written.deleted.extend(of_clause.targets()?),
                Action::Update(assignments) => {
                    written.changed.extend(of_clause.targets()?);
                    let set = check_assignments(schema, assignments)?;
                    let set = set.iter().map(|(name, _)| schema.column_index(name)).collect::<Result<Vec<_>>>()?;
                    let rows = self.updated(merge, &of_clause, assignments)?;
                    written.updates.push((rows, set));
                }
            }
        }
        let rest = Part { source, schema, rows: of_clause(&joined, UNMATCHED)? }.sources()?;
        let rest = self.clauses_of_unmatched(merge, &unmatched, source, rest)?;
        for (number, clause) in (FIRST..).zip(&unmatched) {
            if let Action::Insert(insert) = &clause.action {
                let rows = Part { source, schema, rows: of_clause(&rest, number)? }.sources()?;
                written.inserted.extend(self.inserted(merge, insert, source, rows)?);
            }
        }
        written.into_change(schema)
    }

    /// The rows of the source, each with the row of the table that matches it and the number of its clause.
    fn joined_with(
        &self,
        merge: &MergeQuery,
        table: &TableView,
        source: &Source,
        rows: Vec<RecordBatch>,
    ) -> Result<Vec<RecordBatch>> {
        let schema = table.schema();
        let keys = source.keys(merge, schema, &rows)?;
        let rows = MemTable::try_new(Arc::clone(&source.schema), vec![rows]).map_err(engine_error)?;
        let join =
            |source_name, target| self.rows_of(self.plan_query(merge.joined(schema, source, source_name, target))?);
        self.with_temporary("source", Arc::new(rows), |source_name| match keys {
            None => join(source_name, stored_name(&schema.name)),
            Some(keys) => {
                // As much of the table as can match.
                let request = rows_with_keys_of(schema, &keys)?;
                let target = FleetTable::within(&self.store, table.clone(), request);
                self.with_temporary("target", Arc::new(target), |target| join(source_name, target))
            }
        })
    }

    /// The clauses with the word DEFAULT replaced.
    fn filled(&self, clauses: &[Clause], schema: &TableSchema) -> Result<Vec<Clause>> {
        let mut clauses = clauses.to_vec();
        for clause in &mut clauses {
            match &mut clause.action {
                Action::Update(assignments) => {
                    fill_defaults_of_assignments(assignments, schema)?;
                    check_assignments(schema, assignments)?;
                }
                Action::Insert(insert) => self.complete(insert)?,
                Action::Delete | Action::Nothing => {}
            }
        }
        Ok(clauses)
    }

    /// The rows that match none of the table, each with the number of its clause.
    fn clauses_of_unmatched(
        &self,
        merge: &MergeQuery,
        clauses: &[Clause],
        source: &Source,
        rows: Vec<RecordBatch>,
    ) -> Result<Vec<RecordBatch>> {
        let rows = MemTable::try_new(Arc::clone(&source.schema), vec![rows]).map_err(engine_error)?;
        self.with_temporary("source", Arc::new(rows), |name| {
            self.rows_of(self.plan_query(merge.numbered_by_clause(source, clauses, name))?)
        })
    }

    /// The rows that an INSERT clause writes for these rows of the source.
    fn inserted(
        &self,
        merge: &MergeQuery,
        insert: &Insert,
        source: &Source,
        rows: Vec<RecordBatch>,
    ) -> Result<Vec<RecordBatch>> {
        let rows = MemTable::try_new(Arc::clone(&source.schema), vec![rows]).map_err(engine_error)?;
        self.with_temporary("source", Arc::new(rows), |name| {
            let from = built::unjoined(built::table(name, Some(&merge.source)));
            let mut insert = insert.clone();
            if let Some(row) = insert.source.as_deref_mut().and_then(only_row) {
                let row = row.into_iter().map(SelectItem::UnnamedExpr).collect();
                insert.source = Some(Box::new(built::select(row, vec![from], None)));
            }
            self.rows_to_insert(insert)
        })
    }

    /// The rows that an UPDATE clause writes in the place of those that it changes.
    fn updated(&self, merge: &MergeQuery, rows: &Part, assignments: &[Assignment]) -> Result<Vec<RecordBatch>> {
        let set = check_assignments(rows.schema, assignments)?;
        let value = |name: &String| match set.iter().find(|(set, _)| set == name) {
            Some((_, value)) => (*value).clone(),
            None => built::column(&merge.target, name),
        };
        let names: Vec<&String> = rows.schema.columns.iter().map(|column| &column.name).collect();
        let items = names.iter().map(|name| SelectItem::UnnamedExpr(value(name))).collect();
        let columns = names.iter().map(|name| quoted(name).into()).collect();
        let sources = numbered(&rows.source.schema, rows.sources()?)?;
        let targets = numbered(&rows.schema.to_nullable_arrow(), rows.targets()?)?;
        self.with_temporary("source", Arc::new(sources), |source| {
            self.with_temporary("target", Arc::new(targets), |target| {
                let row = |table| built::column(table, ROW);
                let is_same = built::binary(row(&merge.source), BinaryOperator::Eq, row(&merge.target));
                let join = Join {
                    relation: built::table(target, Some(&merge.target)),
                    global: false,
                    join_operator: JoinOperator::Inner(JoinConstraint::On(is_same)),
                };
                let relation = built::table(source, Some(&merge.source));
                let from = TableWithJoins { relation, joins: vec![join] };
                let query = built::select(items, vec![from], None);
                self.rows_to_insert(built::insert(stored_name(&rows.schema.name), columns, Some(query)))
            })
        })
    }

    /// Plans a query for values over the tables of a statement. The statement's own queries name columns that
    /// errors must not show.
    pub(super) fn check_names(
        &self,
        values: Vec<Expr>,
        tables: Vec<TableWithJoins>,
        condition: Option<Expr>,
    ) -> Result<()> {
        let aliased = |(place, expr)| SelectItem::ExprWithAlias { expr, alias: quoted(&format!("c{place}")) };
        let items = values.into_iter().chain([built::true_literal()]).enumerate().map(aliased).collect();
        self.plan_query(built::select(items, tables, condition)).map(drop)
    }

    /// The rows of an INSERT that the session made, in the table's own columns.
    fn rows_to_insert(&self, insert: Insert) -> Result<Vec<RecordBatch>> {
        self.rows_of(self.plan_rows_to_insert(insert)?)
    }

    /// Plans the rows of an INSERT that the session made, in the table's own columns.
    pub(super) fn plan_rows_to_insert(&self, insert: Insert) -> Result<LogicalPlan> {
        let mut sql = SqlStatement::Insert(insert);
        self.dialect.rewrite(None, &mut [&mut sql])?;
        Ok(self.plan_write(sql)?.input.as_ref().clone())
    }
}

/// The row of VALUES with a single one.
fn only_row(query: &mut Query) -> Option<Vec<Expr>> {
    let SetExpr::Values(values) = query.body.as_mut() else { return None };
    values.rows.pop().map(|row| row.content)
}

/// What a MERGE writes.
#[derive(Default)]
struct Written {
    /// The new rows of each UPDATE clause, and the indexes of the columns that it sets.
    updates: Vec<(Vec<RecordBatch>, Vec<usize>)>,
    /// The rows that were updated, as they were.
    changed: Vec<RecordBatch>,
    deleted: Vec<RecordBatch>,
    inserted: Vec<RecordBatch>,
}

impl Written {
    fn into_change(self, schema: &Arc<TableSchema>) -> Result<Change> {
        let Self { updates, changed, deleted, inserted } = self;
        let inserted = named(schema, inserted)?;
        // A row may be deleted and inserted again.
        distinct(schema, changed.iter().chain(&deleted).cloned().collect(), Some(&affected_twice))?;
        distinct(schema, changed.iter().chain(&inserted).cloned().collect(), Some(&|| inserted_twice(schema)))?;
        if deleted.iter().map(RecordBatch::num_rows).sum::<usize>() > MAX_SINGLE_DELETES {
            let message = format!("MERGE deletes at most {MAX_SINGLE_DELETES} rows: merge part by part");
            return Err(Error::new(Code::LimitExceeded, message));
        }
        let (batch, count) = delete_rows(schema, &deleted)?;
        let mut all = Change { batch, count, ..Change::nothing(Arc::clone(schema)) };
        all.read.extend(changed.into_iter().chain(deleted).chain(inserted.iter().cloned()));
        for (rows, set) in updates.into_iter().chain([(inserted, Vec::new())]) {
            let change = upsert(schema, rows, &set)?;
            all.batch = all.batch.append(change.batch);
            all.count += change.count;
        }
        Ok(all)
    }
}

fn affected_twice() -> Error {
    let error = Error::new(Code::Cardinality, "MERGE command cannot affect row a second time");
    error.with_hint("Ensure that not more than one source row matches any one target row.")
}

fn inserted_twice(schema: &TableSchema) -> Error {
    let message = format!("duplicate key value violates unique constraint \"{}_pkey\"", schema.name);
    Error::new(Code::DuplicateKey, message).with_hint("Two rows that this MERGE writes have one primary key.")
}
