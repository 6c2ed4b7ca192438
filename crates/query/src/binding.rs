//! The parameters of a prepared statement: its plan is kept, and its scans take the values when they begin.
//!
//! 1. While a statement is prepared, a table takes conditions with parameters over as it would with values
//!    ([`stand_in`]); the scan keeps them.
//! 2. Before each run the values and the view are set ([`Binding::set`]); a scan that begins puts the values into its
//!    conditions ([`Binding::put_in`]).

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Placeholder;
use fleetdb_engine::{TableId, TableSchema, View};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a run of a prepared statement sees.
struct Bound {
    view: View,
    values: Vec<ScalarValue>,
}

/// See the module.
pub(crate) struct Binding {
    bound: Mutex<Bound>,
    /// The tables that were planned with, as they were.
    tables: Mutex<Vec<Arc<TableSchema>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Binding {
    pub(crate) fn new(view: View) -> Arc<Self> {
        Arc::new(Self { bound: Mutex::new(Bound { view, values: Vec::new() }), tables: Mutex::default() })
    }

    /// Notes that a plan reads a table.
    pub(crate) fn note(&self, table: &Arc<TableSchema>) {
        lock(&self.tables).push(Arc::clone(table));
    }

    /// The tables that were planned with.
    pub(crate) fn tables(&self) -> Vec<TableId> {
        lock(&self.tables).iter().map(|table| table.id).collect()
    }

    /// Whether all tables are as they were when they were planned with.
    pub(crate) fn fits(&self, view: &View) -> bool {
        let same = |table: &Arc<TableSchema>| view.table(&table.name).is_ok_and(|now| Arc::ptr_eq(now.schema(), table));
        lock(&self.tables).iter().all(same)
    }

    /// Sets what the next run sees.
    pub(crate) fn set(&self, view: View, values: Vec<ScalarValue>) {
        *lock(&self.bound) = Bound { view, values };
    }

    /// The view of this run.
    pub(crate) fn view(&self) -> View {
        lock(&self.bound).view.clone()
    }

    /// A condition with this run's values in place of its parameters.
    pub(crate) fn put_in(&self, condition: &Expr) -> Result<Expr> {
        let bound = lock(&self.bound);
        let value = |placeholder: &Placeholder| bound.values.get(number(&placeholder.id)?).cloned();
        replaced(condition, value)
    }
}

/// The most parameters of a statement, as in PostgreSQL.
const MOST_PARAMETERS: usize = 65_535;

/// The place of a parameter's value: `$1` is the first.
pub(crate) fn number(parameter: &str) -> Option<usize> {
    let number = parameter.strip_prefix('$')?.parse::<usize>().ok()?;
    number.checked_sub(1).filter(|_| number <= MOST_PARAMETERS)
}

/// A condition with some value of the right type in place of its parameters: what a scan takes over does not depend on
/// the value.
pub(crate) fn stand_in(condition: &Expr) -> Result<Expr> {
    let value = |placeholder: &Placeholder| {
        let data_type = placeholder.field.as_ref()?.data_type();
        ScalarValue::new_default(data_type).ok()
    };
    replaced(condition, value)
}

/// Whether an expression has parameters.
pub(crate) fn has_parameters(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_)))).unwrap_or(true)
}

fn replaced(condition: &Expr, value: impl Fn(&Placeholder) -> Option<ScalarValue>) -> Result<Expr> {
    let replaced = condition.clone().transform(|expr| match &expr {
        Expr::Placeholder(placeholder) => match value(placeholder) {
            Some(value) => Ok(Transformed::yes(Expr::Literal(value, None))),
            None => Err(DataFusionError::Plan(format!("there is no value for parameter {}", placeholder.id))),
        },
        _ => Ok(Transformed::no(expr)),
    })?;
    Ok(replaced.data)
}
