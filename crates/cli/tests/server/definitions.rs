//! Defaults, numbers, checks and views as a driver uses them.

use crate::clients::psycopg_says_that_all_is_well;

#[test]
fn definitions_hold_for_a_driver() {
    psycopg_says_that_all_is_well(include_str!("definitions.py"));
}
