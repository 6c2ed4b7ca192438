//! Primary keys where SQL's standard has them, in `information_schema`, and in `pg_indexes`. DataFusion's own
//! `information_schema` cannot be added to; statements are pointed here by [`super::parts`].

/// Views of `pg_catalog` over its tables with keys.
pub(super) const VIEWS: [(&str, &str); 3] = [
    (
        "fleetdb_table_constraints",
        "SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, o.conname AS constraint_name, \
         current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, \
         'PRIMARY KEY' AS constraint_type, 'NO' AS is_deferrable, 'NO' AS initially_deferred, 'YES' AS enforced \
         FROM pg_catalog.pg_constraint o JOIN pg_catalog.pg_class c ON c.oid = o.conrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE o.contype = 'p'",
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
];
