//! Decimal numbers arrive and return exactly.

use crate::clients::psycopg_says_that_all_is_well;

#[test]
fn decimal_numbers_are_exact_on_the_wire() {
    psycopg_says_that_all_is_well(include_str!("numeric.py"));
}
