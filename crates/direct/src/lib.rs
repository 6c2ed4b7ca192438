//! Writes that need no planning: they are analyzed once and then run over the engine's rows.
//!
//! 1. [`values`] is an INSERT of literals and parameters.
//! 2. [`keyed`] is a write that depends on the rows with given primary keys: ON CONFLICT, UPDATE and
//!    DELETE.
//! 3. [`cells`] are the values that both take: literals, parameters, and what each row gets anew.
//! 4. [`conflict`] says what an ON CONFLICT clause does, also as a query for the planner.
//! 5. [`primary_key`] names the columns of a table's primary key.
//!
//! Every other write is planned; the session in `fleetdb-query` decides.

pub mod cells;
pub mod conflict;
pub mod keyed;
pub mod primary_key;
pub mod values;
