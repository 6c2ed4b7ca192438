use super::*;
use chrono::{DateTime, Duration, NaiveDateTime, Offset, TimeZone, Timelike};
use chrono_tz::Tz;

/// Zones with unusual rules: changes of half an hour, a day, a few seconds or two hours, in winter
/// or around Ramadan.
const ZONES: [&str; 12] = [
    "Australia/Lord_Howe",
    "Africa/Monrovia",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "America/St_Johns",
    "Pacific/Apia",
    "Europe/Dublin",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Australia/Eucla",
    "America/Havana",
    "Europe/Berlin",
];

fn offset(zone: Tz, second: i64) -> i64 {
    let time = DateTime::from_timestamp(second, 0).unwrap().naive_utc();
    i64::from(zone.offset_from_utc_datetime(&time).fix().local_minus_utc())
}

/// The instants at which a zone's UTC offset changed from 1950 to 2037, found by stepping through
/// time.
fn changes(zone: Tz) -> Vec<i64> {
    let (from, to) = (-631_152_000, 2_145_916_800);
    let mut changes = Vec::new();
    for start in (from..to).step_by(6 * 3_600) {
        let (mut low, mut high) = (start, start + 6 * 3_600);
        let before = offset(zone, low);
        if before != offset(zone, high) {
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if offset(zone, middle) == before { low = middle } else { high = middle }
            }
            changes.push(high);
        }
    }
    changes
}

/// The local start of a unit, computed from chrono's fields.
fn local_begin(unit: &str, local: NaiveDateTime) -> NaiveDateTime {
    let date = local.date();
    let hour = |time: NaiveDateTime| time.with_minute(0).unwrap().with_second(0).unwrap().with_nanosecond(0).unwrap();
    let first = |date: NaiveDate| date.and_hms_opt(0, 0, 0).unwrap();
    match unit {
        "second" => local.with_nanosecond(0).unwrap(),
        "minute" => local.with_second(0).unwrap().with_nanosecond(0).unwrap(),
        "hour" => hour(local),
        "day" => first(date),
        "week" => first(date - Duration::days(i64::from(date.weekday().num_days_from_monday()))),
        "month" => first(date.with_day(1).unwrap()),
        "quarter" => first(date.with_day(1).unwrap().with_month(date.month0() / 3 * 3 + 1).unwrap()),
        _ => first(date.with_day(1).unwrap().with_month(1).unwrap()),
    }
}

#[test]
fn every_unit_begins_as_the_rules_of_odd_zones_say_around_all_changes_of_clocks() {
    for name in ZONES {
        let (zone, tz) = (Zone::named(name).unwrap(), name.parse::<Tz>().unwrap());
        let changes = changes(tz);
        assert!(!changes.is_empty(), "{name}");
        for change in changes {
            for step in -22..22 {
                let second = change + step * 547;
                let instant = DateTime::from_timestamp(second, 250_000_000).unwrap();
                let instant_ns = i128::from(second) * NS_PER_SECOND + NS_PER_SECOND / 4;
                let begin = |unit| Unit::of(unit).unwrap().begin(instant_ns, zone).unwrap();
                let local = instant.with_timezone(&tz).naive_local();
                for unit in ["second", "minute", "hour"] {
                    // With the UTC offset of the instant itself.
                    let begin_ns = to_ns(local_begin(unit, local)) - i128::from(offset(tz, second)) * NS_PER_SECOND;
                    assert_eq!(begin(unit), begin_ns, "{name} {unit} of {instant}");
                }
                for unit in ["day", "week", "month", "quarter", "year"] {
                    let local = local_begin(unit, local);
                    let Some(expected) = tz.from_local_datetime(&local).latest() else { continue };
                    let expected = i128::from(expected.timestamp()) * NS_PER_SECOND;
                    assert_eq!(begin(unit), expected, "{name} {unit} of {instant}");
                }
            }
        }
    }
}

#[test]
fn an_hour_that_comes_twice_has_two_begins() {
    let zone = Zone::named("Europe/Berlin").unwrap();
    let seconds = |text: &str| i128::from(DateTime::parse_from_rfc3339(text).unwrap().timestamp()) * NS_PER_SECOND;
    for (time, begin) in [
        ("2026-10-25T00:30:00Z", "2026-10-25T00:00:00Z"),
        ("2026-10-25T01:30:00Z", "2026-10-25T01:00:00Z"),
        ("2026-10-25T02:30:00Z", "2026-10-25T02:00:00Z"),
    ] {
        assert_eq!(Unit::Short(3_600 * NS_PER_SECOND).begin(seconds(time), zone), Some(seconds(begin)));
    }
}

#[test]
fn decades_centuries_and_millennia_begin_as_in_postgresql() {
    let begin = |unit: &str, year: i32| {
        let time = to_ns(NaiveDate::from_ymd_opt(year, 5, 6).unwrap().and_time(NaiveTime::MIN));
        naive(Unit::of(unit).unwrap().begin(time, Zone::Utc).unwrap()).unwrap().year()
    };
    assert_eq!([begin("decade", 2026), begin("decade", 1970), begin("decade", 1969)], [2020, 1970, 1960]);
    assert_eq!([begin("century", 2000), begin("century", 2001)], [1901, 2001]);
    assert_eq!([begin("millennium", 2000), begin("millennium", 2001)], [1001, 2001]);
    assert!(Unit::of("fortnight").is_err());
}
