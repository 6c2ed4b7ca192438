//! UUIDs, times of day and JSON arrive and return as clients' own types.

use crate::clients::psycopg_says_that_all_is_well;

#[test]
fn uuids_times_and_json_are_the_client_s_own_types() {
    psycopg_says_that_all_is_well(include_str!("column_types.py"));
}
