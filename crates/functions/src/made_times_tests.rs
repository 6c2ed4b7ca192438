use super::*;

#[test]
fn times_are_made_of_their_parts() {
    let noon = 12 * 3_600 * 1_000_000_000;
    assert_eq!(time_of(&[1970, 1, 1, 12, 0], 0.5), Some(noon + 500_000_000));
    assert_eq!(time_of(&[1969, 12, 31, 24, 0], 0.0), Some(0));
    assert_eq!(time_of(&[1970, 1, 1, 11, 59], 60.0), Some(noon));
    for (parts, seconds) in [
        ([2026, 2, 29, 0, 0], 0.0),
        ([2026, 13, 1, 0, 0], 0.0),
        ([2026, 1, 1, 24, 1], 0.0),
        ([2026, 1, 1, 0, -1], 0.0),
        ([2026, 1, 1, 0, 0], f64::NAN),
        ([i64::MAX, 1, 1, 0, 0], 0.0),
        ([3000, 1, 1, 0, 0], 0.0),
    ] {
        assert_eq!(time_of(&parts, seconds), None, "{parts:?} {seconds}");
    }
}
