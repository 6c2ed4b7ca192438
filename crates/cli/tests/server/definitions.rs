//! Defaults, numbers, checks and views as a driver uses them.

use crate::clients::{is_there, says_that_all_is_well};
use crate::process::Server;
use std::process::Command;

#[test]
fn definitions_hold_for_a_driver() {
    if !is_there("python3", &["-c", "import psycopg"]) {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let script = include_str!("definitions.py");
    says_that_all_is_well(Command::new("python3").args(["-c", script, server.port("postgres")]));
    assert!(server.terminate());
}
