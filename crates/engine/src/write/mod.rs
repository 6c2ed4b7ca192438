//! Admission: checks a batch of rows against the schemas and converts it to the engine's form.
//!
//! 1. [`value`], [`batch`]: what a caller submits, Arrow record batches or rows for one or more tables.
//! 2. [`admit`]: converts each record batch to encoded keys, times and raw field columns, or
//!    refuses it as a whole. Nothing changes before every table of the batch is admitted.
//! 3. [`from_arrow`]: the values of Arrow arrays, also as rows.
//! 4. [`whole`]: rows that replace whole rows in a table that merges fields.

pub(crate) mod admit;
pub(crate) mod batch;
pub(crate) mod from_arrow;
pub(crate) mod value;
pub(crate) mod whole;
