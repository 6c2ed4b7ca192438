//! How the functions that FleetDB provides are called, for errors about wrong calls.

pub(crate) const TIME_BUCKET: &str =
    "time_bucket(width, time [, zone [, origin]]), as in time_bucket('1 month', ts, 'Europe/Berlin')";
/// How `time_bucket_gapfill` is called.
pub const GAPFILL: &str = "time_bucket_gapfill(width, time [, zone] [, start, finish]) in GROUP BY";
/// How `locf` is called.
pub const LOCF: &str = "locf(value [, 'before']) in the SELECT of a query that groups by time_bucket_gapfill";
/// How `interpolate` is called.
pub const INTERPOLATE: &str =
    "interpolate(value [, 'before']) in the SELECT of a query that groups by time_bucket_gapfill";
pub(crate) const AT_TIME_ZONE: &str = "time AT TIME ZONE zone, as in ts AT TIME ZONE 'Europe/Berlin'";
pub(crate) const DATE_TRUNC: &str = "date_trunc(unit, time, zone), as in date_trunc('day', ts, 'Europe/Berlin')";

/// Functions and how they are called.
const USAGES: [(&str, &str); 15] = [
    ("time_bucket", TIME_BUCKET),
    ("time_bucket_gapfill", GAPFILL),
    ("locf", LOCF),
    ("interpolate", INTERPOLATE),
    ("timezone", AT_TIME_ZONE),
    ("date_trunc", DATE_TRUNC),
    ("first", "first(value, time)"),
    ("last", "last(value, time)"),
    ("time_weight_avg", "time_weight_avg(value, time [, 'linear' | 'step'])"),
    ("integral", "integral(value, time [, 'linear' | 'step'])"),
    ("delta", "delta(value, time)"),
    ("rate", "rate(value, time)"),
    ("age", "age(until, since), with two times"),
    ("justify_interval", "justify_interval(interval)"),
    ("width_bucket", "width_bucket(value, low, high, count)"),
];

/// How this function is called, if FleetDB provides it.
pub(crate) fn usage(name: &str) -> Option<&'static str> {
    USAGES.iter().find(|(of, _)| *of == name).map(|(_, usage)| *usage)
}
