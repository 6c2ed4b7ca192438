//! Sums of many numbers, in loops that the compiler vectorizes.

/// This many upper or lower halves of integers can be added in 64 bits without overflow.
const CHUNK: usize = 1 << 24;

/// The exact sum of 64-bit integers, given as their bits. Their upper and lower halves are added
/// separately.
///
/// ```
/// assert_eq!(fleetdb_engine::sum_of_integers(&[-3i64 as u64, 5], true), 2);
/// assert_eq!(fleetdb_engine::sum_of_integers(&[u64::MAX, 1], false), 1 << 64);
/// ```
pub fn sum_of_integers(raws: &[u64], is_signed: bool) -> i128 {
    let sum_of_chunk = |raws: &[u64]| {
        let (mut upper, mut lower) = (0i64, 0u64);
        for &raw in raws {
            // Wrapping, so that checks of overflow do not keep the compiler from vectorizing. The
            // upper half of a signed integer has its sign.
            upper = upper.wrapping_add(if is_signed { raw as i64 >> 32 } else { (raw >> 32) as i64 });
            lower = lower.wrapping_add(raw & 0xffff_ffff);
        }
        (i128::from(upper) << 32) + i128::from(lower)
    };
    raws.chunks(CHUNK).map(sum_of_chunk).sum()
}

/// The sum of numbers as floats, in no particular order.
///
/// ```
/// assert_eq!(fleetdb_engine::sum_of_floats(&[0.5; 9], |value| value), 4.5);
/// ```
pub fn sum_of_floats<T: Copy>(values: &[T], float: impl Fn(T) -> f64) -> f64 {
    // Four independent sums: with a single one, each addition would wait for the one before.
    let mut sums = [0.0; 4];
    let (fours, rest) = values.as_chunks::<4>();
    for four in fours {
        sums.iter_mut().zip(four).for_each(|(sum, &value)| *sum += float(value));
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&value| float(value)).sum::<f64>()
}
