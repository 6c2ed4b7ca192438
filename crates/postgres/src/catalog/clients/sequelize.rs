//! Sequelize asks for the indexes of a table, and parses the names of their columns itself.

use super::Fragment;

pub(super) const FRAGMENTS: &[Fragment] = &[Fragment {
    text: "array_agg(a.attname) AS column_names",
    replacement: "'{' || string_agg(a.attname, ',') || '}' AS column_names",
    blocked_by: "names are texts, and node-postgres parses arrays of texts, but not those of PostgreSQL's type name",
    remove_when: "the catalog's names have the type name over the protocol",
}];
