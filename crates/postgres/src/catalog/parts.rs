//! Replaces parts of clients' statements that DataFusion cannot plan with equivalents that it can.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// A word that occurs in the part but rarely in other statements, the part, and its replacement.
const PARTS: [(&str, &str, &str); 34] = [
    // Grafana asks for the schemas in the search path.
    (
        "current_setting",
        r#"SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM
           generate_series(array_lower(string_to_array(current_setting('search_path'),','),1),
                           array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
           string_to_array(current_setting('search_path'),',') s"#,
        "'public'",
    ),
    // JDBC's getBestRowIdentifier looks up a column's number in a key.
    (
        "_pg_expandarray",
        "(SELECT i.indexrelid, i.indrelid, i.indisprimary, information_schema._pg_expandarray(i.indkey) AS keys
          FROM pg_catalog.pg_index i) i ON (a.attnum = (i.keys).x",
        "pg_catalog.pg_index i ON (array_position(string_to_array(i.indkey, ' '), CAST(a.attnum AS VARCHAR)) IS NOT NULL",
    ),
    // JDBC's getIndexInfo returns a row for each column of an index. All of them ascend.
    (
        "_pg_expandarray",
        "(information_schema._pg_expandarray(i.indkey)).n AS ORDINAL_POSITION",
        "unnest(range(1, CAST(i.indnatts AS BIGINT) + 1)) AS ORDINAL_POSITION",
    ),
    (
        "_pg_expandarray",
        "CASE tmp.I_INDOPTION[tmp.ORDINAL_POSITION - 1] & 1::smallint WHEN 1 THEN 'D' ELSE 'A' END",
        "'A'",
    ),
    // JDBC's getPrimaryKeys joins columns with the column numbers of a key and their positions in
    // it.
    (
        "_pg_expandarray",
        "(information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ",
        "CAST(array_position(string_to_array(i.indkey, ' '), CAST(a.attnum AS VARCHAR)) AS INT) AS KEY_SEQ",
    ),
    ("_pg_expandarray", "information_schema._pg_expandarray(i.indkey) AS KEYS", "a.attnum AS KEYS"),
    ("_pg_expandarray", "result.A_ATTNUM = (result.KEYS).x", "result.KEY_SEQ IS NOT NULL"),
    // psql's \d+ combines a table's options with those of its TOAST table.
    (
        "reloptions",
        "pg_catalog.array_to_string(c.reloptions || array(select 'toast.' || x from pg_catalog.unnest(tc.reloptions) x), ', ')",
        "c.reloptions",
    ),
    // Ruby's pg: type functions are names here, not numbers.
    ("typinput", "ON ti.oid = t.typinput", "ON ti.proname = t.typinput"),
    // psql's \dT excludes types that belong to tables, and \dp lists the roles of policies: neither
    // exist here.
    ("typrelid", "(SELECT c.relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid)", "false"),
    ("polroles", "ANY (polroles)", "ANY (ARRAY[0])"),
    ("polroles", "polroles <> '{0}'", "false"),
    // TypeORM uses functions as tables.
    ("current_schema", "FROM current_schema()", "FROM (SELECT current_schema() AS current_schema) AS s"),
    ("current_database", "FROM current_database()", "FROM (SELECT current_database() AS current_database) AS d"),
    // Django asks for the columns of constraints and of indexes.
    (
        "with ordinality",
        "array(SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(colid, arridx)
               JOIN pg_attribute AS ca ON cols.colid = ca.attnum WHERE ca.attrelid = c.conrelid ORDER BY cols.arridx)",
        "string_to_array(trim(substr(pg_get_constraintdef(c.oid), 13), '()'), ', ')",
    ),
    (
        "with ordinality",
        "SELECT * FROM pg_index i, unnest(i.indkey, i.indoption) WITH ORDINALITY koi(key, option, arridx)",
        "SELECT i.*, unnest(i.indkey) AS key, 0 AS option, generate_subscripts(i.indkey, 1) AS arridx FROM pg_index i",
    ),
    // ActiveRecord: type functions are names here.
    ("regprocedure", "'array_in(cstring,oid,integer)'::regprocedure", "'array_in'"),
    // pgAdmin asks for a role's memberships and for columns of other tables: there are none.
    (
        "pg_signal_backend",
        "'pg_signal_backend'=ANY(ARRAY(WITH RECURSIVE cte AS (
            SELECT pg_roles.oid,pg_roles.rolname FROM pg_catalog.pg_roles WHERE pg_roles.oid = roles.oid
            UNION ALL
            SELECT m.roleid,pgr.rolname FROM cte cte_1
                JOIN pg_catalog.pg_auth_members m ON m.member = cte_1.oid
                JOIN pg_catalog.pg_roles pgr ON pgr.oid = m.roleid)
            SELECT rolname  FROM cte))",
        "false",
    ),
    (
        "pg_depend",
        "dep.refobjid NOT IN (SELECT d3.refobjid FROM pg_catalog.pg_depend d3 WHERE d3.objid=d2.refobjid)",
        "NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d3 WHERE d3.objid=d2.refobjid AND d3.refobjid = dep.refobjid)",
    ),
    (
        "a.deftype",
        "GROUP BY g.rolname, gt.rolname, a.deftype ORDER BY a.deftype",
        "GROUP BY g.rolname, gt.rolname, a.deftype",
    ),
    // Type names are unique here, and there are no foreign keys.
    ("isdup", "(SELECT count(1) FROM pg_catalog.pg_type t2 WHERE t2.typname=ty.typname) > 1", "false"),
    (
        "is_fk",
        "EXISTS(SELECT 1 FROM pg_catalog.pg_constraint WHERE conrelid=att.attrelid AND contype='f' AND att.attnum=ANY(conkey))",
        "false",
    ),
    // There is no inheritance between tables.
    (
        "coll_inherits",
        r"(SELECT ARRAY(SELECT CASE WHEN (nspname NOT LIKE 'pg\_%') THEN
                pg_catalog.quote_ident(nspname)||'.'||pg_catalog.quote_ident(c.relname)
                ELSE pg_catalog.quote_ident(c.relname) END AS inherited_tables
            FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhparent
            JOIN pg_catalog.pg_namespace n ON n.oid=c.relnamespace WHERE i.inhrelid = rel.oid ORDER BY inhseqno))",
        "CAST(make_array() AS TEXT[])",
    ),
    // This counts the non-key columns included in an index.
    (
        "generate_series(1, i.indnatts)",
        "pg_catalog.unnest(ARRAY(SELECT pg_catalog.generate_series(1, i.indnatts) AS n)) attnum",
        "pg_catalog.unnest(range(1, CAST(i.indnatts AS BIGINT) + 1)) attnum",
    ),
    (
        "current_schemas",
        "FROM pg_catalog.unnest(current_schemas(true)) AS schema",
        "FROM (SELECT 'public' AS schema) AS s",
    ),
    ("pg_available_extensions", "pg_available_extensions()", "pg_available_extensions"),
    // This queries settings through the function behind the view.
    ("pg_show_all_settings", "pg_show_all_settings()", "pg_settings"),
    ("table_constraints", "information_schema.table_constraints", "pg_catalog.fleetdb_table_constraints"),
    ("key_column_usage", "information_schema.key_column_usage", "pg_catalog.fleetdb_key_column_usage"),
    ("information_schema.columns", "information_schema.columns", "pg_catalog.fleetdb_columns"),
    ("information_schema.routines", "information_schema.routines", "pg_catalog.fleetdb_routines"),
    ("information_schema.sequences", "information_schema.sequences", "pg_catalog.fleetdb_sequences"),
    ("table_privileges", "information_schema.table_privileges", "pg_catalog.fleetdb_table_privileges"),
    ("information_schema.triggers", "information_schema.triggers", "pg_catalog.fleetdb_triggers"),
];

/// Replaces these parts in a text, whatever their case and spacing; returns the text unchanged if
/// there are none.
pub(super) fn replaced(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let parts: Vec<_> = PARTS.iter().filter(|(word, ..)| lower.contains(word)).collect();
    let (false, Some(mut words)) = (parts.is_empty(), words(text)) else { return text.to_owned() };
    let mut any = false;
    for (_, part, instead) in parts {
        let Some(part) = self::words(part) else { continue };
        // Compares token by token, so that a string literal with the same text is left alone.
        let mut from = 0;
        while let Some(at) = words[from..].windows(part.len()).position(|found| is_same(found, &part)) {
            words.splice(from + at..from + at + part.len(), [(*instead).to_owned()]);
            (from, any) = (from + at + 1, true);
        }
    }
    if any { words.join(" ") } else { text.to_owned() }
}

fn is_same(words: &[String], part: &[String]) -> bool {
    words.iter().zip(part).all(|(word, other)| word.eq_ignore_ascii_case(other))
}

/// The text's tokens; `None` if it cannot be tokenized.
fn words(text: &str) -> Option<Vec<String>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().ok()?;
    let tokens = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_)));
    Some(tokens.map(|token| token.to_string()).collect())
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
