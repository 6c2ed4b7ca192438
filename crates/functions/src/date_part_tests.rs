use super::*;
use arrow::array::{
    DurationNanosecondArray, IntervalMonthDayNanoArray, StringArray, TimestampMillisecondArray,
    TimestampNanosecondArray,
};

fn part_of(field: &str, values: ArrayRef) -> f64 {
    let parts = parts(&[Arc::new(StringArray::from(vec![field])), values]).unwrap();
    parts.as_primitive::<Float64Type>().value(0)
}

/// The expected values are PostgreSQL 15's, except below one microsecond.
#[test]
fn parts_of_times_have_their_fractions() {
    let time = |ns: i64| -> ArrayRef { Arc::new(TimestampNanosecondArray::from(vec![ns])) };
    assert_eq!(part_of("second", time(1_767_249_015_250_000_000)), 15.25);
    assert_eq!(part_of("MILLISECONDS", time(1_767_249_015_250_500_000)), 15_250.5);
    assert_eq!(part_of("microsecond", time(-1)), 59_999_999.999);
    assert_eq!(part_of("epoch", time(1_767_249_015_250_000_000)), 1_767_249_015.25);
    assert_eq!(part_of("epoch", time(-500_000_000)), -0.5);
    assert_eq!(part_of("century", time(0)), 20.0);
    assert_eq!(part_of("millisecond", Arc::new(TimestampMillisecondArray::from(vec![1_250]))), 1_250.0);
    // January 1 of the year 1, and the day before, in 1 BC.
    for (ms, century, decade) in [(-62_135_596_800_000, 1.0, 0.0), (-62_135_596_800_001, -1.0, 0.0)] {
        let time: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![ms]));
        assert_eq!((part_of("century", Arc::clone(&time)), part_of("decade", time)), (century, decade));
    }
}

#[test]
fn parts_of_spans_are_those_of_their_days_and_their_time() {
    let span: ArrayRef = Arc::new(DurationNanosecondArray::from(vec![93 * 3_600_000_000_000 + 1_500_000_000]));
    let parts = ["day", "hour", "minute", "second", "epoch", "year"].map(|field| part_of(field, Arc::clone(&span)));
    assert_eq!(parts, [3.0, 21.0, 0.0, 1.5, 334_801.5, 0.0]);
    let interval = IntervalMonthDayNano::new(14, 40, -1_500_000_000);
    let interval: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![interval]));
    let parts =
        ["year", "month", "quarter", "day", "second", "ms", "epoch"].map(|field| part_of(field, Arc::clone(&interval)));
    assert_eq!(parts, [1.0, 2.0, 1.0, 40.0, -1.5, -1_500.0, 40_197_598.5]);
}

#[test]
fn of_no_rows_there_are_no_parts() {
    let none: ArrayRef = Arc::new(TimestampNanosecondArray::from(Vec::<i64>::new()));
    assert_eq!(parts(&[Arc::new(StringArray::from(Vec::<&str>::new())), none]).unwrap().len(), 0);
}
