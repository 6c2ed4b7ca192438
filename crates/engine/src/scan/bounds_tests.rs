use super::*;
use crate::key::{KeyPart, encode};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const TYPES: [ColumnType; 3] = [ColumnType::Utf8, ColumnType::Int16, ColumnType::UInt8];

fn part(random: &mut Xoshiro256PlusPlus, column_type: ColumnType) -> Vec<u8> {
    let texts: [&[u8]; 5] = [b"", b"a", b"a\0", b"ab", b"b"];
    let value = match column_type {
        _ if random.random_bool(0.2) => KeyPart::Null,
        ColumnType::Utf8 => KeyPart::Bytes(texts[random.random_range(0..texts.len())]),
        ColumnType::Int16 => KeyPart::Raw(random.random_range(-2..3i64) as u64),
        _ => KeyPart::Raw(random.random_range(0..4)),
    };
    let mut out = Vec::new();
    key::push(&mut out, column_type, value);
    out
}

#[test]
fn keys_that_pass_are_in_the_range() {
    let (mut inside, mut outside) = (0, 0);
    for seed in 0..3_000 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let tests = (0..random.random_range(0..4)).map(|_| {
            let part_of_key = random.random_range(0..TYPES.len());
            let mut value = || part(&mut random, TYPES[part_of_key]);
            let (mut any_of, from, to) = ([value(), value()].to_vec(), value(), value());
            any_of.truncate(random.random_range(1..3));
            any_of.sort_unstable();
            any_of.dedup();
            let mut bound = |value| match random.random_range(0..3) {
                0 => Bound::Included(value),
                1 => Bound::Excluded(value),
                _ => Bound::Unbounded,
            };
            let (from, to) = (bound(from), bound(to));
            match random.random_bool(0.5) {
                true => {
                    KeyTest { part: part_of_key, any_of: Some(any_of), from: Bound::Unbounded, to: Bound::Unbounded }
                }
                false => KeyTest { part: part_of_key, any_of: None, from, to },
            }
        });
        let tests: Vec<KeyTest> = tests.collect();
        let range = range_of(&tests, TYPES.len());
        let bounds = ScanBounds { key_types: TYPES.to_vec(), tests, ..ScanBounds::default() };
        for _ in 0..30 {
            let parts = TYPES.map(|column_type| part(&mut random, column_type));
            let key = key::join(&parts.each_ref());
            let is_inside = key >= range.first && !range.ends_before(&key);
            assert!(is_inside || !bounds.passes(&key).unwrap(), "seed {seed}, key {key:?}, range {range:?}");
            *(if is_inside { &mut inside } else { &mut outside }) += 1;
        }
    }
    assert!(inside > 10_000 && outside > 10_000, "{inside} {outside}");
}

#[test]
fn a_range_is_as_narrow_as_its_tests_allow() {
    let types = [ColumnType::Utf8, ColumnType::UInt8];
    let key = |text: &str, number: u64| encode(&types, [KeyPart::Bytes(text.as_bytes()), KeyPart::Raw(number)]);
    let part_of = |value: KeyPart<'_>, place: usize| {
        let mut out = Vec::new();
        key::push(&mut out, types[place], value);
        out
    };
    let only = KeyTest {
        part: 0,
        any_of: Some(vec![part_of(KeyPart::Bytes(b"x"), 0)]),
        from: Bound::Unbounded,
        to: Bound::Unbounded,
    };
    let above = KeyTest {
        part: 1,
        any_of: None,
        from: Bound::Excluded(part_of(KeyPart::Raw(3), 1)),
        to: Bound::Included(part_of(KeyPart::Raw(7), 1)),
    };
    let range = range_of(&[above.clone(), only], 2);
    assert_eq!(range, KeyRange { first: key("x", 3), last: key("x", 7) });
    assert!(range.ends_before(&key("x", 8)) && range.ends_before(&key("y", 0)));
    assert!(!range.ends_before(&key("x", 7)) && !range.ends_before(&key("a", 9)));
    // Without the first column, the second says nothing about the order.
    assert_eq!(range_of(&[above], 2), KeyRange::default());
}
