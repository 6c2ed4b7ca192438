use super::{Datapoint, datapoints, records};
use arrow::array::AsArray;

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
