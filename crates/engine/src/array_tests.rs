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

#[test]
fn lists_of_nothing_fit_every_array_column() {
    use crate::io::{Io, MemoryStorage};
    use crate::{Batch, ColumnType, Database, ScanRequest, Settings, TableDefinition};
    use arrow::array::{ArrayRef, Int64Array, ListArray, NullArray, RecordBatch};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{DataType, Field};
    use std::sync::Arc;

    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let table = TableDefinition::new("t").key("id", ColumnType::Int64);
    db.create_table(&table.field("texts", ColumnType::Array(ArrayElement::Utf8))).unwrap();
    // An empty list, and one with NULL.
    let element = Arc::new(Field::new_list_field(DataType::Null, true));
    let lists = ListArray::new(element, OffsetBuffer::from_lengths([0, 1]), Arc::new(NullArray::new(1)), None);
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let rows = RecordBatch::try_from_iter([("id", ids), ("texts", Arc::new(lists) as ArrayRef)]).unwrap();
    db.commit(Batch::new().with("t", rows)).unwrap();
    let rows = db.view().table("t").unwrap().scan(&ScanRequest::all()).unwrap().next().unwrap().unwrap();
    let texts = rows.column(1).as_any().downcast_ref::<ListArray>().unwrap();
    assert_eq!((texts.value(0).len(), texts.value(1).len(), texts.value(1).null_count()), (0, 1, 1));
}
