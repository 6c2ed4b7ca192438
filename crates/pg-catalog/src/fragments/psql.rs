//! psql's `\d+` shows the options of a table and of its TOAST table.

use super::Fragment;

pub(super) const FRAGMENTS: &[Fragment] = &[Fragment {
    text: "pg_catalog.array_to_string(c.reloptions
        || array(select 'toast.' || x from pg_catalog.unnest(tc.reloptions) x), ', ')",
    replacement: "c.reloptions",
    blocked_by: "reloptions are a text, and DataFusion knows unnest in FROM only without a schema",
    remove_when: "they are an array, and a correlated subquery that reads pg_catalog.unnest is planned",
}];
