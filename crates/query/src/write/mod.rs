//! Inserts, updates and deletes rows.
//!
//! 1. [`values`] runs INSERT with literals and parameters, without planning.
//! 2. [`keyed`] runs INSERT with ON CONFLICT, UPDATE and DELETE of rows that the statement names by
//!    their primary keys, without planning. [`cells`] are the values that both take.
//! 3. [`dml`] runs all other INSERTs ([`conflict`] if they have ON CONFLICT) and UPDATE; [`delete`]
//!    runs DELETE and TRUNCATE.
//! 4. [`merge`] runs MERGE by the queries of [`merge_query`].
//! 5. [`defaults`] are the values of columns that a statement does not give; [`casts`] puts casts around
//!    texts.
//! 6. [`returning`] is the RETURNING clause, which [`returned`] evaluates.
//! 7. [`temporary`] writes to temporary tables.
//! 8. [`guard`] holds the rows that a transaction's writes depend on; [`guarding`] reads and compares
//!    them.

pub(crate) mod casts;
pub(crate) mod cells;
pub(crate) mod conflict;
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
pub(crate) mod values;
