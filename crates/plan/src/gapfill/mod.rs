//! `time_bucket_gapfill`, `locf` and `interpolate`: one bucket for each step of the window, even
//! where there are no rows.
//!
//! 1. The three functions are only markers ([`markers`]); they are never evaluated.
//! 2. A rule finds a GROUP BY with `time_bucket_gapfill`, groups by `time_bucket` instead and puts
//!    [`node::GapFill`] above it ([`rule`]). The window comes from the WHERE clause or from
//!    arguments ([`crate::window`]).
//! 3. [`exec`] reads the groups in order of series and time and outputs the buckets of one series
//!    after another.
//!
//! Names and semantics follow TimescaleDB, with two exceptions: NULL always counts as a missing
//! value, and `'before'` requests the newest row before the window where TimescaleDB takes a
//! subquery.

mod exec;
mod markers;
mod node;
mod rule;
mod series;
mod shape;

pub(crate) use markers::functions;
pub(crate) use node::GapFill;
pub use rule::FillGaps;
