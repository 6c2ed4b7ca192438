//! `time_bucket_gapfill`, `locf` and `interpolate`: a bucket for each step of the window, with or without rows.
//!
//! 1. The three functions only mark what is meant ([`markers`]); they are never computed.
//! 2. A rule finds a GROUP BY with the first of them, groups by `time_bucket` instead and puts [`node::GapFill`] above
//!    ([`rule`]). The window is that of the WHERE clause, or given as arguments ([`crate::window`]).
//! 3. [`exec`] takes the groups in order of series and time and yields each series' buckets, one after the other.
//!
//! Names and meaning follow TimescaleDB, but for two things: a NULL is a missing value, and `'before'` asks for the
//! newest row before the window where TimescaleDB takes a subquery.

mod exec;
mod markers;
mod node;
mod rule;
mod series;

pub(crate) use markers::functions;
pub(crate) use node::GapFillPlanner;
pub(crate) use rule::FillGaps;
