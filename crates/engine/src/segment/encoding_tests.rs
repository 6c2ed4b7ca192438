use super::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub(in crate::segment) const TYPES: [Physical; 3] =
    [Physical::Eight, Physical::Four { signed: true }, Physical::Four { signed: false }];

/// The values as a column of this type has them.
pub(in crate::segment) fn narrowed(values: &[u64], physical: Physical) -> Vec<u64> {
    match physical {
        Physical::Four { .. } => values.iter().map(|&v| physical.widen(v as u32)).collect(),
        _ => values.to_vec(),
    }
}

fn samples() -> Vec<Vec<u64>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut samples = vec![
        vec![],
        vec![5],
        vec![u64::MAX, 0, 1 << 63, (1 << 63) - 1, u64::MAX],
        vec![3; 1000],
        (0..300).map(|i| i * 10_000_000_000).collect(),
    ];
    for len in [31, 32, 33, 127, 128, 129, 130, 4096] {
        samples.push((0..len).map(|_| random.random()).collect());
        samples.push((0..len).map(|_| random.random_range(0..100)).collect());
        let mut walk = 50i64;
        samples.push(
            (0..len)
                .map(|_| {
                    walk += random.random_range(-3..=3);
                    walk as u64
                })
                .collect(),
        );
    }
    samples
}

#[test]
fn every_encoding_gives_back_its_values() {
    for values in samples() {
        for physical in TYPES {
            let values = narrowed(&values, physical);
            let mut bytes = Vec::new();
            put_plain(&values, physical, &mut bytes);
            assert_eq!(take_plain(&bytes, values.len(), physical).unwrap(), values);
            bytes.clear();
            put_byte_stream_split(&values, physical, &mut bytes);
            assert_eq!(take_byte_stream_split(&bytes, values.len(), physical).unwrap(), values);
            for whole_bytes in [false, true] {
                bytes.clear();
                put_delta(&values, physical, whole_bytes, &mut bytes);
                assert_eq!(take_delta(&bytes, values.len(), physical).unwrap(), values);
            }
        }
    }
}

#[test]
fn the_hybrid_gives_back_runs_and_packed_values() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(8);
    for width in [0u32, 1, 2, 7, 8, 9, 17] {
        for _ in 0..50 {
            let mut values = Vec::new();
            while values.len() < random.random_range(0..2000) {
                let value = if width == 0 { 0 } else { random.random_range(0..1u64 << width) };
                let run = if random.random_bool(0.3) { random.random_range(1..100) } else { 1 };
                values.resize(values.len() + run, value);
            }
            let mut bytes = Vec::new();
            put_hybrid(&values, width, &mut bytes);
            assert_eq!(take_codes(&bytes, values.len(), width, usize::MAX).unwrap(), values);
        }
    }
}

#[test]
fn cut_bytes_are_refused_and_never_panic() {
    for values in samples() {
        let mut bytes = Vec::new();
        put_delta(&values, Physical::Eight, false, &mut bytes);
        for cut in 0..bytes.len().min(200) {
            let _ = take_delta(&bytes[..cut], values.len(), Physical::Eight).is_err();
        }
        let codes: Vec<u64> = values.iter().map(|v| v % 16).collect();
        bytes.clear();
        put_hybrid(&codes, 4, &mut bytes);
        for cut in 0..bytes.len().min(200) {
            assert!(take_codes(&bytes[..cut], codes.len(), 4, 16).is_err());
        }
        let levels: Vec<u64> = values.iter().map(|v| u64::from(v % 7 < 5)).collect();
        bytes.clear();
        put_hybrid(&levels, 1, &mut bytes);
        for cut in 0..bytes.len() {
            assert!(take_levels(&bytes[..cut], levels.len()).is_err());
        }
    }
}

#[test]
fn levels_say_what_is_null() {
    for modulus in [1, 2, 7, 64, 65, 500] {
        for len in [1, 7, 8, 64, 65, 1000] {
            let levels: Vec<u64> = (0..len).map(|i| u64::from(i % modulus != 0 && !(300..600).contains(&i))).collect();
            let mut bytes = Vec::new();
            put_hybrid(&levels, 1, &mut bytes);
            let nulls = take_levels(&bytes, levels.len()).unwrap();
            assert!(levels.iter().enumerate().all(|(i, &level)| nulls.is_null(i) == (level == 0)), "{modulus} {len}");
            assert_eq!(nulls.nulls(), levels.iter().filter(|level| **level == 0).count());
        }
    }
}

#[test]
fn codes_that_the_dictionary_does_not_have_are_refused() {
    for (codes, width) in [(vec![3; 100], 2), ((0..100).map(|i| i % 4).collect(), 2), (vec![0; 100], 0)] {
        let mut bytes = Vec::new();
        put_hybrid(&codes, width, &mut bytes);
        let most = codes.iter().max().map_or(0, |&most| most as usize);
        assert_eq!(take_codes(&bytes, codes.len(), width, most + 1).unwrap(), codes);
        assert!(take_codes(&bytes, codes.len(), width, most).is_err());
    }
}
