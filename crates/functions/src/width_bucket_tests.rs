use super::bucket;

/// The expected values are PostgreSQL 15's, except in the last line, where its sum overflows.
#[test]
fn values_are_in_buckets_that_are_counted_from_one() {
    for (value, low, high, count, expected) in [
        (5.35, 0.024, 10.06, 5, 3),
        (0.0, 0.0, 10.0, 5, 1),
        (10.0, 0.0, 10.0, 5, 6),
        (-0.1, 0.0, 10.0, 5, 0),
        (f64::INFINITY, 0.0, 10.0, 5, 6),
        (9.999999999999999, 0.0, 10.0, 10, 10),
        (5.0, 10.0, 0.0, 5, 3),
        (10.0, 10.0, 0.0, 5, 1),
        (0.0, 10.0, 0.0, 5, 6),
        (11.0, 10.0, 0.0, 5, 0),
        (0.0, -1.7e308, 1.7e308, 4, 3),
    ] {
        assert_eq!(bucket(value, low, high, count).unwrap(), expected, "{value} {low} {high} {count}");
    }
}

#[test]
fn buckets_that_are_none_are_refused() {
    for (value, low, high, count) in [
        (1.0, 0.0, 10.0, 0),
        (1.0, 0.0, 10.0, 1 << 31),
        (1.0, 3.0, 3.0, 2),
        (f64::NAN, 0.0, 1.0, 2),
        (1.0, 0.0, f64::INFINITY, 2),
    ] {
        assert!(bucket(value, low, high, count).is_err(), "{value} {low} {high} {count}");
    }
}
