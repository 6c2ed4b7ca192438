use super::{TimeText, read_time};
use crate::values::zone::Zone;
use fleetdb_engine::Unit;

const NOON: i64 = 1_782_907_200;

#[test]
fn a_time_that_names_no_zone_is_what_clocks_show() {
    let vienna = Zone::named("Europe/Vienna").unwrap();
    for (text, hours_ahead) in [
        ("2026-07-01 12:00", Some(2)),
        (" 2026-07-01T12:00:00 ", Some(2)),
        ("2026-07-01 12:00:00.25", Some(2)),
        ("+2026-07-01 12:00:00", Some(2)),
        ("2026-07-01 12:00:00Z", None),
        ("2026-07-01 13:00+01", None),
        ("2026-07-01T08:30:00-0330", None),
        ("2026-07-01 08:30:00-03:30", None),
        ("2026-07-01 08:00:00 America/New_York", None),
        ("+2026-07-01 13:00:00+01:00", None),
    ] {
        assert_eq!(read_time(text, Unit::Second, Zone::Utc), TimeText::Count(NOON), "{text}");
        let in_vienna = NOON - hours_ahead.unwrap_or(0) * 3_600;
        assert_eq!(read_time(text, Unit::Second, vienna), TimeText::Count(in_vienna), "{text} in Vienna");
    }
    // Clocks skip the first and show the second twice: the later reading counts, as in PostgreSQL.
    for (text, utc) in [("2026-03-29 02:30", "2026-03-29 01:30Z"), ("2026-10-25 02:30", "2026-10-25 01:30Z")] {
        assert_eq!(read_time(text, Unit::Second, vienna), read_time(utc, Unit::Second, Zone::Utc), "{text}");
    }
}

#[test]
fn far_times_are_before_and_behind_all_others() {
    let new_york = Zone::named("America/New_York").unwrap();
    for zone in [Zone::Utc, new_york, Zone::Fixed(3_600)] {
        for text in ["infinity", " +Infinity", "9999-12-31", "10000-01-01 00:00:00+01:30", "2262-04-13 00:00"] {
            assert_eq!(read_time(text, Unit::Nanosecond, zone), TimeText::Behind, "{text}");
        }
        for text in ["-infinity", "0044-03-15 BC", "0001-01-01 00:00:00", "-0001-01-01"] {
            assert_eq!(read_time(text, Unit::Nanosecond, zone), TimeText::Before, "{text}");
        }
        for text in ["", "today?", "2026-02-30", "2026-01-01 25:00", "12026", "10000-01-01 00:00:00+1", "2026-13-01"] {
            assert_eq!(read_time(text, Unit::Nanosecond, zone), TimeText::Unknown, "{text}");
        }
    }
    assert_eq!(read_time("10000-01-01 00:00:00+01", Unit::Second, new_york), TimeText::Count(253_402_297_200));
}
