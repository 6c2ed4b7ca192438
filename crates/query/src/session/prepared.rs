//! Prepared statements: planned once, run many times.
//!
//! The physical plan is kept if it depends neither on the values of its parameters
//! ([`with_bound_parameters`]) nor on other values of the moment. A run then only binds the values
//! ([`Binding`]). Any other statement is planned again for each run with its values; those of table
//! functions are inserted into its text ([`table_parameters`](fleetdb_statement::table_parameters)). A plan
//! whose tables have changed is replaced.

use crate::answer::Answer;
use crate::session::Session;
use crate::session::parameter_values::{bound, exact, number_of, read_parameter, time, written};
use crate::session::parameters::with_bound_parameters;
use crate::session::prepared_query::{Kept, Plan, PreparedQuery};
use crate::write::delete::with_rows;
use crate::write::merge_query::MergeQuery;
use crate::write::temporary::pg_temp;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{Statement as SqlStatement, TableObject};
use fleetdb_engine::{Code, Error, Result, Value, View};
use fleetdb_functions::errors::engine_error;
use fleetdb_functions::parameters::number;
use fleetdb_functions::planned_names::written_names;
use fleetdb_kept_plans::KeptPlan;
use fleetdb_plan::binding::{Binding, BindingGuard};
use fleetdb_plan::limits::Watch;
use fleetdb_plan::table::FleetTable;
use fleetdb_statement::Statement;
use fleetdb_statement::clauses::returning_clause_mut;
use fleetdb_statement::depth::UNCHECKED_LEVELS;
use fleetdb_statement::memory::StatementMemory;
use fleetdb_statement::stack::Deep;
use fleetdb_statement::table_parameters::TableParameters;
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A prepared query; see [`Session::prepare`]. It borrows its session or owns a reference to it:
/// `Prepared<Arc<Session>>`.
pub struct Prepared<S = Arc<Session>> {
    session: S,
    query: PreparedQuery,
}

/// How a run of a prepared query proceeds.
enum Run {
    /// The cached plan, bound to the values.
    Kept(KeptRun),
    /// To be planned with these values.
    Planned(Vec<ScalarValue>),
    /// To be planned; the values are already in the text.
    Written(Statement),
}

/// A run of a cached plan.
struct KeptRun {
    root: Arc<dyn ExecutionPlan>,
    /// See [`Kept::renamed`].
    renamed: Option<SchemaRef>,
    in_use: BindingGuard,
}

impl Session {
    /// Prepares a query with parameters `$1`, `$2`, ...
    ///
    /// ```
    /// use fleetdb_engine::{Database, Settings, Value, io::{Io, MemoryStorage}};
    /// use fleetdb_query::Session;
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
    /// session.sql("CREATE TABLE t (id BIGINT, ts TIMESTAMP(0), v DOUBLE, PRIMARY KEY (id, ts))").unwrap();
    /// session.sql("INSERT INTO t VALUES (1, '2026-01-01', 0.5), (2, '2026-01-01', 1.5)").unwrap();
    /// let sum = session.prepare("SELECT sum(v) FROM t WHERE id = $1 AND ts >= $2").unwrap();
    /// for id in 1..=2 {
    ///     let rows = sum.query(&[Value::Int(id), Value::Text("2025-12-31".into())]).unwrap();
    ///     assert_eq!(rows[0].num_rows(), 1);
    /// }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if it is not a query or does not
    /// match the tables.
    pub fn prepare(&self, sql: &str) -> Result<Prepared<&Self>> {
        Prepared::new(self, self.parse_one(sql)?)
    }

    /// The parameter types of a statement that is planned for each run with its values; `None`
    /// where the statement does not determine the type.
    ///
    /// # Errors
    /// The statement does not match the tables, or cannot be planned without the values.
    pub fn parameter_types_of(&self, statement: &Statement) -> Result<Vec<Option<DataType>>> {
        self.begin_statement();
        statement.with_stack(|| self.parameter_types_in(statement))
    }

    fn parameter_types_in(&self, statement: &Statement) -> Result<Vec<Option<DataType>>> {
        let plan = self.without_clauses(statement).and_then(|statement| {
            self.refresh()?;
            self.plan_statement(statement)
        });
        self.tables.release();
        parameter_types(&plan?)
    }

    /// Removes clauses that DataFusion cannot plan from a statement that writes. They do not
    /// determine most parameter types.
    fn without_clauses(&self, statement: &Statement) -> Result<Statement> {
        let mut statement = statement.clone();
        if let ParsedStatement::Statement(sql) = &mut **statement.tree_mut() {
            returning_clause_mut(sql).and_then(Option::take);
            match sql.as_mut() {
                SqlStatement::Insert(insert) => {
                    (insert.on, insert.table_alias) = Default::default();
                    self.complete(insert)?;
                    if let TableObject::TableName(name) = &mut insert.table
                        && let Some(temporary) = self.temporary_named(name)
                    {
                        *name = pg_temp(&temporary.schema.name);
                    }
                }
                SqlStatement::Delete(delete) => {
                    if let (_, Some(rows)) = with_rows(delete.clone()) {
                        **sql = rows.into();
                        self.dialect.rewrite(None, &mut [sql])?;
                    }
                }
                SqlStatement::Merge(merge) => {
                    **sql = MergeQuery::of(merge)?.compared_with_columns(self)?.into();
                    self.dialect.rewrite(None, &mut [sql])?;
                }
                _ => {}
            }
        }
        Ok(statement)
    }
}

impl<S: Deref<Target = Session>> Prepared<S> {
    /// Prepares a query, as [`Session::prepare`] does.
    ///
    /// # Errors
    /// Those of [`Session::prepare`].
    pub fn new(session: S, statement: Statement) -> Result<Self> {
        let query = PreparedQuery::new(&session, statement)?;
        Ok(Self { session, query })
    }

    /// The types of the parameters `$1`, `$2`, ...; `None` where the statement does not determine
    /// the type.
    pub fn parameter_types(&self) -> Arc<[Option<DataType>]> {
        Arc::clone(&self.query.plan().types)
    }

    /// The columns of the result.
    pub fn schema(&self) -> SchemaRef {
        self.query.schema()
    }

    /// Whether the plan is kept, and the tables, the views and the session's zone are those that it was made for.
    pub fn is_current(&self) -> bool {
        self.query.is_current(&self.session)
    }

    /// Whether these values, which were [literals](crate::ComparedLiterals), mean the same as
    /// parameters, and whether a run with them needs no planning.
    pub fn takes_literals(&self, values: &[Value]) -> bool {
        self.query.takes_literals(values)
    }

    /// Runs the query with values for `$1`, `$2`, ...; an integer for a timestamp counts the
    /// column's unit. Empty batches are omitted, so an empty result has no batches.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if the values do not match the
    /// parameters, or an error of the engine.
    pub fn query(&self, values: &[Value]) -> Result<Vec<RecordBatch>> {
        self.start(values)?.collect()
    }

    /// Like [`query`](Self::query), but rows are computed when the answer is read. If the answer of
    /// the previous run is still being read, the new run is planned separately.
    ///
    /// # Errors
    /// Those of [`query`](Self::query).
    pub fn start(&self, values: &[Value]) -> Result<Answer> {
        self.query.start(&self.session, values)
    }

    /// Like [`start`](Self::start), but on the caller's own runtime, where the rows are then read
    /// with [`next_rows`](Answer::next_rows). `None` if there is no cached plan that is free.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn start_kept(&self, values: &[Value]) -> Result<Option<Answer>> {
        self.query.start_kept(&self.session, values)
    }
}

impl PreparedQuery {
    pub(crate) fn new(session: &Session, mut statement: Statement) -> Result<Self> {
        let of_tables = statement.table_parameters();
        session.begin_statement();
        let plan = statement.with_stack(|| Plan::new(session, &statement, &of_tables).map(Mutex::new))?;
        let levels = session.levels_with_views(&statement)?;
        let plan = Deep::new(plan, levels);
        // The owner of the prepared statement accounts for its memory.
        statement.give_back_memory();
        Ok(Self { statement, of_tables, plan })
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan().schema)
    }

    /// See [`Prepared::is_current`].
    pub(crate) fn is_current(&self, session: &Session) -> bool {
        let plan = self.plan();
        let fits = |kept: &Kept| session.glimpse(&kept.tables).is_ok_and(|view| kept.binding.fits(&view));
        !self.has_moved(session, &plan) && plan.kept.as_ref().is_some_and(fits)
    }

    /// See [`Prepared::takes_literals`].
    pub(crate) fn takes_literals(&self, values: &[Value]) -> bool {
        let plan = self.plan();
        let is_same = |(value, data_type): (&Value, &Option<DataType>)| match (value, data_type) {
            (Value::Int(_), Some(data_type)) => data_type.is_numeric(),
            (Value::Text(_), Some(data_type)) => matches!(data_type, DataType::Utf8 | DataType::Timestamp(..)),
            _ => false,
        };
        let names_parameter = plan.schema.fields().iter().any(|field| field.name().contains('$'));
        plan.kept.is_some()
            && !names_parameter
            && values.len() == plan.types.len()
            && values.iter().zip(&*plan.types).all(is_same)
    }

    /// Whether a name or a time in the query may mean something else than when it was planned.
    fn has_moved(&self, session: &Session, plan: &Plan) -> bool {
        plan.zone != session.zone()
            || plan.views != session.store.stored_queries()
            || !session.temporaries.now().keys().eq(&plan.temporaries)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Prepared::start`].
    pub(crate) fn start(&self, session: &Session, values: &[Value]) -> Result<Answer> {
        let started = self.statement.with_stack(|| self.start_shallow(session, values));
        let made = session.made.take();
        started.map(|answer| answer.of_levels(self.plan.levels()).charged_to((StatementMemory::default(), made)))
    }

    fn start_shallow(&self, session: &Session, values: &[Value]) -> Result<Answer> {
        session.begin_statement();
        let watch = session.limits.watch();
        let plan = match self.bind(session, values, true)? {
            Run::Kept(kept) => return Self::execute(session, kept, watch),
            Run::Planned(values) => Self::planned(session, self.statement.clone())
                .and_then(|plan| plan.with_param_values(values).map_err(engine_error)),
            Run::Written(statement) => Self::planned(session, statement),
        };
        let started = plan.and_then(|plan| session.start_watched(plan, watch));
        session.tables.release();
        started
    }

    /// Plans a statement over the tables as they are now.
    fn planned(session: &Session, statement: Statement) -> Result<LogicalPlan> {
        session.refresh()?;
        session.plan_statement(statement)
    }

    /// See [`Prepared::start_kept`].
    pub(crate) fn start_kept(&self, session: &Session, values: &[Value]) -> Result<Option<Answer>> {
        // A deep plan needs a stack of its own.
        if self.plan.levels() > 2 * UNCHECKED_LEVELS {
            return Ok(None);
        }
        let Run::Kept(kept) = self.bind(session, values, false)? else { return Ok(None) };
        session.begin_statement();
        let answer = Self::execute(session, kept, session.limits.watch())?;
        Ok(Some(answer.charged_to((StatementMemory::default(), session.made.take()))))
    }

    fn execute(session: &Session, run: KeptRun, watch: Watch) -> Result<Answer> {
        let KeptRun { root, renamed, in_use } = run;
        // Scans may start as soon as the plan does.
        let _entered = session.runtime.enter();
        let rows = execute_stream(root, session.task_context()).map_err(engine_error)?;
        Ok(Answer::renamed_to(renamed, rows, Arc::clone(&session.runtime), watch).holding(in_use))
    }

    /// Binds the cached plan to these values, if it exists, is not in use and matches the current
    /// tables. If the tables have changed, it is planned again, provided that `may_plan` is set.
    fn bind(&self, session: &Session, values: &[Value], may_plan: bool) -> Result<Run> {
        let mut plan = self.plan();
        let mut view = self.view_of(session, &plan)?;
        let (zone, has_moved) = (session.zone(), self.has_moved(session, &plan));
        if has_moved && !may_plan {
            return Ok(Run::Planned(Vec::new()));
        }
        if has_moved || may_plan && plan.kept.is_some() && view.is_none() {
            *plan = Plan::new(session, &self.statement, &self.of_tables)?;
            view = self.view_of(session, &plan)?;
        }
        if values.len() != plan.types.len() {
            return Err(Error::invalid(format!(
                "the statement has {} parameters, not {}",
                plan.types.len(),
                values.len()
            )));
        }
        let typed = values.iter().zip(&*plan.types).enumerate();
        if !self.of_tables.is_empty() {
            let values = typed.map(|(number, (value, data_type))| written(number, value, data_type.as_ref(), zone));
            return Ok(Run::Written(self.statement.with_values(&values.collect::<Result<Vec<_>>>()?)?));
        }
        let mut is_outside = false;
        let values = typed.map(|(number, (value, data_type))| match (value, data_type) {
            (Value::Text(text), Some(to @ DataType::Timestamp(..))) => {
                let (exact, read) = read_parameter(number, text, to, zone, plan.bounds.contains(&number))?;
                is_outside |= exact != *to || read.far().is_some();
                Ok(match (read.bound(), exact) {
                    (Some(count), DataType::Timestamp(unit, of)) => time(count, unit, of),
                    _ => ScalarValue::Null,
                })
            }
            // A number that has other digits than the type is compared as it is.
            (_, Some(DataType::Decimal128(precision, scale))) => match exact(value, *precision, *scale) {
                Some(exact) => Ok(exact),
                None => {
                    is_outside = true;
                    let value = number_of(value);
                    // Rows of another type than decimal would not be those that clients were told of.
                    let data_type = (!matches!(value, Value::Decimal(_))).then_some(data_type.as_ref()).flatten();
                    bound(number, &value, data_type, zone)
                }
            },
            _ => bound(number, value, data_type.as_ref(), zone),
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let (Some(Kept { binding, in_scans, plan, renamed, .. }), Some(view)) = (&plan.kept, view) else {
            return Ok(Run::Planned(values));
        };
        // A scan cannot apply a condition that contains NULL.
        let has_null = in_scans.iter().any(|place| values.get(*place).is_none_or(ScalarValue::is_null));
        // Nor one with a time that the column's type does not have.
        if has_null || is_outside {
            return Ok(Run::Planned(values));
        }
        let in_use = match binding.bind(view, values) {
            Ok(in_use) => in_use,
            Err(values) => return Ok(Run::Planned(values)),
        };
        let (root, renamed) = (plan.next_run().map_err(engine_error)?, renamed.clone());
        Ok(Run::Kept(KeptRun { root, renamed, in_use }))
    }

    /// The view for a cached plan; `None` if its tables have changed.
    fn view_of(&self, session: &Session, plan: &Plan) -> Result<Option<View>> {
        let Some(Kept { binding, tables, .. }) = &plan.kept else { return Ok(None) };
        let view = session.current(Some(tables))?;
        Ok(binding.fits(&view).then_some(view))
    }
}

impl Plan {
    fn new(session: &Session, statement: &Statement, of_tables: &TableParameters) -> Result<Self> {
        session.refresh()?;
        let binding = Arc::default();
        session.tables.bind(Some(Arc::clone(&binding)));
        let plan = Self::bound_to(session, statement, of_tables, &binding);
        session.tables.bind(None);
        session.tables.release();
        plan
    }

    fn bound_to(
        session: &Session,
        statement: &Statement,
        of_tables: &TableParameters,
        binding: &Arc<Binding>,
    ) -> Result<Self> {
        let (views, temporaries) = (session.views(), session.temporaries.now().keys().cloned().collect());
        let logical = session.plan_statement(statement.without_table_parameters())?;
        let schema = Arc::new(logical.schema().as_arrow().clone());
        if matches!(
            logical,
            LogicalPlan::Dml(_) | LogicalPlan::Ddl(_) | LogicalPlan::Copy(_) | LogicalPlan::Statement(_)
        ) {
            return Err(Error::new(
                Code::NotSupported,
                "only queries can be prepared: run other statements as they are",
            ));
        }
        let (mut types, zone, bounds) = (parameter_types(&logical)?, session.zone(), compared_only(&logical)?);
        if !of_tables.is_empty() {
            types.resize(statement.parameters(), None);
            for (place, data_type) in of_tables {
                types[*place] = data_type.clone().or(types[*place].take());
            }
            return Ok(Self {
                types: types.into(),
                schema,
                zone,
                views,
                temporaries,
                bounds,
                kept: None,
                _made: session.made.take(),
            });
        }
        let of_the_moment = has_functions_of_the_moment(&logical);
        let optimized = session.optimized(logical)?;
        let can_be_kept = !of_the_moment && reads_only_tables(&optimized);
        let bound = if can_be_kept { with_bound_parameters(&optimized, binding).map_err(engine_error)? } else { None };
        let kept = match bound {
            Some(bound) => {
                let state = session.planning_state();
                let physical = session.runtime.block_on(state.query_planner().create_physical_plan(&bound, &*state));
                // Where a plan needs a constant, each run is planned with its values.
                physical.and_then(KeptPlan::new).ok().map(|plan| Kept {
                    binding: Arc::clone(binding),
                    tables: binding.tables(),
                    in_scans: in_scans(&optimized),
                    renamed: written_names(&plan.schema()),
                    plan,
                })
            }
            None => None,
        };
        let types = types.into();
        Ok(Self { types, schema, zone, views, temporaries, bounds, kept, _made: session.made.take() })
    }
}

/// The types of a plan's parameters, in order.
fn parameter_types(plan: &LogicalPlan) -> Result<Vec<Option<DataType>>> {
    let mut types = Vec::new();
    for (name, data_type) in plan.get_parameter_types().map_err(engine_error)? {
        let place = number(&name).ok_or_else(|| Error::invalid(format!("parameter {name}: write $1, $2, ...")))?;
        types.resize(types.len().max(place + 1), None);
        types[place] = data_type;
    }
    Ok(types)
}

/// Whether every scan reads a table. The rows of other sources, such as system tables and table
/// functions, are fixed in the plan.
fn reads_only_tables(plan: &LogicalPlan) -> bool {
    let mut does = true;
    let looked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            does &= source_as_provider(&scan.source).is_ok_and(|table| table.downcast_ref::<FleetTable>().is_some());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    looked.is_ok() && does
}

/// The parameters in conditions that scans take.
fn in_scans(plan: &LogicalPlan) -> HashSet<usize> {
    let mut parameters = HashSet::new();
    // Looking at expressions does not fail.
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            for filter in &scan.filters {
                filter.apply(|expr| {
                    if let Expr::Placeholder(placeholder) = expr {
                        parameters.extend(number(&placeholder.id));
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .ok();
    parameters
}

/// Whether a plan, before optimization, contains functions that the optimizer replaces by their
/// current value, such as now().
fn has_functions_of_the_moment(plan: &LogicalPlan) -> bool {
    let is_one = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) => Ok(call.func.signature().volatility == Volatility::Stable),
        _ => Ok(false),
    };
    let mut has = false;
    let looked = plan.apply_with_subqueries(|node| {
        has |= node.expressions().iter().any(|expr| expr.exists(is_one).unwrap_or(true));
        Ok(TreeNodeRecursion::Continue)
    });
    looked.is_err() || has
}

/// The parameters that occur only as operands of comparisons.
fn compared_only(plan: &LogicalPlan) -> Result<HashSet<usize>> {
    let (mut compared, mut all) = (HashMap::new(), HashMap::new());
    let looked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                let sides: Vec<&Expr> = match expr {
                    Expr::BinaryExpr(of) if of.op.supports_propagation() => vec![&of.left, &of.right],
                    Expr::Between(of) => vec![&of.low, &of.high],
                    Expr::InList(of) => of.list.iter().collect(),
                    Expr::Placeholder(placeholder) => {
                        *all.entry(number(&placeholder.id)).or_insert(0) += 1;
                        Vec::new()
                    }
                    _ => Vec::new(),
                };
                for side in sides {
                    if let Expr::Placeholder(placeholder) = side {
                        *compared.entry(number(&placeholder.id)).or_insert(0) += 1;
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    looked.map_err(engine_error)?;
    let is_only = |(place, count): (Option<usize>, i32)| place.filter(|_| all.get(&place) == Some(&count));
    Ok(compared.into_iter().filter_map(is_only).collect())
}
