use super::{Mapping, Own};
use crate::answer::{Cell, cells};
use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use std::sync::Arc;

fn mapping(text: &[(&str, &str)]) -> Mapping {
    let fields = text.iter().map(|(name, value)| ((*name).to_owned(), serde_json::Value::from(*value)));
    serde_json::from_value(fields.collect()).unwrap()
}

fn rows() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("At", Arc::new(Int64Array::from(vec![Some(1_000), Some(2_000), Some(1_000), None]))),
        ("Device", Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("a"), Some("c")]))),
        ("user", Arc::new(Float64Array::from(vec![Some(0.5), None, Some(1.5), Some(2.5)]))),
        ("2nd ok?", Arc::new(BooleanArray::from(vec![true, false, false, true]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn columns_get_names_and_types_that_every_database_has() {
    let own = Own::new(&mapping(&[("key", "Device"), ("time", "At"), ("time_unit", "ms")]), &[rows()]).unwrap();
    let names: Vec<&str> = own.table.columns.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["device", "ts", "c2nd_ok_", "user_"]);
    assert_eq!((own.table.key, own.left_out), (["device", "ts"].as_slice(), 1));
    let [batch] = own.batches.as_slice() else { panic!("{}", own.batches.len()) };
    assert_eq!(batch.num_rows(), 2, "the last of two with a key and a time");
    let second = [Cell::Text("a"), Cell::Time(1_000_000_000), Cell::Int(0), Cell::Float(1.5)];
    assert_eq!(cells(batch, 0).collect::<Vec<_>>()[1..], [Cell::Time(2_000_000_000), Cell::Int(0), Cell::Null]);
    assert_eq!(cells(batch, 1).collect::<Vec<_>>(), second);
}

#[test]
fn what_is_wrong_with_a_mapping_is_said() {
    let said = |text: &[(&str, &str)]| Own::new(&mapping(text), &[rows()]).err().unwrap().to_string();
    assert!(
        said(&[("key", "device"), ("time", "At")])
            .contains("\"device\" does not exist; the columns are At, Device, user, 2nd ok?")
    );
    assert!(said(&[("key", "Device"), ("time", "At")]).contains("set time_unit"));
    assert!(said(&[("key", "user"), ("time", "At")]).contains("neither an integer nor text"));
    assert!(said(&[("key", "Device"), ("time", "user"), ("time_unit", "s")]).contains("not timestamps"));
}
