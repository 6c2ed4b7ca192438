//! SQL functions that DataFusion lacks, that it computes differently from PostgreSQL, or whose memory
//! it does not limit; the values that they read and write as texts; and errors in SQL's terms.
//!
//! 1. Functions for sensor fleets: time buckets in local time ([`bucket`], [`calendar`]), first and
//!    last values ([`first_last`]), averages over time and counters ([`series`]). Names and semantics
//!    follow TimescaleDB where it has the function.
//! 2. Functions as in PostgreSQL: times in a zone ([`at_time_zone`], [`date_trunc`], [`clocks`]);
//!    parts, texts and spans of times ([`date_part`], [`to_char`], [`spans`]); casts and comparisons
//!    ([`conversions`]); arrays ([`arrays`]); UUIDs ([`uuids`]); sums of integers ([`whole_sum`]); averages
//!    of decimals (`average`); histograms ([`width_bucket`]).
//! 3. Functions within limits: outputs that can be large reserve memory first ([`bounded`],
//!    [`concat_texts`], [`function_memory`]), nested calls of `coalesce` are counted ([`coalesce`]),
//!    and a long list of literals is one array ([`one_of`], [`list_literals`]).
//! 4. [`values`]: times, intervals, numbers and arrays as texts, and time zones.
//! 5. [`errors`] converts errors of DataFusion, Arrow and sqlparser; [`usages`] says how functions are
//!    called.
//!
//! [`register`] adds the functions that statements call. Rules of `fleetdb-plan` and
//! `fleetdb-postgres` insert calls of the others: those of [`clocks`], [`concat_texts`],
//! [`conversions`] and [`date_part`]. `docs/sql.md` has an example of each function that statements
//! call.

mod accumulators;
pub mod arguments;
mod arrays;
mod at_time_zone;
mod average;
mod bounded;
pub mod bucket;
pub mod calendar;
pub mod clocks;
mod coalesce;
pub mod concat_texts;
pub mod conversions;
pub mod date_part;
pub mod date_trunc;
pub mod errors;
pub mod expressions;
pub mod first_last;
mod format;
pub mod function_memory;
pub mod list_literals;
mod made_times;
pub mod names;
pub mod one_of;
pub mod one_value;
pub mod parameters;
pub mod planned_names;
pub mod quotient;
pub mod quoting;
mod series;
mod spans;
mod to_char;
mod type_names;
pub mod usages;
pub mod uuids;
pub mod values;
pub mod whole_sum;
mod width_bucket;
mod wrapped;

use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// PostgreSQL functions, and their names in DataFusion.
const SCALAR_NAMES: [(&str, &str); 5] = [
    ("ceiling", "ceil"),
    ("clock_timestamp", "now"),
    ("sign", "signum"),
    ("statement_timestamp", "now"),
    ("transaction_timestamp", "now"),
];
const AGGREGATE_NAMES: [(&str, &str); 2] = [("every", "bool_and"), ("variance", "var_samp")];

/// Registers the functions with a session.
///
/// # Errors
/// DataFusion rejects custom operators.
pub fn register(context: &SessionContext, made: &Arc<function_memory::FunctionMemory>) -> Result<(), DataFusionError> {
    context.register_udf(ScalarUDF::new_from_impl(to_char::ToChar::default()));
    quoting::functions().for_each(|function| context.register_udf(function));
    bounded::bound(context, made)?;
    context.register_udf(ScalarUDF::new_from_impl(format::Format::new(made)));
    context.register_udf(made_times::function());
    context.register_udf(type_names::function());
    context.register_udf(one_of::long_list(made));
    coalesce::bound(context)?;
    arrays::register(context)?;
    context.register_udf(ScalarUDF::new_from_impl(bucket::TimeBucket::default()));
    context.register_udf(ScalarUDF::new_from_impl(at_time_zone::AtTimeZone::default()));
    context.register_udf(ScalarUDF::new_from_impl(date_trunc::DateTrunc::default()));
    context.register_udf(width_bucket::function());
    spans::functions().for_each(|function| context.register_udf(function));
    for (name, of) in SCALAR_NAMES {
        context.register_udf(context.udf(of)?.as_ref().clone().with_aliases([name]));
    }
    context.register_udf(uuids::RandomUuid::new(context.udf("uuid")?).into());
    context.register_udaf(whole_sum::SUM.as_ref().clone());
    context.register_udaf(average::function());
    for (name, of) in AGGREGATE_NAMES {
        context.register_udaf(context.udaf(of)?.as_ref().clone().with_aliases([name]));
    }
    for function in first_last::functions() {
        context.register_udaf(AggregateUDF::new_from_impl(function));
    }
    for function in series::functions() {
        context.register_udaf(AggregateUDF::new_from_impl(function));
    }
    Ok(())
}
