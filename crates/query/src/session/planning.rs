//! Plans statements and starts plans.

use crate::answer::Answer;
use crate::runtime::task_context;
use crate::session::Session;
use crate::session::planning_state::PlanningState;
use datafusion::error::Result as PlanResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{
    DataType, ExactNumberInfo, Expr, Query, Statement as SqlStatement, Value as Literal,
};
use fleetdb_engine::{Decimal, MAX_DECIMAL_DIGITS, Result};
use fleetdb_functions::errors::{engine_error, placed_error, query_error};
use fleetdb_plan::exact_numbers::with_exact_numbers;
use fleetdb_plan::limits::Watch;
use fleetdb_statement::Statement;
use fleetdb_statement::built;
use fleetdb_statement::depth::checked_size;
use fleetdb_statement::stack::with_stack;
use fleetdb_statement::walk::visit_expressions_mut;
use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError};

impl Session {
    /// Plans a query that the session made, over the current view.
    pub(crate) fn plan_query(&self, query: Query) -> Result<LogicalPlan> {
        let mut statement = SqlStatement::from(query);
        self.dialect.rewrite(None, &mut [&mut statement])?;
        self.plan_tree(statement)
    }

    /// Plans a statement that is already in forms that DataFusion plans, over the current view.
    pub(crate) fn plan_tree(&self, statement: SqlStatement) -> Result<LogicalPlan> {
        self.planned(ParsedStatement::Statement(Box::new(statement))).map_err(engine_error)
    }

    /// Plans a user's statement over the current view; errors include their location in its text.
    pub(crate) fn plan_statement(&self, statement: Statement) -> Result<LogicalPlan> {
        let statement = self.with_views(statement)?;
        let (levels, is_mixed) = (statement.tree().levels(), statement.is_mixed());
        let (tree, _held) = statement.into_parts();
        let planned = with_stack(levels, || self.planned(tree)).map_err(placed_error);
        planned.map_err(|error| if is_mixed { error.without_position() } else { error })
    }

    /// Plans a user's statement over the tables as they are now.
    pub(crate) fn plan_of(&self, statement: ParsedStatement) -> Result<LogicalPlan> {
        self.transaction().check()?;
        self.refresh()?;
        self.planned(statement).map_err(placed_error)
    }

    pub(super) fn planned(&self, mut statement: ParsedStatement) -> PlanResult<LogicalPlan> {
        // Mostly they are written out already, but may have changed since.
        match self.write_out_views(&mut statement, &self.views(), Vec::new()).map_err(query_error)? {
            Some(levels) => with_stack(levels, || self.planned_of_tables(statement)),
            None => self.planned_of_tables(statement),
        }
    }

    /// Plans a statement that names no views.
    fn planned_of_tables(&self, mut statement: ParsedStatement) -> PlanResult<LogicalPlan> {
        if let ParsedStatement::Statement(sql) = &mut statement {
            keep_long_numbers(sql);
        }
        let state = self.planning_state();
        let plan = self.runtime.block_on(state.statement_to_plan(statement)).and_then(checked_size)?;
        self.dialect.typed(with_exact_numbers(plan)?, self.zone.get(), &*state)
    }

    /// Starts a plan. Its rows are computed when the answer is read.
    pub(crate) fn start(&self, plan: LogicalPlan) -> Result<Answer> {
        self.start_watched(plan, self.limits.watch())
    }

    pub(crate) fn start_watched(&self, plan: LogicalPlan, watch: Watch) -> Result<Answer> {
        let stream = self.runtime.block_on(watch.until_stopped(self.rows_of_plan(plan)))?.map_err(engine_error)?;
        Ok(Answer::rows(stream, Arc::clone(&self.runtime), watch).holding(self.tables.shown()))
    }

    /// Starts a plan.
    pub(crate) async fn rows_of_plan(&self, plan: LogicalPlan) -> PlanResult<SendableRecordBatchStream> {
        let physical = match plan {
            LogicalPlan::Statement(_) => self.configured(plan).await?,
            plan => {
                let state = self.planning_state();
                let plan = self.optimizer.optimize(plan, &state)?;
                state.query_planner().create_physical_plan(&plan, &*state).await?
            }
        };
        execute_stream(physical, self.task_context())
    }

    /// Runs a statement that sets or resets a setting of DataFusion.
    async fn configured(&self, plan: LogicalPlan) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let answer = self.context.execute_logical_plan(plan).await;
        // It may have changed the setting even if it failed.
        self.planning.forget();
        let changed = task_context(&self.context.state());
        *self.tasks.lock().unwrap_or_else(PoisonError::into_inner) = changed;
        answer?.create_physical_plan().await
    }

    /// The state for planning a statement that begins now.
    pub(crate) fn planning_state(&self) -> PlanningState<'_> {
        self.planning.begin(&self.context)
    }

    /// Analyzes and optimizes a plan.
    pub(crate) fn optimized(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        self.optimizer.optimize(plan, &self.planning_state()).map_err(engine_error)
    }

    /// The context that plans run in.
    pub(crate) fn task_context(&self) -> Arc<TaskContext> {
        Arc::clone(&self.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A float holds every decimal number of this many digits.
const FLOAT_DIGITS: usize = 15;

/// Writes numbers whose digits a float would lose as decimal numbers.
fn keep_long_numbers(statement: &mut SqlStatement) {
    let _ = visit_expressions_mut(statement, |expr| {
        if let Expr::Value(literal) = expr
            && let Literal::Number(digits, false) = &literal.value
            && digits.len() > FLOAT_DIGITS
            && digits.contains(['.', 'e', 'E'])
            && let Some(number) = Decimal::read(digits)
        {
            let data_type = ExactNumberInfo::PrecisionAndScale(MAX_DECIMAL_DIGITS.into(), number.scale.into());
            let text = Expr::value(Literal::SingleQuotedString(digits.clone()));
            *expr = built::cast(text, DataType::Numeric(data_type));
        }
        ControlFlow::<()>::Continue(())
    });
}

#[cfg(test)]
#[path = "planning_tests.rs"]
mod tests;
