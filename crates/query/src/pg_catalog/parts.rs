//! Parts of statements that clients send and DataFusion does not plan, and what says the same here.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// A word that a part has and other statements seldom do, the part, and what stands in its place.
const PARTS: [(&str, &str, &str); 20] = [
    // Grafana asks which schemas are searched.
    (
        "current_setting",
        r#"SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM
           generate_series(array_lower(string_to_array(current_setting('search_path'),','),1),
                           array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
           string_to_array(current_setting('search_path'),',') s"#,
        "'public'",
    ),
    // JDBC's getBestRowIdentifier looks for a column's number in a key's.
    (
        "_pg_expandarray",
        "(SELECT i.indexrelid, i.indrelid, i.indisprimary, information_schema._pg_expandarray(i.indkey) AS keys
          FROM pg_catalog.pg_index i) i ON (a.attnum = (i.keys).x",
        "pg_catalog.pg_index i ON (array_position(string_to_array(i.indkey, ' '), CAST(a.attnum AS VARCHAR)) IS NOT NULL",
    ),
    // JDBC's getIndexInfo has a row for each of an index' columns, all of which rise.
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
    // JDBC's getPrimaryKeys joins columns with the numbers of a key's, each with its place there.
    (
        "_pg_expandarray",
        "(information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ",
        "CAST(array_position(string_to_array(i.indkey, ' '), CAST(a.attnum AS VARCHAR)) AS INT) AS KEY_SEQ",
    ),
    ("_pg_expandarray", "information_schema._pg_expandarray(i.indkey) AS KEYS", "a.attnum AS KEYS"),
    ("_pg_expandarray", "result.A_ATTNUM = (result.KEYS).x", "result.KEY_SEQ IS NOT NULL"),
    // psql's \d+ has a table's options with those of what it keeps beside it.
    (
        "reloptions",
        "pg_catalog.array_to_string(c.reloptions || array(select 'toast.' || x from pg_catalog.unnest(tc.reloptions) x), ', ')",
        "c.reloptions",
    ),
    // PostgreSQL's wiki asks so for the columns of a primary key.
    ("i.indkey", "ANY(i.indkey)", "ANY(CAST(string_to_array(i.indkey, ' ') AS SMALLINT[]))"),
    // Ruby's pg: the functions of types are names here, not numbers.
    ("typinput", "ON ti.oid = t.typinput", "ON ti.proname = t.typinput"),
    // psql's \dT asks which types are no tables, and \dp for the roles of policies: there are none of either.
    ("typrelid", "(SELECT c.relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid)", "false"),
    ("polroles", "ANY (polroles)", "ANY (ARRAY[0])"),
    ("polroles", "polroles <> '{0}'", "false"),
    // TypeORM asks functions as if they were tables.
    ("current_schema", "FROM current_schema()", "FROM (SELECT current_schema() AS current_schema) AS s"),
    ("current_database", "FROM current_database()", "FROM (SELECT current_database() AS current_database) AS d"),
    // The crate knows only its own tables without their schema.
    ("pg_cursors", "FROM pg_cursors", "FROM pg_catalog.pg_cursors"),
    ("pg_indexes", "FROM pg_indexes", "FROM pg_catalog.pg_indexes"),
    ("table_constraints", "information_schema.table_constraints", "pg_catalog.fleetdb_table_constraints"),
    ("key_column_usage", "information_schema.key_column_usage", "pg_catalog.fleetdb_key_column_usage"),
    ("information_schema.columns", "information_schema.columns", "pg_catalog.fleetdb_columns"),
];

/// The text with these parts replaced, in whatever case and with whatever spaces they are written; as it is without any.
pub(super) fn replaced(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let parts: Vec<_> = PARTS.iter().filter(|(word, ..)| lower.contains(word)).collect();
    let (false, Some(mut words)) = (parts.is_empty(), words(text)) else { return text.to_owned() };
    let mut any = false;
    for (_, part, instead) in parts {
        let Some(part) = self::words(part) else { continue };
        // Word by word, so that a string that happens to say the same is left alone.
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

/// The text's tokens; `None` if it is not SQL.
fn words(text: &str) -> Option<Vec<String>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().ok()?;
    let tokens = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_)));
    Some(tokens.map(|token| token.to_string()).collect())
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
