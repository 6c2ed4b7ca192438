//! SQL functions that DataFusion lacks, that it computes differently from PostgreSQL, or whose memory
//! it does not limit.
//!
//! 1. Functions for sensor fleets: time buckets in local time ([`bucket`], [`calendar`]), first and
//!    last values ([`first_last`]), averages over time and counters ([`series`]), GridDB's
//!    time-series operations ([`time_rows`]). Names and semantics follow TimescaleDB where it has the
//!    function.
//! 2. Functions as in PostgreSQL: times in a zone ([`at_time_zone`], [`date_trunc`], [`clocks`]);
//!    parts, texts and spans of times ([`date_part`], [`to_char`], [`spans`]); casts and comparisons
//!    ([`conversions`]); sums of integers ([`whole_sum`]); histograms ([`width_bucket`]).
//! 3. Functions within limits: outputs that can be large reserve memory first ([`bounded`],
//!    [`concat_texts`], [`function_memory`]), nested calls of `coalesce` are counted ([`coalesce`]),
//!    and a long list of literals is one array ([`one_of`], [`list_literals`]).
//!
//! [`register`] adds the functions that statements call. Rules of this crate and `fleetdb-postgres`
//! insert calls of the others: those of [`clocks`], [`concat_texts`], [`conversions`] and
//! [`date_part`]. `docs/sql.md` has an example of each function that statements call.

mod accumulators;
pub mod arguments;
pub(crate) mod at_time_zone;
mod bounded;
pub(crate) mod bucket;
pub(crate) mod calendar;
pub mod clocks;
mod coalesce;
pub mod concat_texts;
pub mod conversions;
pub mod date_part;
pub mod date_trunc;
pub(crate) mod first_last;
pub mod function_memory;
pub mod list_literals;
pub mod one_of;
mod series;
mod spans;
mod time_rows;
mod to_char;
pub(crate) mod whole_sum;
mod width_bucket;
mod wrapped;

use crate::asof::AsofMatch;
use crate::catalog::ViewTables;
use crate::gapfill;
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// PostgreSQL functions, and their names in DataFusion.
const SCALAR_NAMES: [(&str, &str); 6] = [
    ("ceiling", "ceil"),
    ("clock_timestamp", "now"),
    ("gen_random_uuid", "uuid"),
    ("sign", "signum"),
    ("statement_timestamp", "now"),
    ("transaction_timestamp", "now"),
];
const AGGREGATE_NAMES: [(&str, &str); 2] = [("every", "bool_and"), ("variance", "var_samp")];

/// Registers the functions with a session.
///
/// # Errors
/// DataFusion rejects custom operators.
pub fn register(
    context: &SessionContext,
    tables: &Arc<ViewTables>,
    made: &Arc<function_memory::FunctionMemory>,
) -> Result<(), DataFusionError> {
    for (name, function) in time_rows::functions(tables) {
        context.register_udtf(name, function);
    }
    context.register_udf(ScalarUDF::new_from_impl(to_char::ToChar::default()));
    bounded::bound(context, made)?;
    context.register_udf(one_of::long_list(made));
    coalesce::bound(context)?;
    context.register_udf(ScalarUDF::new_from_impl(bucket::TimeBucket::default()));
    context.register_udf(ScalarUDF::new_from_impl(at_time_zone::AtTimeZone::default()));
    context.register_udf(ScalarUDF::new_from_impl(date_trunc::DateTrunc::default()));
    context.register_udf(ScalarUDF::new_from_impl(AsofMatch::default()));
    context.register_udf(width_bucket::function());
    spans::functions().for_each(|function| context.register_udf(function));
    for (name, of) in SCALAR_NAMES {
        context.register_udf(context.udf(of)?.as_ref().clone().with_aliases([name]));
    }
    context.register_udaf(whole_sum::SUM.as_ref().clone());
    for (name, of) in AGGREGATE_NAMES {
        context.register_udaf(context.udaf(of)?.as_ref().clone().with_aliases([name]));
    }
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
