//! Inserts, updates and deletes rows.
//!
//! 1. [`keyed`] runs the writes of `fleetdb-direct`, which need no planning.
//! 2. [`dml`] runs all other INSERTs and UPDATE; [`delete`] runs DELETE and TRUNCATE.
//! 3. [`merge`] runs MERGE by the queries of [`merge_query`].
//! 4. [`defaults`] are the values of columns that a statement does not give; [`casts`] puts casts around
//!    texts.
//! 5. [`returning`] is the RETURNING clause, which [`returned`] evaluates.
//! 6. [`temporary`] writes to temporary tables.
//! 7. [`guard`] holds the rows that a transaction's writes depend on; [`guarding`] reads and compares
//!    them.

pub(crate) mod casts;
pub(crate) mod defaults;
pub(crate) mod delete;
pub(crate) mod dml;
pub(crate) mod guard;
pub(crate) mod guarding;
pub(crate) mod keyed;
pub(crate) mod merge;
pub(crate) mod merge_query;
pub(crate) mod not_null;
pub(crate) mod returned;
pub(crate) mod returning;
pub(crate) mod rows;
pub(crate) mod temporary;
