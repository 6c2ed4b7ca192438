use super::*;

fn key(parts: &[KeyPart<'_>]) -> Vec<u8> {
    encode(&[ColumnType::Utf8, ColumnType::Int64], parts.iter().copied())
}

#[test]
fn the_order_of_the_bytes_is_the_order_of_the_keys() {
    let text = |s: &'static str| KeyPart::Bytes(s.as_bytes());
    let number = |n: i64| KeyPart::Raw(n as u64);
    let ordered = [
        key(&[KeyPart::Null, KeyPart::Null]),
        key(&[KeyPart::Null, number(-1)]),
        key(&[text(""), number(3)]),
        key(&[text("a"), KeyPart::Null]),
        key(&[text("a"), number(i64::MIN)]),
        key(&[text("a"), number(-1)]),
        key(&[text("a"), number(0)]),
        key(&[text("a"), number(i64::MAX)]),
        key(&[text("a\0"), number(0)]),
        key(&[text("a\0b"), number(0)]),
        key(&[text("aa"), number(0)]),
        key(&[text("b"), KeyPart::Null]),
    ];
    for pair in ordered.windows(2) {
        assert!(pair[0] < pair[1], "{:?} < {:?}", pair[0], pair[1]);
    }
}

#[test]
fn a_key_decodes_to_what_was_encoded() {
    let bytes = key(&[KeyPart::Bytes(b"a\0\0b"), KeyPart::Raw(u64::MAX)]);
    let values = decode(&bytes, &[ColumnType::Utf8, ColumnType::Int64]).unwrap();
    assert_eq!(values, [KeyValue::Bytes(b"a\0\0b".to_vec()), KeyValue::Raw(u64::MAX)]);
    for (place, value) in values.into_iter().enumerate() {
        assert_eq!(decode_column(&bytes, &[ColumnType::Utf8, ColumnType::Int64], place).unwrap(), value);
    }
    assert_eq!(decode_column(&[], &[ColumnType::Utf8, ColumnType::Int64], 1).unwrap(), KeyValue::Null);
    assert!(decode_column(&[1, 65], &[ColumnType::Utf8, ColumnType::Int64], 1).is_err());
}

#[test]
fn a_key_column_added_later_is_null_in_old_keys() {
    let old = encode(&[ColumnType::Utf8], [KeyPart::Bytes(b"truck_1")]);
    let new = key(&[KeyPart::Bytes(b"truck_1"), KeyPart::Null]);
    assert_eq!(old, new);
}

#[test]
fn broken_keys_are_refused() {
    for bytes in [&[2u8][..], &[1, 65], &[1, 65, 0, 7], &[1, 0, 0, 1, 5], &[0, 0, 9]] {
        assert!(decode(bytes, &[ColumnType::Utf8, ColumnType::Int64]).is_err(), "{bytes:?}");
    }
}
