use super::Zone;

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
