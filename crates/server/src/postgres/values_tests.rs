use super::*;

#[test]
fn a_uuid_is_itself_and_for_a_text_column_its_text() {
    let bytes: Vec<u8> = (0..16).collect();
    let text = "00010203-0405-0607-0809-0a0b0c0d0e0f";
    let uuid = Value::Uuid(Uuid::try_parse(text).unwrap());
    for (target, expected) in [
        (Target::Unknown, uuid.clone()),
        (Target::Column(ColumnType::Uuid), uuid.clone()),
        (Target::Column(ColumnType::Utf8), Value::Text(text.to_owned())),
    ] {
        assert_eq!(parameter(&bytes, true, &Type::UUID, target, Zone::Utc), Ok(expected));
    }
    assert_eq!(parameter(text.as_bytes(), false, &Type::UUID, Target::Unknown, Zone::Utc), Ok(uuid));
    assert!(parameter(&bytes[1..], true, &Type::UUID, Target::Unknown, Zone::Utc).is_err());
}
