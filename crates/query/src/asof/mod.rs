//! `ASOF JOIN`: each row with the latest row of another series at or before it.
//!
//! `a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.id = b.id`, as in Snowflake: all rows of `a` come, with NULLs
//! where nothing matches.
//!
//! 1. DataFusion's planner does not know the join: it is planned as a LEFT JOIN with a mark at the condition ([`syntax`]).
//! 2. A rule finds the mark and puts [`node::AsofJoin`] there, with the conditions of WHERE that narrow what is read of
//!    either side ([`rule`]).
//! 3. [`exec`] goes through both sides in order of key and time, once.

mod exec;
mod node;
mod rule;
mod syntax;

pub(crate) use node::AsofJoinPlanner;
pub(crate) use rule::PlanAsofJoins;
pub(crate) use syntax::{AsofMatch, mark_asof_joins};
