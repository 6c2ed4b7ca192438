use super::super::encoding::tests::{TYPES, narrowed};
use super::super::encoding::{put_byte_stream_split, put_delta, put_hybrid, take_codes, take_delta};
use super::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn values_of(lane: &Lane) -> Vec<u64> {
    (0..lane.len()).map(|at| lane.value(at)).collect()
}

/// Walks of each type whose steps and ranges are around the limits of a byte, also across the ends of 4-byte
/// numbers.
fn walks(random: &mut Xoshiro256PlusPlus) -> Vec<(Vec<u64>, Physical)> {
    let starts = [0, 50, -3, i64::from(i32::MAX) - 5, i64::from(i32::MIN), i64::from(u32::MAX) - 5, i64::MAX - 5];
    let shapes: Vec<(i64, i64)> = [0, 1, 3, 100, 127, 128, 300, 40_000]
        .into_iter()
        .flat_map(|step| [(step, 100), (step, 255), (step, 256), (step, i64::MAX)])
        .collect();
    let mut walks = Vec::new();
    for start in starts {
        for (step, range) in &shapes {
            let (len, mut walk) = (random.random_range(1..700), 0i64);
            let mut next = || {
                walk = walk.saturating_add(random.random_range(-step..=*step)).clamp(0, *range);
                start.wrapping_add(walk) as u64
            };
            let values: Vec<u64> = (0..len).map(|_| next()).collect();
            walks.extend(TYPES.map(|physical| (narrowed(&values, physical), physical)));
        }
    }
    walks
}

#[test]
fn deltas_are_decoded_as_without_packing() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut packed = 0;
    for (values, physical) in walks(&mut random) {
        for whole_bytes in [false, true] {
            let mut bytes = Vec::new();
            put_delta(&values, physical, whole_bytes, &mut bytes);
            assert_eq!(take_delta(&bytes, values.len(), physical).unwrap(), values);
            let Some(lane) = take_small_deltas(&bytes, values.len(), physical).unwrap() else { continue };
            assert_eq!(values_of(&lane), values, "{physical:?}, whole bytes: {whole_bytes}");
            packed += usize::from(lane.as_plain().is_none());
            // In no more memory than if it is packed later.
            let later = Lane::plain(values.clone(), NullMask::default()).into_packed();
            let now = lane.into_packed();
            assert!(now.bytes() <= later.bytes(), "{} bytes, not {}", now.bytes(), later.bytes());
            for cut in 0..bytes.len() {
                assert!(!matches!(take_small_deltas(&bytes[..cut], values.len(), physical), Ok(Some(_))));
            }
        }
    }
    assert!(packed > 100, "{packed}");
}

#[test]
fn split_bytes_are_decoded_as_without_packing() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut packed = 0;
    for (values, physical) in walks(&mut random) {
        let mut bytes = Vec::new();
        put_byte_stream_split(&values, physical, &mut bytes);
        let same = values.iter().all(|value| value >> 8 == values[0] >> 8);
        match take_lowest_bytes(&bytes, values.len(), physical).unwrap() {
            Some(lane) => assert_eq!(values_of(&lane), values),
            None => assert!(!same),
        }
        packed += usize::from(same);
        assert!(take_lowest_bytes(&bytes[1..], values.len(), physical).is_err());
    }
    assert!(packed > 50, "{packed}");
    assert!(take_lowest_bytes(&[], 0, Physical::Eight).unwrap().is_none());
}

#[test]
fn damaged_bytes_are_refused_or_mean_the_same_with_and_without_packing() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
    for (values, physical) in walks(&mut random) {
        let mut bytes = Vec::new();
        put_delta(&values, physical, random.random(), &mut bytes);
        for _ in 0..8 {
            let place = random.random_range(0..bytes.len());
            bytes[place] ^= 1 << random.random_range(0..8);
        }
        match (take_small_deltas(&bytes, values.len(), physical), take_delta(&bytes, values.len(), physical)) {
            (Ok(Some(lane)), Ok(values)) => assert_eq!(values_of(&lane), values),
            (Ok(Some(_)), Err(error)) => panic!("only unpacked: {error}"),
            (Err(error), Ok(_)) => panic!("only packed: {error}"),
            (Ok(None) | Err(_), _) => {}
        }
    }
    for _ in 0..2_000 {
        let mut bytes = vec![0; random.random_range(0..60)];
        random.fill(&mut bytes[..]);
        let (len, width) = (random.random_range(0..400), random.random_range(0..=8));
        let entries = random.random_range(1..=1 << width);
        match (take_byte_codes(&bytes, len, width, entries), take_codes(&bytes, len, width, entries)) {
            (Ok(codes), Ok(values)) => assert_eq!(codes.into_iter().map(u64::from).collect::<Vec<_>>(), values),
            (codes, values) => assert_eq!(codes.is_err(), values.is_err()),
        }
    }
}

#[test]
fn codes_are_decoded_as_without_packing() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    for width in 0..=8u32 {
        for _ in 0..50 {
            let (len, entries) = (random.random_range(0..2_000), 1usize << width);
            let mut codes = Vec::new();
            while codes.len() < len {
                let run = if random.random_bool(0.3) { random.random_range(1..300) } else { 1 };
                codes.resize(codes.len() + run, random.random_range(0..entries) as u64);
            }
            let mut bytes = Vec::new();
            put_hybrid(&codes, width, &mut bytes);
            assert_eq!(take_codes(&bytes, codes.len(), width, entries).unwrap(), codes);
            let of_bytes = take_byte_codes(&bytes, codes.len(), width, entries).unwrap();
            let lane = Lane::of_bytes(0, of_bytes.clone());
            assert_eq!(values_of(&lane), codes);
            let later = Lane::plain(codes.clone(), NullMask::default()).into_packed();
            assert!(lane.bytes() <= later.bytes(), "{} bytes, not {}", lane.bytes(), later.bytes());
            let dictionary: Vec<u64> =
                (0..entries as u64).map(|entry| entry.wrapping_mul(7).wrapping_sub(50)).collect();
            let values: Vec<u64> = codes.iter().map(|&code| dictionary[code as usize]).collect();
            match ByteDictionary::of(&dictionary) {
                Some(dictionary) => assert_eq!(values_of(&dictionary.values(&of_bytes)), values),
                None => assert!(7 * (entries - 1) > 255, "{entries} values of a byte"),
            }
            if let Some(&most) = codes.iter().max() {
                let error = take_byte_codes(&bytes, codes.len(), width, most as usize).unwrap_err();
                assert!(error.to_string().contains("a code is outside the dictionary"), "{error}");
            }
        }
    }
}
