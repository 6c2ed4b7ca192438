//! Django's `get_constraints` asks for the columns of constraints and of indexes.

use super::Fragment;

pub(super) const FRAGMENTS: &[Fragment] = &[
    Fragment {
        text: "array(SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(colid, arridx)
            JOIN pg_attribute AS ca ON cols.colid = ca.attnum WHERE ca.attrelid = c.conrelid ORDER BY cols.arridx)",
        replacement: "string_to_array(trim(substr(pg_get_constraintdef(c.oid), 13), '()'), ', ')",
        blocked_by: "DataFusion has no WITH ORDINALITY",
        remove_when: "it has, and plans correlated subqueries that read unnest",
    },
    Fragment {
        text: "SELECT * FROM pg_index i, unnest(i.indkey, i.indoption) WITH ORDINALITY koi(key, option, arridx)",
        replacement: "SELECT i.*, unnest(i.indkey) AS key, 0 AS option, generate_subscripts(i.indkey, 1) AS arridx
            FROM pg_index i",
        blocked_by: "DataFusion has no WITH ORDINALITY",
        remove_when: "it has, and plans unnest of an earlier table's columns in FROM",
    },
];
