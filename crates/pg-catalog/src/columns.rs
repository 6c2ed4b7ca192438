//! PostgreSQL's `information_schema.columns`, with PostgreSQL's type names and positions counted
//! from 1. DataFusion's view of that name has Arrow types and cannot be replaced, so
//! [`super::relations`] redirects statements here.

use super::constraints::DEFAULTS;

/// The name of the view in `pg_catalog`.
pub(super) const NAME: &str = "fleetdb_columns";

/// Arrow types, as LIKE patterns for their beginnings, each with PostgreSQL's two names. Clients
/// receive values of these types.
const TYPES: [(&str, &str, &str); 26] = [
    ("Boolean", "boolean", "bool"),
    ("Int8", "smallint", "int2"),
    ("Int16", "smallint", "int2"),
    ("UInt8", "smallint", "int2"),
    ("Int32", "integer", "int4"),
    ("UInt16", "integer", "int4"),
    ("Int64", "bigint", "int8"),
    ("UInt32", "bigint", "int8"),
    ("UInt64", "numeric", "numeric"),
    ("Decimal", "numeric", "numeric"),
    ("Float32", "real", "float4"),
    ("Float64", "double precision", "float8"),
    ("Timestamp(%, \"", "timestamp with time zone", "timestamptz"),
    ("Timestamp", "timestamp without time zone", "timestamp"),
    ("Time64", "time without time zone", "time"),
    ("FixedSizeBinary(16", "uuid", "uuid"),
    ("Date", "date", "date"),
    ("Binary", "bytea", "bytea"),
    ("Utf8", "text", "text"),
    ("List(Boolean", "ARRAY", "_bool"),
    ("List(Int16", "ARRAY", "_int2"),
    ("List(Int32", "ARRAY", "_int4"),
    ("List(Int64", "ARRAY", "_int8"),
    ("List(Float32", "ARRAY", "_float4"),
    ("List(Float64", "ARRAY", "_float8"),
    ("List(Utf8", "ARRAY", "_text"),
];

/// Columns that DataFusion's view lacks, each with the value all rows have.
const MISSING: [(&str, &str); 16] = [
    ("udt_catalog", "table_catalog"),
    ("collation_name", "CAST(NULL AS TEXT)"),
    ("character_set_name", "CAST(NULL AS TEXT)"),
    ("domain_name", "CAST(NULL AS TEXT)"),
    ("dtd_identifier", "CAST(ordinal_position + 1 AS TEXT)"),
    ("is_self_referencing", "'NO'"),
    ("is_identity", "CASE WHEN is_always THEN 'YES' ELSE 'NO' END"),
    ("identity_generation", "CASE WHEN is_always THEN 'ALWAYS' END"),
    ("identity_start", "CAST(NULL AS TEXT)"),
    ("identity_increment", "CAST(NULL AS TEXT)"),
    ("identity_maximum", "CAST(NULL AS TEXT)"),
    ("identity_minimum", "CAST(NULL AS TEXT)"),
    ("identity_cycle", "'NO'"),
    ("is_generated", "'NEVER'"),
    ("generation_expression", "CAST(NULL AS TEXT)"),
    ("is_updatable", "'YES'"),
];

/// The query of the view.
pub(super) fn query() -> String {
    let names = |name: fn(&(&str, &'static str, &'static str)) -> &'static str| {
        let cases = TYPES.iter().map(|of| format!("WHEN data_type LIKE '{}%' THEN '{}'", of.0, name(of)));
        format!("CASE {} ELSE data_type END", cases.collect::<Vec<_>>().join(" "))
    };
    let missing = MISSING.map(|(column, value)| format!(", {value} AS {column}")).concat();
    format!(
        "SELECT table_catalog, table_schema, table_name, column_name, \
         arrow_cast(ordinal_position + 1, 'Int32') AS ordinal_position, default_value AS column_default, is_nullable, \
         {} AS data_type, character_maximum_length, character_octet_length, numeric_precision, numeric_precision_radix, \
         numeric_scale, datetime_precision, interval_type, 'pg_catalog' AS udt_schema, {} AS udt_name{missing} \
         FROM information_schema.columns LEFT JOIN pg_catalog.{DEFAULTS} \
         ON default_table = table_name AND default_column = column_name AND table_schema = 'public'",
        names(|of| of.1),
        names(|of| of.2),
    )
}
