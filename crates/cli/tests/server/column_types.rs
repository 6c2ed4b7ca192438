//! UUIDs, times of day and JSON arrive and return as clients' own types.

use crate::clients::{is_there, says_that_all_is_well};
use crate::process::Server;
use std::process::Command;

#[test]
fn uuids_times_and_json_are_the_client_s_own_types() {
    if !is_there("python3", &["-c", "import psycopg"]) {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let script = include_str!("column_types.py");
    says_that_all_is_well(Command::new("python3").args(["-c", script, server.port("postgres")]));
    assert!(server.terminate());
}
