use super::{Interval, mann_whitney, median};

#[test]
fn the_median_is_the_middle() {
    assert!(median(Vec::new()).is_nan());
    assert_eq!(median(vec![2.0]), 2.0);
    assert_eq!(median(vec![4.0, 1.0]), 2.5);
    let interval = Interval::of(&[3.0, 9.0, 1.0]).unwrap();
    assert_eq!((interval.low, interval.median, interval.high), (1.0, 3.0, 9.0));
}

#[test]
fn the_test_gives_the_published_probabilities() {
    // Both directions, overlapping samples, and the same sample twice.
    let (low, high) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
    assert!((mann_whitney(&low, &high) - 0.1).abs() < 1e-9);
    assert!((mann_whitney(&high, &low) - 0.1).abs() < 1e-9);
    assert_eq!(mann_whitney(&low, &low), 1.0);
    // The tables give 0.0317 for U = 2 and samples of five each.
    let p = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 6.5], &[5.0, 6.0, 7.0, 8.0, 9.0]);
    assert!((p - 8.0 / 252.0).abs() < 1e-9, "{p}");
}
