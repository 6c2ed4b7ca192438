//! Plans statements and starts plans.

use crate::answer::Answer;
use crate::runtime::task_context;
use crate::session::Session;
use crate::statement::Statement;
use crate::statement::depth::{UNCHECKED_LEVELS, checked_size};
use crate::statement::memory::StatementMemory;
use crate::statement::stack::Deep;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use fleetdb_engine::Result;
use fleetdb_plan::errors::{engine_error, placed_error};
use fleetdb_plan::limits::Watch;
use std::sync::{Arc, PoisonError};

impl Session {
    /// Plans an internal statement over the current view.
    pub(crate) fn plan(&self, sql: &str) -> Result<LogicalPlan> {
        let (state, statement) = (self.context.state(), self.parse_one(sql)?);
        let plan = state.statement_to_plan(statement.0.into_inner());
        let plan = self.runtime.block_on(plan).and_then(checked_size);
        plan.and_then(|plan| self.dialect.typed(plan, self.zone.get(), &state)).map_err(engine_error)
    }

    /// Plans a statement that is already in forms that DataFusion plans, over the current view.
    pub(crate) fn plan_tree(&self, statement: SqlStatement) -> Result<LogicalPlan> {
        let state = self.context.state();
        let plan = state.statement_to_plan(ParsedStatement::Statement(Box::new(statement)));
        let plan = self.runtime.block_on(plan).and_then(checked_size);
        plan.and_then(|plan| self.dialect.typed(plan, self.zone.get(), &state)).map_err(engine_error)
    }

    /// Plans a user's statement over the current view; errors include their location in its text.
    pub(crate) fn plan_statement(&self, statement: Statement) -> Result<LogicalPlan> {
        let state = self.context.state();
        let plan = state.statement_to_plan(statement.0.into_inner());
        let plan = self.runtime.block_on(plan).and_then(checked_size);
        plan.and_then(|plan| self.dialect.typed(plan, self.zone.get(), &state)).map_err(placed_error)
    }

    /// Plans a statement over the tables as they are now.
    pub(crate) fn plan_of(&self, statement: ParsedStatement) -> Result<LogicalPlan> {
        self.transaction().check()?;
        self.refresh()?;
        self.plan_statement(Statement(Deep::new(statement, UNCHECKED_LEVELS), StatementMemory::default()))
    }

    /// Starts a plan. Its rows are computed when the answer is read.
    pub(crate) fn start(&self, plan: LogicalPlan) -> Result<Answer> {
        self.start_watched(plan, self.limits.watch())
    }

    pub(crate) fn start_watched(&self, plan: LogicalPlan, watch: Watch) -> Result<Answer> {
        let may_configure = matches!(plan, LogicalPlan::Statement(_));
        let start = async {
            let physical = self.context.execute_logical_plan(plan).await?.create_physical_plan().await?;
            if may_configure {
                let changed = task_context(&self.context.state());
                *self.tasks.lock().unwrap_or_else(PoisonError::into_inner) = changed;
            }
            execute_stream(physical, self.task_context())
        };
        let stream = self.runtime.block_on(watch.until_stopped(start))?.map_err(engine_error)?;
        Ok(Answer::rows(stream, Arc::clone(&self.runtime), watch).holding(self.tables.shown()))
    }

    /// The context that plans run in.
    pub(crate) fn task_context(&self) -> Arc<TaskContext> {
        Arc::clone(&self.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
#[path = "planning_tests.rs"]
mod tests;
