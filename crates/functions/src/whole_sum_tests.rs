use super::*;
use arrow::array::{Int64Array, UInt64Array};

fn array(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(values.iter().copied().collect::<Int64Array>())
}

#[test]
fn a_sum_of_halves_is_the_sum() {
    let values = [i64::MIN, -1, 0, 1, i64::MAX, i64::MAX, 1 << 32, -(1 << 32) - 1];
    let wanted = values.iter().map(|value| i128::from(*value)).sum::<i128>();
    assert_eq!(sum_of(&Int64Array::from(values.to_vec()), 0..values.len()), Some(wanted));
    assert_eq!(sum_of(&Int64Array::from(values.to_vec()), 4..6), Some(2 * i128::from(i64::MAX)));
    assert_eq!(sum_of(&Int64Array::from(values.to_vec()), 3..3), None);
    assert_eq!(sum_of(&UInt64Array::from(vec![u64::MAX, u64::MAX, 7]), 0..3), Some(2 * i128::from(u64::MAX) + 7));
    let with_nulls: Int64Array = [None, Some(i64::MAX), None, Some(1)].into_iter().collect();
    assert_eq!(sum_of(&with_nulls, 0..4), Some(i128::from(i64::MAX) + 1));
    assert_eq!(sum_of(&with_nulls, 2..3), None);
    let scattered: Vec<Option<i64>> = (0..300).map(|n| (n % 3 != 1).then_some((n - 150) << 40)).collect();
    let wanted = |rows: std::ops::Range<usize>| scattered[rows].iter().flatten().map(|n| i128::from(*n)).sum::<i128>();
    for rows in [0..300, 5..206, 63..65, 130..300] {
        assert_eq!(sum_of(&Int64Array::from(scattered.clone()), rows.clone()), Some(wanted(rows)));
    }
}

#[test]
fn a_window_that_comes_back_into_range_has_its_sum_again() {
    let mut sum = OneSum::of(&DataType::Int64);
    sum.update_batch(&[array(&[Some(i64::MAX), None])]).unwrap();
    sum.update_batch(&[array(&[Some(1)])]).unwrap();
    assert!(sum.evaluate().is_err());
    sum.retract_batch(&[array(&[Some(i64::MAX), None])]).unwrap();
    assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(Some(1)));
    sum.retract_batch(&[array(&[Some(1)])]).unwrap();
    assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(None));
}

#[test]
fn groups_go_through_their_state_without_loss() {
    let mut first = Sums::<Int64Type>::default();
    first.update_batch(&[array(&[Some(i64::MAX), Some(i64::MAX), None])], &[0, 0, 1], None, 2).unwrap();
    let state = first.state(EmitTo::All).unwrap();
    let mut second = Sums::<Int64Type>::default();
    second.merge_batch(&state, &[0, 1], 2).unwrap();
    second.update_batch(&[array(&[Some(-i64::MAX), Some(5)])], &[0, 2], None, 3).unwrap();
    let sums = second.evaluate(EmitTo::All).unwrap();
    assert_eq!(sums.as_primitive::<Int64Type>(), &Int64Array::from(vec![Some(i64::MAX), None, Some(5)]));
    second.update_batch(&[array(&[Some(i64::MAX), Some(1)])], &[0, 0], None, 1).unwrap();
    assert!(second.evaluate(EmitTo::All).is_err());
}

#[test]
fn values_that_differ_are_added_up_once() {
    let mut sum = DistinctSum::of(&DataType::Int64);
    sum.update_batch(&[array(&[Some(i64::MAX), Some(i64::MAX), None, Some(-3)])]).unwrap();
    assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(Some(i64::MAX - 3)));
    let state: Vec<ArrayRef> = sum.state().unwrap().iter().map(|value| value.to_array().unwrap()).collect();
    let mut merged = DistinctSum::of(&DataType::Int64);
    merged.merge_batch(&state).unwrap();
    assert_eq!(merged.evaluate().unwrap(), ScalarValue::Int64(Some(i64::MAX - 3)));
    merged.update_batch(&[array(&[Some(4)])]).unwrap();
    assert!(merged.evaluate().is_err());
}
