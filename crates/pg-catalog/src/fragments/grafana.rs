//! Grafana asks for the tables of the schemas in the search path.

use super::Fragment;

pub(super) const FRAGMENTS: &[Fragment] = &[Fragment {
    text: r#"SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM
        generate_series(array_lower(string_to_array(current_setting('search_path'),','),1),
            array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
        string_to_array(current_setting('search_path'),',') s"#,
    replacement: "'public'",
    blocked_by: "the crate replaces it with '', and DataFusion has no scalar functions in FROM",
    remove_when: "the crate leaves it alone, and DataFusion plans string_to_array in FROM",
}];
