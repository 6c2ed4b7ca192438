//! What depends on the types of a plan's expressions: [`typing`] gives types to parameters and texts,
//! [`operators`] adapts operators and casts, [`zones`] reads and writes times in the session's zone,
//! [`json`] adapts what is JSON, [`lateral_rows`] makes rows of an earlier table's columns,
//! [`mixed_times`] and [`utc_times`] tell what a time without a zone means, and
//! [`interval_operators`] plans arithmetic with intervals.

pub(crate) mod interval_operators;
mod json;
pub(crate) mod lateral_rows;
mod mixed_times;
mod one_value;
pub(crate) mod operators;
mod spans;
pub(crate) mod typing;
mod utc_times;
pub(crate) mod zones;
