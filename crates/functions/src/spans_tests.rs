use super::*;

fn ns(time: &str) -> i64 {
    time.parse::<chrono::NaiveDateTime>().unwrap().and_utc().timestamp_nanos_opt().unwrap()
}

/// The expected values are PostgreSQL 15's.
#[test]
fn an_age_is_counted_in_months_days_and_time() {
    for (until, since, months, days, hours) in [
        ("2026-03-05T00:00:00", "2026-01-01T00:00:00", 2, 4, 0),
        ("2026-03-05T01:00:00", "2025-12-31T02:00:00", 2, 4, 23),
        ("2026-03-01T00:00:00", "2026-01-31T00:00:00", 1, 1, 0),
        ("2026-01-31T00:00:00", "2026-03-01T00:00:00", -1, -1, 0),
        ("2025-12-31T02:00:00", "2026-03-05T01:00:00", -2, -4, -23),
        ("2024-03-01T00:00:00", "2024-02-29T12:00:00", 0, 0, 12),
    ] {
        let of_hours = hours * 3_600_000_000_000;
        assert_eq!(age(ns(until), ns(since)), IntervalMonthDayNano::new(months, days, of_hours), "{until} {since}");
    }
    assert_eq!(age(i64::MAX, i64::MIN).months, 7_014);
}

/// The expected values are PostgreSQL 15's: months, days and hours before and after.
#[test]
fn intervals_are_justified() {
    let hour_ns = 3_600_000_000_000;
    type Of = fn(IntervalMonthDayNano) -> Result<IntervalMonthDayNano, ArrowError>;
    let cases: [(Of, [i64; 3], [i64; 3]); 8] = [
        (justify_hours, [0, 0, 36], [0, 1, 12]),
        (justify_hours, [1, 1, -1], [1, 0, 23]),
        (justify_hours, [0, -1, 25], [0, 0, 1]),
        (justify_days, [0, 40, 5], [1, 10, 5]),
        (justify_days, [1, -5, 0], [0, 25, 0]),
        (justify_interval, [1, 0, -1], [0, 29, 23]),
        (justify_interval, [-1, 0, 1], [0, -29, -23]),
        (justify_interval, [0, 29, 25], [1, 0, 1]),
    ];
    let interval =
        |[months, days, hours]: [i64; 3]| IntervalMonthDayNano::new(months as i32, days as i32, hours * hour_ns);
    for (of, from, to) in cases {
        assert_eq!(of(interval(from)).unwrap(), interval(to), "{from:?}");
    }
    assert!(justify_hours(IntervalMonthDayNano::new(0, i32::MAX, 24 * hour_ns)).is_err());
    assert!(justify_days(IntervalMonthDayNano::new(i32::MAX, 30, 0)).is_err());
}
