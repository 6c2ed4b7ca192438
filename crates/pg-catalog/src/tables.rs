//! Names of tables that only FleetDB's own statements read.

/// The prefix for a crate table that is shadowed by a view of the same name.
pub(super) const OWN: &str = "fleetdb_own_";
/// The table of the sizes of tables.
pub(super) const SIZES_TABLE: &str = "fleetdb_sizes";
/// The table of tables that are visible only with their schema name.
pub(super) const HIDDEN_TABLE: &str = "fleetdb_hidden";
/// The table of the session's cursors.
pub(super) const CURSORS: &str = "pg_cursors";
/// The table of columns.
pub(super) const ATTRIBUTES: &str = "pg_attribute";
/// The table of relations.
pub(super) const CLASSES_TABLE: &str = "pg_class";
/// The prefix for a view that replaces a table of `information_schema`.
pub(super) const REPLACING: &str = "fleetdb_";

/// The tables, without the indexes that views add.
pub(super) const CLASSES: &str = "pg_catalog.fleetdb_own_pg_class c";

/// Restricts `pg_class c` to the user's tables.
pub(super) const OURS: &str = "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'";
