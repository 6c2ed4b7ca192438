use super::{Datapoint, datapoints, records, seconds};
use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampNanosecondType};

#[test]
fn records_have_two_hundred_bytes_and_any_can_be_made_alone() {
    let all = records(1, 7, 0..50).unwrap();
    assert_eq!(records(1, 7, 20..30).unwrap(), all.slice(20, 10));
    assert_ne!(records(2, 7, 0..50).unwrap(), all);
    let texts = all.column(2).as_string::<i32>();
    assert!((0..50).all(|row| 8 + 8 + texts.value(row).len() == 200));
}

#[test]
fn a_datapoint_goes_through_its_bytes() {
    let point = Datapoint::sampled(3, 1_000, 1_767_225_600_123_456_000);
    assert_eq!(Datapoint::from_bytes(&point.to_bytes()), point);
    assert_eq!(Datapoint::BYTES, 22);
    assert_eq!(datapoints(1, &[point, point]).unwrap().num_columns(), 7);
}

#[test]
fn datapoints_of_a_second_are_one_document() {
    let point = |time_ns: i64| Datapoint { time_ns, samples: [1, 2, 3, 4, 65_535] };
    let rows = seconds(7, &[point(5_999_999_000), point(6_000_000_000), point(6_000_001_000)]).unwrap();
    assert_eq!(rows.column(1).as_primitive::<TimestampNanosecondType>().values(), &[5_000_000_000, 6_000_000_000]);
    assert_eq!(rows.column(2).as_primitive::<Int64Type>().values(), &[1, 2]);
    let second = rows.column(3).as_string::<i32>().value(1);
    assert_eq!(second, r#"{"measurements":[{"m":[1,2,3,4,65535],"ns":0},{"m":[1,2,3,4,65535],"ns":1000}]}"#);
}
