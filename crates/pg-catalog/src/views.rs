//! PostgreSQL views that the crate lacks: primary keys in the standard's `information_schema`,
//! server activity, and empty views that tools query anyway. DataFusion's own `information_schema`
//! cannot be extended, so [`super::relations`] redirects statements here.

use super::activity;

/// Views and their queries.
const VIEWS: [(&str, &str); 8] = [
    (
        "fleetdb_table_constraints",
        "SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, o.conname AS constraint_name, \
         current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, \
         CASE o.contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'f' THEN 'FOREIGN KEY' ELSE 'CHECK' END AS constraint_type, 'NO' AS is_deferrable, 'NO' AS initially_deferred, 'YES' AS enforced \
         FROM pg_catalog.pg_constraint o JOIN pg_catalog.pg_class c ON c.oid = o.conrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE o.contype IN ('p', 'f', 'c')",
    ),
    (
        "fleetdb_key_column_usage",
        "SELECT current_database() AS constraint_catalog, k.nspname AS constraint_schema, k.conname AS constraint_name, \
         current_database() AS table_catalog, k.nspname AS table_schema, k.relname AS table_name, \
         a.attname AS column_name, arrow_cast(k.place, 'Int32') AS ordinal_position, \
         arrow_cast(NULL, 'Int32') AS position_in_unique_constraint \
         FROM (SELECT n.nspname, o.conname, c.relname, o.conrelid, \
               unnest(string_to_array(trim(o.conkey, '{}'), ',')) AS attnum, \
               unnest(range(1, c.key_columns + 1)) AS place \
               FROM pg_catalog.pg_constraint o JOIN (SELECT oid, relname, relnamespace, \
                    CAST(indnkeyatts AS BIGINT) AS key_columns FROM pg_catalog.pg_class \
                    JOIN pg_catalog.pg_index ON indrelid = oid AND indisprimary) c ON c.oid = o.conrelid \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE o.contype = 'p') k \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = CAST(k.attnum AS SMALLINT)",
    ),
    (
        "pg_indexes",
        "SELECT n.nspname AS schemaname, t.relname AS tablename, c.relname AS indexname, \
         arrow_cast(NULL, 'Utf8') AS tablespace, pg_get_indexdef(i.indexrelid) AS indexdef \
         FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
         JOIN pg_catalog.pg_class t ON t.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace",
    ),
    ("pg_database", "SELECT *, CAST(NULL AS TEXT) AS datcollversion FROM pg_catalog.fleetdb_own_pg_database"),
    (
        "pg_roles",
        // The session's user. Users and databases are created outside SQL.
        "SELECT CAST(10 AS INT) AS oid, \"session_user\"() AS rolname, fleetdb_is_admin() AS rolsuper, true AS rolinherit, \
         false AS rolcreaterole, false AS rolcreatedb, true AS rolcanlogin, false AS rolreplication, \
         CAST(-1 AS INT) AS rolconnlimit, '********' AS rolpassword, CAST(NULL AS TIMESTAMPTZ) AS rolvaliduntil, \
         false AS rolbypassrls, CAST(NULL AS TEXT) AS rolconfig",
    ),
    ("pg_stat_activity", activity::QUERY),
    ("pg_stat_all_tables", "SELECT * FROM pg_catalog.pg_stat_user_tables"),
    (
        "pg_user",
        "SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper, \
         rolreplication AS userepl, rolbypassrls AS usebypassrls, '********' AS passwd, rolvaliduntil AS valuntil, \
         rolconfig AS useconfig FROM pg_catalog.pg_roles",
    ),
];

/// Views that are always empty, with the names and types of their columns.
const EMPTY: [(&str, &str); 14] = [
    (
        "fleetdb_routines",
        "specific_catalog TEXT, specific_schema TEXT, specific_name TEXT, routine_catalog TEXT, routine_schema TEXT, \
         routine_name TEXT, routine_type TEXT, data_type TEXT, type_udt_catalog TEXT, type_udt_schema TEXT, \
         type_udt_name TEXT, routine_body TEXT, routine_definition TEXT, external_language TEXT",
    ),
    (
        "fleetdb_sequences",
        "sequence_catalog TEXT, sequence_schema TEXT, sequence_name TEXT, data_type TEXT, start_value TEXT, \
         minimum_value TEXT, maximum_value TEXT, increment TEXT, cycle_option TEXT",
    ),
    (
        "fleetdb_table_privileges",
        "grantor TEXT, grantee TEXT, table_catalog TEXT, table_schema TEXT, table_name TEXT, privilege_type TEXT, \
         is_grantable TEXT, with_hierarchy TEXT",
    ),
    (
        "fleetdb_triggers",
        "trigger_catalog TEXT, trigger_schema TEXT, trigger_name TEXT, event_manipulation TEXT, \
         event_object_catalog TEXT, event_object_schema TEXT, event_object_table TEXT, action_order INT, \
         action_condition TEXT, action_statement TEXT, action_orientation TEXT, action_timing TEXT, created TIMESTAMPTZ",
    ),
    (
        "pg_aggregate",
        "aggfnoid INT, aggkind TEXT, aggnumdirectargs SMALLINT, aggtransfn TEXT, aggfinalfn TEXT, aggsortop INT, \
         aggtranstype INT, aggtransspace INT, aggmtranstype INT, aggmtransspace INT, agginitval TEXT, aggminitval TEXT",
    ),
    ("pg_available_extensions", "name TEXT, default_version TEXT, installed_version TEXT, comment TEXT"),
    (
        "pg_locks",
        "locktype TEXT, database INT, relation INT, page INT, tuple SMALLINT, virtualxid TEXT, transactionid BIGINT, \
         classid INT, objid INT, objsubid SMALLINT, virtualtransaction TEXT, pid INT, mode TEXT, granted BOOLEAN, \
         fastpath BOOLEAN, waitstart TIMESTAMPTZ",
    ),
    (
        "pg_prepared_statements",
        "name TEXT, statement TEXT, prepare_time TIMESTAMPTZ, parameter_types TEXT, result_types TEXT, \
         from_sql BOOLEAN, generic_plans BIGINT, custom_plans BIGINT",
    ),
    ("pg_prepared_xacts", "transaction BIGINT, gid TEXT, prepared TIMESTAMPTZ, owner TEXT, database TEXT"),
    ("pg_rules", "schemaname TEXT, tablename TEXT, rulename TEXT, definition TEXT"),
    (
        "pg_sequences",
        "schemaname TEXT, sequencename TEXT, sequenceowner TEXT, data_type TEXT, start_value BIGINT, min_value BIGINT, \
         max_value BIGINT, increment_by BIGINT, cycle BOOLEAN, cache_size BIGINT, last_value BIGINT",
    ),
    (
        "pg_stat_database",
        "datid INT, datname TEXT, numbackends INT, xact_commit BIGINT, xact_rollback BIGINT, blks_read BIGINT, \
         blks_hit BIGINT, tup_returned BIGINT, tup_fetched BIGINT, tup_inserted BIGINT, tup_updated BIGINT, \
         tup_deleted BIGINT, conflicts BIGINT, temp_files BIGINT, temp_bytes BIGINT, deadlocks BIGINT, \
         blk_read_time DOUBLE, blk_write_time DOUBLE, stats_reset TIMESTAMPTZ",
    ),
    (
        "pg_stat_replication",
        "pid INT, usesysid INT, usename TEXT, application_name TEXT, client_addr TEXT, state TEXT, sent_lsn TEXT, \
         write_lsn TEXT, flush_lsn TEXT, replay_lsn TEXT, sync_state TEXT",
    ),
    (
        "pg_statio_all_tables",
        "relid INT, schemaname TEXT, relname TEXT, heap_blks_read BIGINT, heap_blks_hit BIGINT, idx_blks_read BIGINT, \
         idx_blks_hit BIGINT, toast_blks_read BIGINT, toast_blks_hit BIGINT, tidx_blks_read BIGINT, tidx_blks_hit BIGINT",
    ),
];

/// The query of a view; `None` if no view has this name.
pub(super) fn query(name: &str) -> Option<String> {
    if let Some((_, query)) = VIEWS.iter().find(|(view, _)| *view == name) {
        return Some((*query).to_owned());
    }
    let (_, columns) = EMPTY.iter().find(|(view, _)| *view == name)?;
    let columns = columns.split(", ").filter_map(|column| column.split_once(' '));
    let columns: Vec<_> = columns.map(|(name, of)| format!("CAST(NULL AS {of}) AS \"{name}\"")).collect();
    Some(format!("SELECT {} WHERE false", columns.join(", ")))
}

#[cfg(test)]
#[path = "views_tests.rs"]
mod tests;
