use super::*;

#[test]
fn a_uuid_is_its_text() {
    let bytes: Vec<u8> = (0..16).collect();
    let text = Value::Text("00010203-0405-0607-0809-0a0b0c0d0e0f".to_owned());
    for target in [Target::Unknown, Target::Column(ColumnType::Utf8)] {
        assert_eq!(parameter(&bytes, true, &Type::UUID, target, Zone::Utc), Ok(text.clone()));
    }
    assert!(parameter(&bytes[1..], true, &Type::UUID, Target::Unknown, Zone::Utc).is_err());
}
