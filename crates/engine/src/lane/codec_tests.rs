use super::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

#[test]
fn exact_division_agrees_with_division() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut number = || random.random::<u64>() >> random.random_range(0..64);
    for _ in 0..100_000 {
        let (divisor, any) = (number().max(1), number());
        let division = ExactDivision::by(divisor);
        assert_eq!(division.divides(any), any % divisor == 0, "{any} by {divisor}");
        let multiple = any / divisor * divisor;
        assert!(division.divides(multiple), "{multiple} by {divisor}");
        assert_eq!(division.quotient(multiple), multiple / divisor, "{multiple} by {divisor}");
    }
    for divisor in [1, 2, 3, 1 << 63, u64::MAX] {
        let division = ExactDivision::by(divisor);
        for number in [0, 1, 2, 3, 1 << 63, u64::MAX - 1, u64::MAX] {
            assert_eq!(division.divides(number), number % divisor == 0, "{number} by {divisor}");
        }
    }
}

#[test]
fn a_frame_has_the_largest_common_factor() {
    for (values, scale, width) in [
        (&[0, 60_000_000, 240_000_000][..], 60_000_000, 3),
        (&[7, 7 + 6_000_000, 7 + 10_000_000], 2_000_000, 3),
        (&[0, 1 << 20, 1 << 21, (1 << 21) + 1], 1, 22),
        // A common factor of small numbers is not looked for.
        (&[0, 10, 20], 1, 5),
        (&[5, 5], 0, 0),
    ] {
        let frame = Frame::of(values);
        assert_eq!((frame.scale, frame.width_bits()), (scale, width), "{values:?}");
        for &value in values {
            assert_eq!(frame.base.wrapping_add(frame.scale.wrapping_mul(frame.small(value))), value);
        }
    }
}
