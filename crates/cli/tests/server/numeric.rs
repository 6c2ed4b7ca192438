//! Decimal numbers arrive and return exactly.

use crate::clients::{is_there, says_that_all_is_well};
use crate::process::Server;
use std::process::Command;

#[test]
fn decimal_numbers_are_exact_on_the_wire() {
    if !is_there("python3", &["-c", "import psycopg"]) {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let script = include_str!("numeric.py");
    says_that_all_is_well(Command::new("python3").args(["-c", script, server.port("postgres")]));
    assert!(server.terminate());
}
