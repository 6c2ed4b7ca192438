use super::{NS_PER_SECOND, Zone, naive};
use chrono::{Datelike, NaiveDate, NaiveDateTime, Weekday};
use chrono_tz::Tz;

fn seconds(time: NaiveDateTime) -> i64 {
    time.and_utc().timestamp()
}

/// The last Sunday of a month, at this hour.
fn last_sunday(year: i32, month: u32, hour: u32) -> i64 {
    let mut days = (1..=31).filter_map(|day| NaiveDate::from_ymd_opt(year, month, day));
    let sunday = days.rfind(|day| day.weekday() == Weekday::Sun).unwrap();
    seconds(sunday.and_hms_opt(hour, 0, 0).unwrap())
}

#[test]
fn clocks_change_by_the_last_rules_in_every_year_from_2100_on() {
    let ahead = |zone: Tz, seconds: i64| Zone::Named(zone).ahead_seconds(i128::from(seconds) * NS_PER_SECOND).unwrap();
    for year in 2090..2700 {
        // Vienna's clocks change at 01:00 UTC.
        for (month, before, after) in [(3, 3_600, 7_200), (10, 7_200, 3_600)] {
            let change = last_sunday(year, month, 1);
            assert_eq!(ahead(Tz::Europe__Vienna, change - 1), before, "{year}-{month}");
            assert_eq!(ahead(Tz::Europe__Vienna, change), after, "{year}-{month}");
            let zone = Zone::Named(Tz::Europe__Vienna);
            let local_ns = i128::from(change + 3_600) * NS_PER_SECOND;
            let (first, last) = zone.instants(local_ns).unwrap();
            assert_eq!(naive(zone.instant(local_ns).unwrap()).unwrap().year(), year);
            match month {
                // The change itself, for a local time that is skipped.
                3 => {
                    assert_eq!((first, last), (i128::from(change) * NS_PER_SECOND, i128::from(change) * NS_PER_SECOND))
                }
                _ => assert_eq!(last - first, 3_600 * NS_PER_SECOND, "{year}"),
            }
        }
        for (month, sydney, casablanca) in [(1, 39_600, 3_600), (7, 36_000, 3_600), (12, 39_600, 3_600)] {
            for day in [1, 31] {
                let noon = seconds(NaiveDate::from_ymd_opt(year, month, day).unwrap().and_hms_opt(12, 0, 0).unwrap());
                assert_eq!(ahead(Tz::Australia__Sydney, noon), sydney, "{year}-{month}-{day}");
                assert_eq!(ahead(Tz::Africa__Casablanca, noon), casablanca, "{year}-{month}-{day}");
            }
        }
    }
}

#[test]
fn a_setting_names_the_zone_that_it_names_in_postgres() {
    for (text, wanted) in [
        ("europe/vienna", Some(("Europe/Vienna", 3_600))),
        ("utc", Some(("UTC", 0))),
        ("zulu", Some(("Zulu", 0))),
        ("Etc/GMT+5", Some(("Etc/GMT+5", -18_000))),
        // Plain numbers count to the east, POSIX forms to the west.
        ("+02", Some(("<+02>-02", 7_200))),
        ("-7", Some(("<-07>+07", -25_200))),
        ("5.5", Some(("<+05:30>-05:30", 19_800))),
        ("0", Some(("<+00>-00", 0))),
        ("167", Some(("<+167>-167", 601_200))),
        ("+02:00", Some(("+02:00", -7_200))),
        ("foo-5", Some(("FOO-5", 18_000))),
        ("GMT-03:30", Some(("GMT-03:30", 12_600))),
        ("<+03>-03", Some(("<+03>-03", 10_800))),
        ("169", None),
        ("nan", None),
        ("", None),
        ("x", None),
        ("z", None),
        ("cest", None),
        ("Mars/Olympus", None),
        ("UTC+3:99", None),
        ("UTC+3x", None),
        ("UTC+1:2:3:4", None),
        ("<+03", None),
    ] {
        let found = Zone::of_setting(text).map(|(zone, name)| (name, zone.ahead_seconds(0).unwrap()));
        assert_eq!(found, wanted.map(|(name, ahead)| (name.to_owned(), ahead)), "{text}");
    }
}

#[test]
fn a_zone_is_found_by_its_own_name() {
    for zone in [Zone::Utc, Zone::Fixed(-12_600), Zone::Fixed(45), Zone::Named(chrono_tz::Tz::Asia__Kolkata)] {
        assert_eq!(Zone::named(&zone.name()), Ok(zone));
    }
}
