//! A session's zone: chosen with the connection (PGTZ, PGOPTIONS, `TimeZone`) or by SET, reported
//! to the driver, and used by COPY.

use crate::clients::psycopg_says_that_all_is_well;
use crate::process::Server;
use std::process::Command;

#[test]
fn a_session_goes_by_the_clocks_that_its_driver_names() {
    psycopg_says_that_all_is_well(include_str!("zones.py"));
}

#[test]
fn psql_hands_its_zone_on() {
    if !Command::new("psql").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: psql --version does not run");
    }
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let connection = format!("host=127.0.0.1 port={} user=me", server.port("postgres"));
    let psql = |environment: (&str, &str), text: &str| {
        let mut command = Command::new("psql");
        command.args([&connection, "-X", "-At", "-c", text]).env_remove("PGTZ").env(environment.0, environment.1);
        let output = command.output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let shown = "SELECT current_setting('timezone'), TIMESTAMPTZ '2026-07-01 12:00Z', TIMESTAMPTZ '2026-07-01'::date";
    for (environment, wanted) in [
        (("PGTZ", "Europe/Vienna"), "Europe/Vienna|2026-07-01 14:00:00+02|2026-07-01\n"),
        (("PGTZ", "asia/kolkata"), "Asia/Kolkata|2026-07-01 17:30:00+05:30|2026-07-01\n"),
        (("PGOPTIONS", "-c TimeZone=America/New_York"), "America/New_York|2026-07-01 08:00:00-04|2026-07-01\n"),
        (("PGAPPNAME", "utc"), "UTC|2026-07-01 12:00:00+00|2026-07-01\n"),
    ] {
        assert_eq!(psql(environment, shown), wanted);
    }
    let refused = psql(("PGTZ", "Mars/Olympus"), "SELECT 1");
    assert!(refused.contains("invalid value for parameter \"TimeZone\": \"Mars/Olympus\""), "{refused}");
    assert!(server.terminate());
}
