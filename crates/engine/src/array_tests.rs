use super::*;

#[test]
fn cut_bytes_are_no_array() {
    let mut builder = ArrayBuilder::new(ArrayElement::Utf8);
    let parts = [KeyPart::Bytes(b"abc"), KeyPart::Null, KeyPart::Bytes(b"")];
    parts.iter().for_each(|part| builder.push(*part));
    let mut bytes = Vec::new();
    builder.finish(&mut bytes).unwrap();
    let read = |bytes: &[u8]| -> Result<Vec<bool>> {
        let mut elements = Elements::read(ArrayElement::Utf8, bytes)?;
        let mut nulls = Vec::new();
        while let Some(part) = elements.next_element()? {
            nulls.push(part == KeyPart::Null);
        }
        Ok(nulls)
    };
    assert_eq!(read(&bytes).unwrap(), [false, true, false]);
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn numbers_come_back_with_their_signs() {
    for (element, raw) in
        [(ArrayElement::Int16, -7i64), (ArrayElement::Int32, i32::MIN.into()), (ArrayElement::Int64, -1)]
    {
        let mut builder = ArrayBuilder::new(element);
        builder.push(KeyPart::Raw(raw as u64));
        let mut bytes = Vec::new();
        builder.finish(&mut bytes).unwrap();
        let mut elements = Elements::read(element, &bytes).unwrap();
        assert_eq!(elements.next_element().unwrap(), Some(KeyPart::Raw(raw as u64)));
    }
}
