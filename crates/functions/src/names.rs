//! Names of functions that need a permission. Other crates implement them, and decide by these names what
//! a statement may do.

/// Takes the next of the numbers that a table gives to its rows.
pub const NEXT_NUMBER: &str = "nextval";
/// The function that raises the numbers of a table.
pub const RAISE_NUMBERS: &str = "setval";
/// The function that names the numbers of a column.
pub const NAME_OF_NUMBERS: &str = "pg_get_serial_sequence";
/// Reads a Parquet file.
pub const READ_PARQUET: &str = "read_parquet";
/// Reads a CSV file.
pub const READ_CSV: &str = "read_csv";
