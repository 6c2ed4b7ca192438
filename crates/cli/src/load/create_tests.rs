use super::type_of;
use fleetdb_engine::{ColumnType, Unit};

#[test]
fn the_narrowest_type_that_all_texts_fit_is_guessed() {
    let guessed = |texts: &[&str]| type_of("v", texts.iter().copied(), false, false);
    let local = ColumnType::Timestamp(Unit::Nanosecond);
    let utc = ColumnType::TimestampUtc(Unit::Nanosecond);
    for (texts, expected) in [
        (&["1", "-2"][..], ColumnType::Int64),
        (&["1", "2.5", "1e3"], ColumnType::Float64),
        (&["true", "FALSE"], ColumnType::Boolean),
        (&["2026-01-01", "2026-12-31"], ColumnType::Date32),
        (&["2026-01-01 12:00", "2026-01-01T12:00:00.25"], local),
        (&["2026-01-01T12:00:00Z", "2026-01-01 12:00:00+02", "2026-01-01 12:00:00+02:00"], utc),
        (&["2026-01-01T12:00:00Z", "2026-01-01 12:00:00"], local),
        (&["1", "x"], ColumnType::Utf8),
        (&["1,5"], ColumnType::Utf8),
        (&["nan"], ColumnType::Utf8),
        (&[], ColumnType::Utf8),
    ] {
        assert_eq!(guessed(texts), expected, "{texts:?}");
    }
    assert_eq!(type_of("v", ["1,5", "2"].into_iter(), false, true), ColumnType::Float64);
    assert_eq!(type_of("Time", ["1700000000"].into_iter(), true, false), local);
    assert_eq!(type_of("ts", ["1700000000", "1700000000.5"].into_iter(), true, false), local);
    assert_eq!(type_of("n", ["1700000000"].into_iter(), true, false), ColumnType::Int64);
}
