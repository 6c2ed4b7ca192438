//! The functions of fleets: time buckets in local time, first and last values, averages over time, counters, and
//! GridDB's time-series operations.
//!
//! Names and meaning follow TimescaleDB where it has the function; `docs/sql.md` has an example of each.

pub(crate) mod at_time_zone;
mod bounded;
pub(crate) mod bucket;
pub(crate) mod calendar;
pub(crate) mod first_last;
mod interval;
mod one_group;
mod series;
mod time_rows;

use crate::asof::AsofMatch;
use crate::catalog::ViewTables;
use crate::gapfill;
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Makes the functions known to a session.
///
/// # Errors
/// DataFusion's, if it takes no operators.
pub(crate) fn register(context: &SessionContext, tables: &Arc<ViewTables>) -> Result<(), DataFusionError> {
    context.state_ref().write().register_expr_planner(Arc::new(interval::ScaleIntervals))?;
    for (name, function) in time_rows::functions(tables) {
        context.register_udtf(name, function);
    }
    bounded::bound(context)?;
    context.register_udf(ScalarUDF::new_from_impl(bucket::TimeBucket::default()));
    context.register_udf(ScalarUDF::new_from_impl(at_time_zone::AtTimeZone::default()));
    context.register_udf(ScalarUDF::new_from_impl(AsofMatch::default()));
    for function in gapfill::functions() {
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
    for function in first_last::functions() {
        context.register_udaf(AggregateUDF::new_from_impl(function));
    }
    for function in series::functions() {
        context.register_udaf(AggregateUDF::new_from_impl(function));
    }
    Ok(())
}

/// A mistake in how a function is called.
pub(crate) fn misuse(message: String) -> DataFusionError {
    DataFusionError::Plan(message)
}

/// How many of a timestamp type's unit are a second; `None` for other types.
pub(crate) fn per_second(data_type: &arrow::datatypes::DataType) -> Option<i64> {
    use arrow::datatypes::{DataType, TimeUnit};
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => Some(1),
        DataType::Timestamp(TimeUnit::Millisecond, _) => Some(1_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1_000_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(1_000_000_000),
        _ => None,
    }
}
