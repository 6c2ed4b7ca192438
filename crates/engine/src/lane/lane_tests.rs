use super::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn round_trip(values: &[Option<u64>]) {
    let mut lane = Lane::default();
    values.iter().for_each(|&v| lane.push(v));
    let packed = lane.pack();
    let mut bytes = Vec::new();
    let (plain, nulls) = lane.clone().into_plain();
    codec::encode(&plain, &nulls, &mut bytes);
    let mut rest = &bytes[..];
    let decoded = codec::decode(&mut rest, values.len()).unwrap();
    assert!(rest.is_empty());
    let mut copied = Lane::default();
    copied.extend(&packed, 0, values.len());
    for (i, &value) in values.iter().enumerate() {
        assert_eq!(lane.get(i), value, "plain, at {i} of {values:?}");
        assert_eq!(packed.get(i), value, "packed, at {i} of {values:?}");
        assert_eq!(decoded.get(i), value, "decoded, at {i} of {values:?}");
        assert_eq!(copied.get(i), value, "copied, at {i} of {values:?}");
    }
    for cut in 0..bytes.len() {
        assert!(codec::decode(&mut &bytes[..cut], values.len()).is_err(), "cut at {cut}");
    }
}

#[test]
fn a_lane_keeps_its_values_in_every_form() {
    round_trip(&[]);
    round_trip(&[Some(7); 5]);
    round_trip(&[None; 70]);
    round_trip(&[Some(10), Some(20), Some(30), Some(40)]);
    round_trip(&[Some(u64::MAX), Some(0), Some(1 << 63), None, Some(u64::MAX >> 1)]);
    let step = 10_000_000_000;
    round_trip(&(0..200).map(|i| Some(1_451_606_400_000_000_000 + i / 7 * step)).collect::<Vec<_>>());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for width in 1..=64 {
        let values: Vec<_> =
            (0..100).map(|_| random.random_bool(0.9).then(|| random.random::<u64>() >> (64 - width))).collect();
        round_trip(&values);
    }
}

#[test]
fn a_packed_lane_of_small_numbers_is_small() {
    let mut lane = Lane::default();
    (0..1024).for_each(|i| lane.push(Some(i % 100)));
    assert!(lane.pack().bytes() < 1024 + 200);
}

#[test]
fn a_value_can_be_replaced_by_null_and_back() {
    let mut lane = Lane::constant(Some(3), 4);
    lane.set(1, None);
    lane.set(2, Some(9));
    lane.set(1, Some(8));
    assert_eq!((0..4).map(|i| lane.get(i)).collect::<Vec<_>>(), [Some(3), Some(8), Some(9), Some(3)]);
    assert_eq!(lane.nulls().nulls(), 0);
}

#[test]
fn joined_lanes_give_every_value_in_every_width() {
    for spread in [0, 3, 200, 70_000, 1 << 40] {
        let values =
            |start: u64, len: u64| (0..len).map(move |i| (start + i * spread).wrapping_sub(5)).collect::<Vec<_>>();
        let mut nulls = NullMask::default();
        nulls.set(2, true);
        let mut with_null = values(9, 10);
        with_null[2] = 0;
        let lanes = [Lane::plain(values(0, 50), NullMask::default()).pack(), Lane::plain(with_null, nulls).pack()];
        let joined = Lane::concat(&[(Some(&lanes[0]), 50), (None, 3), (Some(&lanes[1]), 12)]);
        let expected = (0..50).map(|i| lanes[0].get(i)).chain([None; 3]).chain((0..10).map(|i| lanes[1].get(i)));
        let expected: Vec<_> = expected.chain([None; 2]).collect();
        assert_eq!((0..joined.len()).map(|i| joined.get(i)).collect::<Vec<_>>(), expected, "spread {spread}");
        let places = [64, 0, 55, 49, 51];
        let mut gathered = Lane::default();
        gathered.gather(&joined, &places);
        let expected: Vec<_> = places.iter().map(|&place| expected[place as usize]).collect();
        assert_eq!((0..5).map(|i| gathered.get(i)).collect::<Vec<_>>(), expected, "spread {spread}");
    }
}

#[test]
fn masks_are_copied_from_any_place_to_any_place() {
    let mut from = NullMask::default();
    (0..300).filter(|i| i % 7 == 3 || i % 64 == 0).for_each(|i| from.set(i, true));
    for start in [0, 1, 63, 64, 65, 130] {
        for at in [0, 1, 5, 63, 64, 100] {
            for len in [0, 1, 63, 64, 65, 128, 170] {
                let mut copied = NullMask::default();
                copied.copy(at, &from, start, len);
                let is_null = |i: usize| (at..at + len).contains(&i) && from.is_null(start + i - at);
                let ends = at + len + 70;
                assert!((0..ends).all(|i| copied.is_null(i) == is_null(i)), "{start} {at} {len}");
                assert_eq!(copied.nulls(), (0..ends).filter(|&i| is_null(i)).count());
                let validity = copied.validity(at + len);
                assert!((0..at + len).all(|i| (validity[i / 64] >> (i % 64) & 1 == 1) != is_null(i)));
            }
        }
    }
}

#[test]
fn values_are_spread_around_nulls() {
    for modulus in [2, 3, 10, 64, 100, 1000] {
        for len in [1, 63, 64, 65, 500] {
            let mut nulls = NullMask::default();
            (0..len).filter(|i| i % modulus == 1 || (200..300).contains(i)).for_each(|i| nulls.set(i, true));
            let expected: Vec<_> = (0..len).map(|i| (!nulls.is_null(i)).then_some(i as u64 + 5)).collect();
            let lane = Lane::spread(expected.iter().copied().flatten().collect(), nulls, len);
            assert_eq!((0..lane.len()).map(|i| lane.get(i)).collect::<Vec<_>>(), expected, "{modulus} {len}");
            assert_eq!(lane.len(), len);
            assert!((0..len).all(|i| lane.get(i).is_some() || lane.value(i) == 0));
        }
    }
}

#[test]
fn a_stretch_of_one_value_is_known() {
    let mut values = vec![7; 300];
    values[100..200].fill(9);
    let mut nulls = NullMask::default();
    (250..300).for_each(|i| nulls.set(i, true));
    let plain = Lane::plain(values.clone(), NullMask::default());
    let with_nulls = Lane::plain(values, nulls);
    for lane in [plain.pack(), plain, Lane::constant(Some(3), 300), Lane::constant(None, 300), with_nulls] {
        for (start, len) in [(0, 0), (0, 1), (0, 100), (0, 101), (99, 2), (100, 100), (200, 50), (249, 2), (250, 50)] {
            let expected = (start..start + len).all(|i| lane.get(i) == lane.get(start));
            assert_eq!(lane.is_constant(start, len), expected, "{start} {len} {lane:?}");
        }
    }
}
