//! Names of functions that need a permission. Other crates implement them, and decide by these names what
//! a statement may do.

/// Takes the next of the numbers that a table gives to its rows.
pub const NEXT_NUMBER: &str = "nextval";
/// Reads a Parquet file.
pub const READ_PARQUET: &str = "read_parquet";
/// Reads a CSV file.
pub const READ_CSV: &str = "read_csv";
