use super::{options, settings};
use fleetdb_query::SessionSettings;
use std::collections::BTreeMap;

#[test]
fn options_are_read_as_postgres_reads_them() {
    let found = options(
        r"-c statement_timeout=5s  -cgeqo=off --default-transaction-read-only=on -B 7 -c application_name=a\ b",
    );
    let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let wanted = [
        ("statement_timeout", "5s"),
        ("geqo", "off"),
        ("default_transaction_read_only", "on"),
        ("application_name", "a b"),
    ];
    assert_eq!(found, wanted);
    for nothing in ["", " ", "-c", "-c name", "--", "\\", "-x=y"] {
        assert_eq!(options(nothing), []);
    }
}

#[test]
fn a_client_s_settings_are_taken_and_wrong_ones_named() {
    let asked = |name: &str, value: &str| {
        let parameters = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        settings(SessionSettings::default(), &parameters)
    };
    assert!(asked("options", "-c default_transaction_read_only=on").unwrap().is_read_only());
    assert!(asked("DEFAULT_transaction_read_only", "on").unwrap().is_read_only());
    assert_eq!(asked("TimeZone", "America/New_York").unwrap().zone_name(), "America/New_York");
    assert_eq!(asked("options", "-c timezone=asia/kolkata").unwrap().zone_name(), "Asia/Kolkata");
    assert_eq!(asked("DateStyle", "German").unwrap(), SessionSettings::default());
    let error = asked("TimeZone", "Mars/Olympus").unwrap_err();
    assert_eq!(error.to_string(), "invalid value for parameter \"TimeZone\": \"Mars/Olympus\"");
    let error = asked("statement_timeout", "soon").unwrap_err();
    assert!(error.to_string().contains("statement_timeout = 'soon'"), "{error}");
}
