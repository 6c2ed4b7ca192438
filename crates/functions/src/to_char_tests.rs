use super::{parts, texts};
use arrow::array::{ArrayRef, AsArray, StringArray, TimestampNanosecondArray};
use chrono::DateTime;
use std::sync::Arc;

fn text(time: &str, template: &str, is_zoned: bool) -> String {
    let time = DateTime::parse_from_rfc3339(time).unwrap().timestamp_nanos_opt().unwrap();
    let times = TimestampNanosecondArray::from(vec![time]);
    let times: ArrayRef = if is_zoned { Arc::new(times.with_timezone("UTC")) } else { Arc::new(times) };
    let templates: ArrayRef = Arc::new(StringArray::from(vec![template]));
    texts(&times, &templates).unwrap().as_string::<i32>().value(0).to_owned()
}

/// The expected texts are PostgreSQL 15's.
#[test]
fn times_are_written_as_postgres_writes_them() {
    let time = "2026-03-07T15:04:05.678901Z";
    for (template, expected) in [
        ("YYYY-MM-DD HH24:MI:SS", "2026-03-07 15:04:05"),
        ("yyyy-mm-dd hh24:mi:ss.us", "2026-03-07 15:04:05.678901"),
        ("HH12:MI am, HH:MI A.M.", "03:04 pm, 03:04 P.M."),
        ("Month|MONTH|month|FMMonth", "March    |MARCH    |march    |March"),
        ("Mon MON mon, Day|FMDay|Dy DY dy", "Mar MAR mar, Saturday |Saturday|Sat SAT sat"),
        ("FMDD.FMMM.YY FM-", "7.3.26 -"),
        ("DDD D ID Q WW IW W CC J", "066 7 6 1 10 10 1 21 2461107"),
        ("IYYY IYY IY I IDDD YYY Y", "2026 026 26 6 069 026 6"),
        ("SSSS MS FF1 FF2 FF3", "54245 678 6 67 678"),
        ("YYYY\"T\"HH24\"h\"", "2026T15h"),
        ("größe: YYYY", "größe: 2026"),
        ("\"open YYYY", "open YYYY"),
        ("TZ tz OF TZH:TZM FMOF", "UTC utc +00 +00:00 +0"),
        ("Idy TZmon Dday FMFM-", "6sat UTCmar 7saturday  FM-"),
    ] {
        assert_eq!(text(time, template, true), expected, "{template}");
    }
    assert_eq!(text(time, "HH24 TZ", false), "15 ");
    assert_eq!(text("2027-01-01T00:00:00Z", "IYYY-IW HH12 AM", true), "2026-53 12 AM");
}

#[test]
fn fields_that_are_not_here_are_named() {
    for (template, field) in [("FMDDth", "TH"), ("Y,YYY", "Y,YYY"), ("YYYY-MM-DDTHH24", "TH"), ("RM", "RM")] {
        let error = parts(template).unwrap_err().to_string();
        assert!(error.contains(&format!("{field} in '{template}' is not supported")), "{error}");
    }
}
