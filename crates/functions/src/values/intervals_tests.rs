use super::*;

const HOUR: i64 = 3_600 * NS_PER_SECOND;

/// The expected values are PostgreSQL 15's.
#[test]
fn texts_are_read_as_postgres_does() {
    let read = [
        ("1 year 2 months 3 days 04:05:06.789", (14, 3, 4 * HOUR + 306_789_000_000)),
        ("1:30", (0, 0, HOUR + HOUR / 2)),
        ("-1:30", (0, 0, -HOUR - HOUR / 2)),
        ("1:30.5", (0, 0, 90_500_000_000)),
        ("3 4:00", (0, 3, 4 * HOUR)),
        ("1 day, 2:00:00", (0, 1, 2 * HOUR)),
        ("3 hours ago", (0, 0, -3 * HOUR)),
        ("1.5 days", (0, 1, 12 * HOUR)),
        ("1.5 months", (1, 15, 0)),
        ("-1.5 weeks", (0, -10, -12 * HOUR)),
        ("1h30m", (0, 0, HOUR + HOUR / 2)),
        ("10", (0, 0, 10 * NS_PER_SECOND)),
        (".5 s", (0, 0, NS_PER_SECOND / 2)),
        ("P1Y2M3DT4H5M6.5S", (14, 3, 4 * HOUR + 306_500_000_000)),
        ("PT-1H", (0, 0, -HOUR)),
        ("1 mon -1 days +00:00:00.000001", (1, -1, 1_000)),
    ];
    for (text, (months, days, ns)) in read {
        assert_eq!(interval_of_text(text), Some(IntervalMonthDayNano::new(months, days, ns)), "{text}");
    }
}

#[test]
fn other_texts_are_none() {
    let others =
        ["", "day", "1 parsec", "1:", "1:2:3:4", "1.5:30", "P", "P1H", "PT", "1 day x", "99999999999 years", "--1 day"];
    for text in others {
        assert_eq!(interval_of_text(text), None, "{text}");
    }
}
