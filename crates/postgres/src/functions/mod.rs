//! Functions to which casts, operators and date parts are planned where DataFusion's result differs
//! from PostgreSQL's. Statements do not name them.

pub(crate) mod clocks;
pub(crate) mod conversions;
pub(crate) mod date_part;
pub(crate) mod intervals;
