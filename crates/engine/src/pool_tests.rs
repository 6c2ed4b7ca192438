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
