//! Parts of statements that clients send and DataFusion does not plan, and what says the same here.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// A word that a part has and other statements seldom do, the part, and what stands in its place.
const PARTS: [(&str, &str, &str); 10] = [
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
    // PostgreSQL's wiki asks so for the columns of a primary key.
    ("i.indkey", "ANY(i.indkey)", "ANY(CAST(string_to_array(i.indkey, ' ') AS SMALLINT[]))"),
    // The crate knows only its own tables without their schema.
    ("pg_cursors", "FROM pg_cursors", "FROM pg_catalog.pg_cursors"),
    ("information_schema.columns", "information_schema.columns", "pg_catalog.fleetdb_columns"),
];

/// The text with these parts replaced, in whatever case they are written.
pub(super) fn replaced(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let parts: Vec<_> = PARTS.iter().filter(|(word, ..)| lower.contains(word)).collect();
    let (false, Some(mut words)) = (parts.is_empty(), words(text)) else { return text.to_owned() };
    for (_, part, instead) in parts {
        let Some(part) = self::words(part) else { continue };
        words = replaced_in(&words, &part.to_ascii_lowercase(), instead);
    }
    words
}

fn replaced_in(words: &str, part: &str, instead: &str) -> String {
    let lower = words.to_ascii_lowercase();
    let (mut out, mut from) = (String::with_capacity(words.len()), 0);
    for (at, _) in lower.match_indices(part) {
        out.push_str(&words[from..at]);
        out.push_str(instead);
        from = at + part.len();
    }
    out.push_str(&words[from..]);
    out
}

/// The text's tokens with one space between them; `None` if it is not SQL.
fn words(text: &str) -> Option<String> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().ok()?;
    let tokens = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_)));
    Some(tokens.map(|token| token.to_string()).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
