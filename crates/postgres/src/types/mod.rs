//! What depends on the types of a plan's expressions: [`typing`] gives types to parameters and texts,
//! [`operators`] adapts operators and casts, [`zones`] reads and writes times in the session's zone,
//! [`mixed_times`] and [`utc_times`] tell what a time without a zone means, and
//! [`interval_operators`] plans arithmetic with intervals.

pub(crate) mod interval_operators;
mod mixed_times;
pub(crate) mod operators;
pub(crate) mod typing;
mod utc_times;
pub(crate) mod zones;
