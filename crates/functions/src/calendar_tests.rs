use super::*;
use chrono::DateTime;

fn ns(text: &str) -> i128 {
    i128::from(DateTime::parse_from_rfc3339(text).unwrap().timestamp()) * NS_PER_SECOND
}

fn buckets(width: Width, zone: &str) -> Buckets {
    Buckets::new(width, Zone::named(zone).unwrap(), None).unwrap()
}

const HOUR: i128 = 3_600 * NS_PER_SECOND;

#[test]
fn a_month_in_berlin_has_its_real_hours() {
    let months = buckets(Width::Months(1), "Europe/Berlin");
    let hours = |instant: &str| {
        let (start, end) = months.span(ns(instant)).unwrap();
        (end - start) / HOUR
    };
    assert_eq!(hours("2026-03-15T00:00:00Z"), 743);
    assert_eq!(hours("2026-10-15T00:00:00Z"), 745);
    assert_eq!(hours("2026-02-28T22:59:59Z"), 672);
    assert_eq!(months.span(ns("2026-02-28T23:00:00Z")).unwrap().0, ns("2026-02-28T23:00:00Z"));
}

#[test]
fn an_hour_that_comes_twice_is_two_buckets_and_a_day_is_one() {
    let hours = buckets(Width::Span(HOUR), "Europe/Berlin");
    let day = buckets(Width::Span(NS_PER_DAY), "Europe/Berlin");
    for minute in 0..26 * 60 {
        let instant = ns("2026-10-24T21:30:00Z") + i128::from(minute) * 60 * NS_PER_SECOND;
        assert_eq!(hours.span(instant).unwrap().0, instant.div_euclid(HOUR) * HOUR, "hours of Berlin are hours of UTC");
    }
    let (start, end) = day.span(ns("2026-10-25T01:30:00Z")).unwrap();
    assert_eq!((start, end), (ns("2026-10-24T22:00:00Z"), ns("2026-10-25T23:00:00Z")));
    let (start, end) = day.span(ns("2026-03-29T12:00:00Z")).unwrap();
    assert_eq!((end - start) / HOUR, 23);
}

#[test]
fn buckets_cover_time_without_gap_or_overlap_in_any_zone() {
    let zones = [
        "Europe/Berlin",
        "America/Havana",
        "Atlantic/Azores",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "America/Sao_Paulo",
    ];
    let widths =
        [15, 30, 60, 90, 6 * 60, 24 * 60, 7 * 24 * 60].map(|minutes| Width::Span(minutes * 60 * NS_PER_SECOND));
    for zone in zones {
        for width in widths.into_iter().chain([Width::Months(1), Width::Months(12)]) {
            let buckets = buckets(width, zone);
            let mut expected = None;
            // Every quarter of an hour over two years with clock changes, once before 1970.
            for first in [ns("2017-01-01T00:00:00Z"), ns("1968-01-01T00:00:00Z")] {
                let mut last = None;
                for quarter in 0..2 * 366 * 96 {
                    let instant = first + quarter * 15 * 60 * NS_PER_SECOND + 7;
                    let (start, end) = buckets.span(instant).unwrap();
                    assert!(start <= instant && instant < end, "{zone} {width:?} {instant}: {start} to {end}");
                    if let Some((before, until)) = expected.filter(|_| last.is_some()) {
                        assert!(start >= before, "{zone} {width:?} {instant}: goes back from {before} to {start}");
                        assert!(
                            instant >= until || start == before,
                            "{zone} {width:?}: {instant} is not in its bucket"
                        );
                        assert!(
                            start == before || start <= instant && start >= last.unwrap(),
                            "{zone} {width:?} {instant}"
                        );
                    }
                    (expected, last) = (Some((start, end)), Some(instant));
                }
            }
        }
    }
}

#[test]
fn widths_that_mix_months_and_days_or_are_not_positive_are_refused() {
    let interval = |months, days, nanoseconds| Width::new(IntervalMonthDayNano { months, days, nanoseconds });
    assert_eq!(interval(13, 0, 0), Ok(Width::Months(13)));
    assert_eq!(interval(0, 1, -1), Ok(Width::Span(NS_PER_DAY - 1)));
    for (months, days, nanoseconds) in [(1, 1, 0), (0, 0, 0), (0, -1, 0), (-1, 0, 0)] {
        assert!(interval(months, days, nanoseconds).is_err());
    }
}

#[test]
fn an_origin_in_the_middle_of_a_month_moves_the_months() {
    let origin = ns("2026-01-15T00:00:00Z");
    let months = Buckets::new(Width::Months(1), Zone::Utc, Some(origin)).unwrap();
    assert_eq!(months.span(ns("2026-03-14T23:00:00Z")).unwrap().0, ns("2026-02-15T00:00:00Z"));
    assert_eq!(months.span(ns("1969-03-15T00:00:00Z")).unwrap().0, ns("1969-03-15T00:00:00Z"));
}

#[test]
fn even_buckets_are_the_same_buckets() {
    let unit_ns = NS_PER_SECOND / 1_000;
    let origin = ns("2026-01-15T00:00:07Z");
    for width in [Width::Span(7 * unit_ns), Width::Span(NS_PER_DAY), Width::Span(7 * NS_PER_DAY)] {
        for origin in [None, Some(origin)] {
            let buckets = Buckets::new(width, Zone::Utc, origin).unwrap();
            let even = buckets.even(unit_ns).unwrap();
            for time in [0, 1, -1, 6, 7, 8, 86_400_000, -86_400_001, 1_769_000_000_123, -1_769_000_000_123] {
                let (start, end) = buckets.span(i128::from(time) * unit_ns).unwrap();
                let span = even.span(time).unwrap();
                assert_eq!((i128::from(span.start) * unit_ns, i128::from(span.end) * unit_ns), (start, end), "{time}");
                assert_eq!(even.following(span.end), even.span(span.end));
            }
            assert_eq!(even.span(i64::MIN), None);
        }
    }
    let uneven = |width, zone, unit_ns| Buckets::new(width, zone, None).unwrap().even(unit_ns).is_none();
    assert!(uneven(Width::Months(1), Zone::Utc, 1));
    assert!(uneven(Width::Span(NS_PER_DAY), Zone::named("Europe/Berlin").unwrap(), 1));
    assert!(uneven(Width::Span(7), Zone::Utc, 1_000));
}
