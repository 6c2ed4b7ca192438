use super::*;

#[test]
fn a_uuid_is_read_in_every_form_and_written_in_one() {
    let text = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    for form in [
        text,
        "6BA7B810-9DAD-11D1-80B4-00C04FD430C8",
        "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}",
        "6ba7b8109dad11d180b400c04fd430c8",
    ] {
        let uuids = uuids_of(&[Arc::new(StringArray::from(vec![Some(form), None]))]).unwrap();
        let texts = texts_of(uuids.as_fixed_size_binary());
        assert_eq!(texts.as_string::<i32>().value(0), text);
        assert!(texts.is_null(1));
    }
    for wrong in ["", "6ba7b810", "6ba7b810-9dad-11d1-80b4-00c04fd430cg"] {
        let error = uuids_of(&[Arc::new(StringArray::from(vec![wrong]))]).unwrap_err();
        assert!(error.to_string().contains("invalid input syntax for type uuid"), "{error}");
    }
}
