//! The queries of a MERGE, and the rows in them.

use crate::session::{SCHEMA, Session};
use crate::write::rows::named;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, filter_record_batch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::datasource::MemTable;
use datafusion::sql::sqlparser::ast::{
    Assignment, BinaryOperator, CaseWhen, Expr, Insert, Join, JoinConstraint, JoinOperator, Merge, MergeAction,
    MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind, ObjectName, Query, SelectItem, SetExpr,
    TableFactor, TableWithJoins,
};
use fleetdb_direct::conflict::check_assignments;
use fleetdb_direct::primary_key::primary_key;
use fleetdb_engine::{Code, Error, Result, TableSchema};
use fleetdb_functions::errors::{engine_error, unsupported};
use fleetdb_statement::built::{self, quoted};
use fleetdb_statement::merge_form::does_nothing;
use fleetdb_statement::names::is_default;
use fleetdb_statement::names::{identifier, object_name};
use std::sync::Arc;

/// The column of the table's rows that says whether there is one.
const THERE: &str = "fleetdb_there";
/// The column that numbers the rows of the source and of the table that belong together.
pub(super) const ROW: &str = "fleetdb_row";
/// The number of the first clause.
pub(super) const FIRST: i64 = 1;
/// What stands for the number of a clause where the table has no row.
pub(super) const UNMATCHED: i64 = 0;
/// The rows of a source without a name.
const UNNAMED: &str = "source";

/// A MERGE, as its queries need it.
pub(crate) struct MergeQuery {
    table: String,
    /// The name by which the statement refers to the table.
    pub(super) target: String,
    /// The name by which it refers to the rows of the source.
    pub(super) source: String,
    from: TableFactor,
    on: Expr,
    /// The clauses for rows that match one of the table, in order.
    pub(super) matched: Vec<Clause>,
    /// The clauses for those that match none.
    pub(super) unmatched: Vec<Clause>,
}

/// A WHEN clause.
#[derive(Clone)]
pub(super) struct Clause {
    condition: Option<Expr>,
    pub(super) action: Action,
}

#[derive(Clone)]
pub(super) enum Action {
    Nothing,
    Update(Vec<Assignment>),
    Delete,
    /// The values are one row of VALUES.
    Insert(Box<Insert>),
}

impl MergeQuery {
    /// Reads a statement.
    ///
    /// # Errors
    /// It has a form that is not supported, or a clause that is never reached.
    pub(crate) fn of(merge: &Merge) -> Result<Self> {
        let TableFactor::Table { name, alias, args: None, .. } = &merge.table else {
            return Err(Error::invalid(format!("{} is no table", merge.table)));
        };
        let table = object_name(name)?;
        let target = alias.as_ref().map_or_else(|| table.clone(), |alias| identifier(&alias.name));
        let source = called(&merge.source).unwrap_or_else(|| UNNAMED.to_owned());
        if source == target {
            let message = format!("table name \"{target}\" specified more than once");
            return Err(Error::new(Code::DuplicateAlias, message).with_hint("Give the source another name with AS."));
        }
        let (mut matched, mut unmatched) = (Vec::new(), Vec::new());
        for clause in &merge.clauses {
            let before = match clause.clause_kind {
                MergeClauseKind::Matched => &mut matched,
                MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => &mut unmatched,
                MergeClauseKind::NotMatchedBySource => return Err(unsupported("WHEN NOT MATCHED BY SOURCE")),
            };
            if before.last().is_some_and(|before: &Clause| before.condition.is_none()) {
                let message = "unreachable WHEN clause specified after unconditional WHEN clause";
                return Err(Error::new(Code::Syntax, message));
            }
            before.push(Clause::of(clause, &table)?);
        }
        Ok(Self { table, target, source, from: merge.source.clone(), on: (*merge.on).clone(), matched, unmatched })
    }

    /// The name of the table.
    pub(super) fn table(&self) -> &str {
        &self.table
    }

    /// The query for the rows of the source.
    pub(super) fn source_rows(&self) -> Query {
        built::select(built::all_columns(), vec![built::unjoined(self.from.clone())], None)
    }

    /// The query that joins the rows of the source with those of the table: the columns of both, and the
    /// number of the clause.
    pub(super) fn joined(
        &self,
        schema: &TableSchema,
        source: &Source,
        source_name: ObjectName,
        target: ObjectName,
    ) -> Query {
        let of_target = schema.columns.iter().map(|column| quoted(&column.name));
        let mut marked: Vec<SelectItem> = of_target.map(Expr::Identifier).map(SelectItem::UnnamedExpr).collect();
        marked.push(SelectItem::ExprWithAlias { expr: built::true_literal(), alias: quoted(THERE) });
        let target = built::select(marked, vec![built::unjoined(built::table(target, None))], None);
        let on = JoinConstraint::On(self.on.clone());
        let join = Join {
            relation: built::derived(target, &self.target),
            global: false,
            join_operator: if self.unmatched.is_empty() { JoinOperator::Inner(on) } else { JoinOperator::Left(on) },
        };
        let relation = built::table(source_name, Some(&self.source));
        let there = || Box::new(built::column(&self.target, THERE));
        let mut conditions = vec![CaseWhen { condition: Expr::IsNull(there()), result: built::number(UNMATCHED) }];
        conditions.extend(numbers_of(&self.matched));
        let names = source.names().map(|name| built::column(&self.source, name));
        let names = names.chain(schema.columns.iter().map(|column| built::column(&self.target, &column.name)));
        let all = names.chain([built::case(conditions)]).enumerate();
        // A name may occur on both sides.
        let items = all.map(|(place, expr)| SelectItem::ExprWithAlias { expr, alias: quoted(&format!("c{place}")) });
        let condition = self.matched.is_empty().then(|| Expr::IsNull(there()));
        built::select(items.collect(), vec![TableWithJoins { relation, joins: vec![join] }], condition)
    }

    /// The query for the columns of the source and the number of each row's clause, for rows that match none
    /// of the table. As in PostgreSQL, these clauses see only the source.
    pub(super) fn numbered_by_clause(&self, source: &Source, clauses: &[Clause], rows: ObjectName) -> Query {
        let names = source.names().map(|name| SelectItem::UnnamedExpr(built::column(&self.source, name)));
        let number = match clauses.is_empty() {
            true => built::number(UNMATCHED),
            false => built::case(numbers_of(clauses).collect()),
        };
        let number = SelectItem::ExprWithAlias { expr: number, alias: quoted(ROW) };
        let from = built::unjoined(built::table(rows, Some(&self.source)));
        built::select(names.chain([number]).collect(), vec![from], None)
    }

    /// The source and the table.
    pub(super) fn tables(&self) -> Vec<TableWithJoins> {
        let table = built::table(stored_name(&self.table), Some(&self.target));
        vec![built::unjoined(self.from.clone()), built::unjoined(table)]
    }

    /// The values and conditions of the clauses that see both.
    pub(super) fn values_and_condition(&self) -> (Vec<Expr>, Option<Expr>) {
        let mut values = Vec::new();
        for clause in &self.matched {
            if let Action::Update(assignments) = &clause.action {
                let given = assignments.iter().map(|assignment| &assignment.value);
                values.extend(given.filter(|value| !is_default(value)).cloned());
            }
        }
        (values, all_of(self.conditions()))
    }

    /// The conditions of the clauses that see the source and the table.
    fn conditions(&self) -> Vec<Expr> {
        let of_clauses = self.matched.iter().filter_map(|clause| clause.condition.clone());
        of_clauses.chain([self.on.clone()]).collect()
    }

    /// A query that compares the values of the clauses with the columns that they are for. It is only
    /// planned: it tells the types of the parameters.
    pub(crate) fn compared_with_columns(&self, session: &Session) -> Result<Query> {
        let schema = session.store.writer()?.table(&self.table)?;
        let equal =
            |column: Expr, value: Expr| built::binary(column, BinaryOperator::Eq, Expr::Nested(Box::new(value)));
        let mut conditions = self.conditions();
        for clause in &self.matched {
            let Action::Update(assignments) = &clause.action else { continue };
            for (name, value) in check_assignments(&schema, assignments)? {
                conditions.push(equal(built::column(&self.target, &name), value.clone()));
            }
        }
        let matched = built::select(built::any_row(), self.tables(), all_of(conditions));
        let mut conditions: Vec<Expr> = self.unmatched.iter().filter_map(|clause| clause.condition.clone()).collect();
        // The clauses must not see the table's columns by their names.
        let column = |place: usize| format!("{ROW}_{place}");
        for clause in &self.unmatched {
            let Action::Insert(insert) = &clause.action else { continue };
            let mut insert = insert.as_ref().clone();
            session.complete(&mut insert)?;
            let Some(SetExpr::Values(values)) = insert.source.as_ref().map(|query| query.body.as_ref()) else {
                continue;
            };
            let places = insert.columns.iter().map(|name| Ok(schema.find(&object_name(name)?)));
            let places = match insert.columns.is_empty() {
                true => (0..schema.columns.len()).map(Some).collect(),
                false => places.collect::<Result<Vec<_>>>()?,
            };
            for (value, place) in values.rows.iter().flat_map(|row| row.iter()).zip(places) {
                conditions.extend(place.map(|place| equal(built::column(ROW, &column(place)), value.clone())));
            }
        }
        let columns: Vec<String> = (0..schema.columns.len()).map(column).collect();
        let all = built::select(built::all_columns(), self.tables().split_off(1), None);
        let columns = built::derived_with_columns(all, ROW, &columns);
        let from = vec![built::unjoined(self.from.clone()), built::unjoined(columns)];
        let unmatched = built::select(built::any_row(), from, all_of(conditions));
        Ok(built::union_all(matched, unmatched))
    }
}

fn all_of(conditions: Vec<Expr>) -> Option<Expr> {
    let conditions = conditions.into_iter().map(|condition| Expr::Nested(Box::new(condition)));
    conditions.reduce(|all, condition| built::binary(all, BinaryOperator::And, condition))
}

/// The name of a stored table, which a temporary one does not hide.
pub(super) fn stored_name(table: &str) -> ObjectName {
    vec![quoted(SCHEMA), quoted(table)].into()
}

/// The name by which a statement refers to a table in FROM.
fn called(factor: &TableFactor) -> Option<String> {
    let alias = match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
        _ => None,
    };
    let name = || match factor {
        TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
            name.0.last().and_then(|part| part.as_ident()).map(identifier)
        }
        _ => None,
    };
    alias.map(|alias| identifier(&alias.name)).or_else(name)
}

impl Clause {
    fn of(clause: &MergeClause, table: &str) -> Result<Self> {
        let action = match &clause.action {
            action if does_nothing(action) => Action::Nothing,
            MergeAction::Update(update) => Action::Update(update.assignments.clone()),
            MergeAction::Delete { .. } => Action::Delete,
            MergeAction::Insert(MergeInsertExpr { columns, kind: MergeInsertKind::Values(values), .. }) => {
                let rows: Vec<_> = values.rows.iter().map(|row| row.content.clone()).collect();
                let source = if rows.is_empty() { None } else { Some(built::values(rows)) };
                let insert = built::insert(stored_name(table), columns.clone(), source);
                Action::Insert(Box::new(insert))
            }
            MergeAction::Insert(_) => return Err(unsupported("INSERT ROW")),
        };
        Ok(Self { condition: clause.predicate.clone(), action })
    }
}

/// The branches of a CASE that give the number of the first clause whose condition holds.
fn numbers_of(clauses: &[Clause]) -> impl Iterator<Item = CaseWhen> {
    (FIRST..).zip(clauses).map(|(number, clause)| CaseWhen {
        condition: clause.condition.clone().unwrap_or_else(built::true_literal),
        result: built::number(number),
    })
}

/// The columns of the source's rows.
pub(super) struct Source {
    pub(super) schema: SchemaRef,
}

impl Source {
    pub(super) fn new(schema: &Schema) -> Self {
        let fields = schema.fields().iter().map(|field| Field::new(field.name(), field.data_type().clone(), true));
        Self { schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())) }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.schema.fields().iter().map(|field| field.name().as_str())
    }

    /// The rows with these columns, of the first ones in each batch.
    pub(super) fn named(&self, rows: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
        let named = |rows: RecordBatch| {
            let columns = rows.columns().iter().take(self.schema.fields().len()).cloned().collect();
            Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
        };
        rows.into_iter().map(named).collect()
    }

    /// Finds the rows whose primary keys the source's rows can match. `None` if they can match any row: the
    /// condition must compare every column of the key with a column of the source that has its type.
    pub(super) fn keys(
        &self,
        merge: &MergeQuery,
        schema: &TableSchema,
        rows: &[RecordBatch],
    ) -> Result<Option<Vec<RecordBatch>>> {
        let mut equal = Vec::new();
        equalities(&merge.on, &mut equal);
        let key = primary_key(schema);
        let mut of_source = vec![None; schema.columns.len()];
        for &place in &key {
            let column = &schema.columns[place];
            let is_key = |expr: &Expr| is_column(expr, &merge.target, &column.name);
            let other = equal.iter().find_map(|(left, right)| match (is_key(left), is_key(right)) {
                (true, _) => Some(*right),
                (_, true) => Some(*left),
                _ => None,
            });
            let Some(other) = other else { return Ok(None) };
            let Some(found) = self.names().position(|name| is_column(other, &merge.source, name)) else {
                return Ok(None);
            };
            let (from, to) = (self.schema.field(found).data_type(), column.column_type.to_arrow());
            if *from != to && !(from.is_integer() && to.is_integer()) {
                return Ok(None);
            }
            of_source[place] = Some(found);
        }
        let all = schema.to_nullable_arrow();
        let keys = |rows: &RecordBatch| {
            let column = |(field, place): (&Arc<Field>, &Option<usize>)| match place {
                // A number that does not fit matches nothing, and is NULL.
                Some(place) => cast_with_options(rows.column(*place), field.data_type(), &CastOptions::default()),
                None => Ok(new_null_array(field.data_type(), rows.num_rows())),
            };
            let columns: Vec<ArrayRef> =
                all.fields().iter().zip(&of_source).map(column).collect::<std::result::Result<_, ArrowError>>()?;
            let is_whole = |row: usize| key.iter().all(|&place| columns[place].is_valid(row));
            let whole: BooleanArray = (0..rows.num_rows()).map(|row| Some(is_whole(row))).collect();
            Ok(filter_record_batch(&RecordBatch::try_new(Arc::clone(&all), columns.clone())?, &whole)?)
        };
        rows.iter().map(keys).collect::<Result<_>>().map(Some)
    }
}

/// The equalities that a condition consists of, if all others are joined to them by AND.
fn equalities<'a>(condition: &'a Expr, found: &mut Vec<(&'a Expr, &'a Expr)>) {
    match condition {
        Expr::Nested(inner) => equalities(inner, found),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            equalities(left, found);
            equalities(right, found);
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => found.push((left, right)),
        _ => {}
    }
}

fn is_column(expr: &Expr, table: &str, name: &str) -> bool {
    match expr {
        Expr::CompoundIdentifier(parts) => {
            parts.len() == 2 && identifier(&parts[0]) == table && identifier(&parts[1]) == name
        }
        _ => false,
    }
}

/// Rows that a MERGE joined: the columns of the source, of the table, and others.
pub(super) struct Part<'a> {
    pub(super) source: &'a Source,
    pub(super) schema: &'a TableSchema,
    pub(super) rows: Vec<RecordBatch>,
}

impl Part<'_> {
    pub(super) fn sources(&self) -> Result<Vec<RecordBatch>> {
        self.source.named(self.rows.clone())
    }

    /// The rows of the table.
    pub(super) fn targets(&self) -> Result<Vec<RecordBatch>> {
        let first = self.source.schema.fields().len();
        let places: Vec<usize> = (first..first + self.schema.columns.len()).collect();
        let rows = self.rows.iter().map(|rows| Ok(rows.project(&places)?)).collect::<Result<_>>()?;
        named(self.schema, rows)
    }
}

/// The rows whose last column is this number of a clause.
pub(super) fn of_clause(rows: &[RecordBatch], number: i64) -> Result<Vec<RecordBatch>> {
    let is_it = |rows: &RecordBatch| {
        let Some(numbers) = rows.columns().last() else { return Err(Error::bug("rows of a MERGE have no columns")) };
        let numbers = cast_with_options(numbers, &DataType::Int64, &CastOptions::default())?;
        let is_it: BooleanArray =
            numbers.as_primitive::<Int64Type>().iter().map(|found| Some(found == Some(number))).collect();
        Ok(filter_record_batch(rows, &is_it)?)
    };
    let found = rows.iter().map(is_it).collect::<Result<Vec<_>>>()?;
    Ok(found.into_iter().filter(|rows| rows.num_rows() > 0).collect())
}

/// The columns with one that numbers the rows.
pub(super) fn with_number(schema: &SchemaRef) -> SchemaRef {
    let number = Arc::new(Field::new(ROW, DataType::Int64, true));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain([number]).collect::<Vec<_>>()))
}

/// A table of these rows with a column that numbers them.
pub(super) fn numbered(schema: &SchemaRef, rows: Vec<RecordBatch>) -> Result<MemTable> {
    let schema = with_number(schema);
    let mut next = 0;
    let mut all = Vec::with_capacity(rows.len());
    for rows in rows {
        let first = next;
        next += rows.num_rows() as i64;
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..next));
        let columns = rows.columns().iter().cloned().chain([numbers]).collect();
        all.push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
    }
    MemTable::try_new(schema, vec![all]).map_err(engine_error)
}
