use super::*;

#[test]
fn every_value_has_one_number_and_gives_it_back() {
    let mut pool = Pool::default();
    let mut values: Vec<Vec<u8>> = Vec::new();
    for len in 0..40 {
        for fill in [0u8, 1, 255] {
            values.push(vec![fill; len]);
            let mut last = vec![0; len];
            last.extend([fill, 7]);
            values.push(last);
        }
    }
    values.sort();
    values.dedup();
    let numbers: Vec<u32> = values.iter().map(|value| pool.intern(value)).collect();
    assert_eq!(pool.len(), values.len());
    for (value, &number) in values.iter().zip(&numbers) {
        assert_eq!(pool.intern(value), number);
        assert_eq!(pool.find(value), Some(number));
        assert_eq!(pool.get(number), value);
    }
    assert_eq!(pool.find(b"not there"), None);
    assert_eq!(pool.find(b"this longer one is not there"), None);
    assert_eq!(pool.take_unlogged().len(), values.len());
    assert_eq!(pool.take_unlogged().len(), 0);
}

#[test]
fn values_longer_than_a_block_and_at_its_end_are_given_back() {
    let lens = [3, BLOCK_BYTES - 3, 0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, 2, 0, 3 * BLOCK_BYTES, BLOCK_BYTES - 1, 1, 1];
    let value = |place: usize| vec![place as u8; lens[place]];
    let mut pool = Pool::default();
    let numbers: Vec<u32> = (0..lens.len()).map(|place| pool.append(&value(place))).collect();
    for (place, &number) in numbers.iter().enumerate() {
        assert_eq!(pool.get(number), value(place), "{place}");
    }
    // Three blocks end with a value that left no room for the next one.
    assert!(pool.bytes() < lens.iter().sum::<usize>() + 4 * BLOCK_BYTES);
    assert_eq!(pool.entry_bytes(), lens.iter().sum::<usize>() / lens.len());
    // A value that was appended is not looked up.
    assert_ne!(pool.intern(&value(0)), numbers[0]);
}
