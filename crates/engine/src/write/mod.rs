//! The way in: a batch of rows is checked against the schemas and put into the engine's form.
//!
//! 1. [`batch`]: what a caller hands over, Arrow record batches or rows for one or more tables.
//! 2. [`admit`]: each record batch becomes encoded keys, times and raw field columns, or is
//!    refused as a whole. Nothing is changed before every table of the batch is admitted.
//! 3. [`whole`]: rows that replace others as a whole, where a table merges fields.

pub(crate) mod admit;
pub mod batch;
pub(crate) mod whole;
