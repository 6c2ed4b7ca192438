//! The parameters of a prepared statement. Its plan is kept, and its scans take the values when
//! they begin.
//!
//! 1. While a statement is prepared, a table accepts pushed-down conditions with parameters as if
//!    they had values ([`with_placeholders_filled`]). The scan keeps these conditions.
//! 2. Each run has exclusive use of the binding, with its values and view ([`Binding::bind`]). A
//!    scan that begins reads its conditions with them ([`Binding::current`]). Elsewhere in the plan,
//!    parameters are calls that return the value ([`Binding::value`]).

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Expr;
use fleetdb_engine::{TableId, TableSchema, View};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The view and values of one run of a prepared statement.
struct Bound {
    view: View,
    values: Vec<ScalarValue>,
}

/// Connects a cached plan to the values and view of its current run. See the module documentation.
#[derive(Default)]
pub struct Binding {
    /// `None` between runs, because a cached plan must not keep files or memtables alive.
    bound: Mutex<Option<Bound>>,
    /// The schemas of the tables that were planned with.
    tables: Mutex<Vec<Arc<TableSchema>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding").finish_non_exhaustive()
    }
}

/// Exclusive use of a binding by a run, until it is dropped.
pub struct BindingGuard(Arc<Binding>);

impl Drop for BindingGuard {
    fn drop(&mut self) {
        let bound = lock(&self.0.bound).take();
        // Dropping it may close files.
        drop(bound);
    }
}

impl Binding {
    /// Records that a plan reads a table.
    pub(crate) fn note(&self, table: &Arc<TableSchema>) {
        lock(&self.tables).push(Arc::clone(table));
    }

    /// The tables that the plan reads.
    pub fn tables(&self) -> Vec<TableId> {
        lock(&self.tables).iter().map(|table| table.id).collect()
    }

    /// Whether all tables still have the schemas they were planned with.
    pub fn fits(&self, view: &View) -> bool {
        let same = |table: &Arc<TableSchema>| view.table(&table.name).is_ok_and(|now| Arc::ptr_eq(now.schema(), table));
        lock(&self.tables).iter().all(same)
    }

    /// Gives the binding to a run with its view and values.
    ///
    /// # Errors
    /// Another run is using it; returns the values.
    pub fn bind(self: &Arc<Self>, view: View, values: Vec<ScalarValue>) -> Result<BindingGuard, Vec<ScalarValue>> {
        let mut bound = lock(&self.bound);
        if bound.is_some() {
            return Err(values);
        }
        *bound = Some(Bound { view, values });
        Ok(BindingGuard(Arc::clone(self)))
    }

    /// Gives the view and the values of the current run to `read`.
    ///
    /// # Errors
    /// No run is current, or those of `read`.
    pub(crate) fn current<T>(&self, read: impl FnOnce(&View, &[ScalarValue]) -> Result<T>) -> Result<T> {
        let bound = lock(&self.bound);
        let Bound { view, values } = bound.as_ref().ok_or_else(not_bound)?;
        read(view, values)
    }

    /// The value of a parameter in the current run.
    ///
    /// # Errors
    /// No run is current.
    pub fn value(&self, index: usize) -> Result<ScalarValue> {
        self.current(|_, values| values.get(index).cloned().ok_or_else(not_bound))
    }
}

fn not_bound() -> DataFusionError {
    DataFusionError::Internal("a plan runs that has no binding".to_owned())
}

/// Replaces the parameters in a condition with arbitrary values of the right types. Whether a scan
/// accepts a condition does not depend on the value.
pub(crate) fn with_placeholders_filled(condition: &Expr) -> Result<Expr> {
    let filled = condition.clone().transform(|expr| {
        let Expr::Placeholder(placeholder) = &expr else { return Ok(Transformed::no(expr)) };
        let value = placeholder.field.as_ref().and_then(|field| ScalarValue::new_default(field.data_type()).ok());
        let missing = || DataFusionError::Plan(format!("there is no value for parameter {}", placeholder.id));
        value.map(|value| Transformed::yes(Expr::Literal(value, None))).ok_or_else(missing)
    })?;
    Ok(filled.data)
}

/// Whether an expression contains parameters.
pub fn has_parameters(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_)))).unwrap_or(true)
}
