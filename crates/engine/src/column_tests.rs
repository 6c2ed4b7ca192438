use super::*;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;

#[test]
fn values_of_another_column_are_appended_as_one_by_one() {
    let mut other = BytesBuilder::with_capacity(5, 9);
    for value in [Some(&b"one"[..]), None, Some(b""), Some(b"three"), None] {
        other.push(value);
    }
    for start in 0..=other.len() {
        for len in 0..=other.len() - start {
            let (mut at_once, mut one_by_one) = (BytesBuilder::default(), BytesBuilder::default());
            for _ in 0..2 {
                at_once.extend(&other, start, len);
                (start..start + len).for_each(|row| one_by_one.push(other.get(row)));
            }
            let values = |column: &BytesBuilder| -> Vec<_> {
                (0..column.len()).map(|row| column.get(row).map(<[u8]>::to_vec)).collect()
            };
            assert_eq!(values(&at_once), values(&one_by_one), "{len} from {start}");
            let nulls = |column: &BytesBuilder| column.nulls().nulls();
            assert_eq!((at_once.offsets.len(), nulls(&at_once)), (one_by_one.offsets.len(), nulls(&one_by_one)));
        }
    }
}

#[test]
fn values_that_do_not_fit_become_null() {
    let (mut numbers, mut texts) = (ColumnBuilder::new(ColumnType::Int64), ColumnBuilder::new(ColumnType::Utf8));
    numbers.push(KeyPart::Raw(7));
    texts.push(KeyPart::Bytes(b"seven"));
    let (one, other) = (numbers.clone(), texts.clone());
    numbers.extend(&other, 0, 1);
    texts.extend(&one, 0, 1);
    numbers.extend(&one, 0, 1);
    texts.extend(&other, 0, 1);
    let numbers = numbers.finish(ColumnType::Int64).unwrap();
    assert_eq!(numbers.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(7), None, Some(7)]);
    let texts = texts.finish(ColumnType::Utf8).unwrap();
    assert_eq!(texts.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("seven"), None, Some("seven")]);
}
