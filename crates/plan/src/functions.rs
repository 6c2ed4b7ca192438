//! Registers all functions with a session: those of `fleetdb-functions`, and those that need tables
//! or plan nodes.

use crate::asof::AsofMatch;
use crate::catalog::ViewTables;
use crate::{gapfill, numbers, time_rows};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;
use fleetdb_functions::function_memory::FunctionMemory;
use std::sync::Arc;

/// Registers the functions with a session.
///
/// # Errors
/// DataFusion rejects custom operators.
pub fn register(
    context: &SessionContext,
    tables: &Arc<ViewTables>,
    made: &Arc<FunctionMemory>,
) -> Result<(), DataFusionError> {
    fleetdb_functions::register(context, made)?;
    fleetdb_json::register(context, made)?;
    for (name, function) in time_rows::functions(tables) {
        context.register_udtf(name, function);
    }
    context.register_udf(ScalarUDF::new_from_impl(AsofMatch::default()));
    for function in numbers::functions(tables.store()) {
        context.register_udf(function);
    }
    for function in gapfill::functions() {
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
    Ok(())
}
