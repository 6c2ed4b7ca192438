use super::*;
use arrow::array::{
    DurationMillisecondArray, Float32Array, Float64Array, IntervalMonthDayNanoArray, Time64NanosecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};

fn texts_of(column: ArrayRef) -> Vec<String> {
    let texts = text_form(&column).unwrap().unwrap();
    texts.as_string::<i32>().iter().map(|text| text.unwrap_or("NULL").to_owned()).collect()
}

/// The expected texts are PostgreSQL 15's.
#[test]
fn numbers_are_written_as_postgres_does() {
    let numbers = [0.0, -0.0, 2.0, -0.5, 0.0001, 0.00001, 999_999_999_999_999.9, 1e15, -1.5e300, 5e-324, 0.1 + 0.2];
    let texts = ["0", "-0", "2", "-0.5", "0.0001", "1e-05", "999999999999999.9", "1e+15", "-1.5e+300", "5e-324"];
    let found = texts_of(Arc::new(Float64Array::from(numbers.to_vec())));
    assert_eq!(found[..10], texts);
    assert_eq!(found[10], "0.30000000000000004");
    let special = Float64Array::from(vec![Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(f64::NAN), None]);
    assert_eq!(texts_of(Arc::new(special)), ["Infinity", "-Infinity", "NaN", "NULL"]);
    let single = Float32Array::from(vec![0.1, 123_456.0, 1_000_000.0, 1.234_567_8e6, 0.00001, 3.402_823_5e38]);
    assert_eq!(texts_of(Arc::new(single)), ["0.1", "123456", "1e+06", "1.2345678e+06", "1e-05", "3.4028235e+38"]);
}

#[test]
fn times_are_written_as_postgres_does() {
    let nanoseconds = vec![Some(0), Some(1_767_225_600_500_000_000), Some(-1_000), Some(1_999), None];
    let texts = [
        "1970-01-01 00:00:00",
        "2026-01-01 00:00:00.5",
        "1969-12-31 23:59:59.999999",
        "1970-01-01 00:00:00.000001",
        "NULL",
    ];
    assert_eq!(texts_of(Arc::new(TimestampNanosecondArray::from(nanoseconds.clone()))), texts);
    let in_zone = TimestampNanosecondArray::from(nanoseconds).with_timezone("Europe/Berlin");
    assert_eq!(texts_of(Arc::new(in_zone))[1], "2026-01-01 00:00:00.5+00");
    let far = TimestampSecondArray::from(vec![253_402_300_800, -62_135_596_801, -63_517_824_000]);
    assert_eq!(texts_of(Arc::new(far)), ["10000-01-01 00:00:00", "0001-12-31 23:59:59 BC", "0044-03-15 00:00:00 BC"]);
}

/// The digits are the shortest that parse back to the same value.
#[test]
fn numbers_are_read_again() {
    let values: Vec<f64> = (0..2_000_u64).map(|n| f64::from_bits(n.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
    let texts = texts_of(Arc::new(Float64Array::from(values.clone())));
    for (value, text) in values.iter().zip(texts) {
        assert!(value.is_nan() || text.parse() == Ok(*value), "{value:e} {text}");
    }
}

/// The expected texts are PostgreSQL 15's.
#[test]
fn spans_are_written_as_postgres_does() {
    let intervals = [
        (0, 0, 0),
        (14, 3, 14_706_789_000_000),
        (-1, 2, -3_600_000_000_000),
        (1, -1, 1_000),
        (-25, 0, 0),
        (0, 0, 129_600_000_000_000),
    ];
    let texts = [
        "00:00:00",
        "1 year 2 mons 3 days 04:05:06.789",
        "-1 mons +2 days -01:00:00",
        "1 mon -1 days +00:00:00.000001",
        "-2 years -1 mons",
        "36:00:00",
    ];
    let intervals = intervals.map(|(months, days, ns)| IntervalMonthDayNano::new(months, days, ns));
    assert_eq!(texts_of(Arc::new(IntervalMonthDayNanoArray::from(intervals.to_vec()))), texts);
    let clocks = Time64NanosecondArray::from(vec![0, 23_415_250_000_999]);
    assert_eq!(texts_of(Arc::new(clocks)), ["00:00:00", "06:30:15.25"]);
    let spans = DurationMillisecondArray::from(vec![0, 129_600_500, -90_000_000]);
    assert_eq!(texts_of(Arc::new(spans)), ["00:00:00", "1 day 12:00:00.5", "-1 days -01:00:00"]);
}
