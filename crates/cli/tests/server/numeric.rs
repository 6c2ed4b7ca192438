//! Decimal numbers arrive and return exactly.

use super::process::Server;
use std::process::Command;

#[test]
fn decimal_numbers_are_exact_on_the_wire() {
    let has_psycopg = Command::new("python3").args(["-c", "import psycopg"]).output();
    if !has_psycopg.is_ok_and(|output| output.status.success()) {
        return println!("skipped: python3 -c 'import psycopg' does not run");
    }
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let run =
        Command::new("python3").args(["-c", include_str!("numeric.py"), server.port("postgres")]).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && said.contains("all is well"), "{said}");
    assert!(server.terminate());
}
