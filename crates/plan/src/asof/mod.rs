//! `ASOF JOIN`: joins each row with the latest row of another series at or before it.
//!
//! `a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.id = b.id`, as in Snowflake. Every row of `a`
//! is returned, with NULLs where nothing matches.
//!
//! 1. DataFusion's planner does not support the join, so it is planned as a LEFT JOIN whose
//!    condition contains a [`marker`].
//! 2. A rule finds the marker and replaces the join with [`node::AsofJoin`]. It also pushes down
//!    the WHERE conditions that narrow what each side reads ([`rule`]).
//! 3. [`exec`] merges both sides in order of key and time, in one pass.

mod exec;
pub mod marker;
mod matching;
mod node;
mod rule;

pub(crate) use marker::AsofMatch;
pub(crate) use node::AsofJoin;
pub use rule::PlanAsofJoins;
