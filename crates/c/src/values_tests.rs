use super::*;
use arrow::array::{
    BooleanArray, Decimal128Array, DictionaryArray, FixedSizeBinaryArray, Float32Array, Int64Array, ListArray,
    StringArray, TimestampMillisecondArray, UInt64Array,
};
use std::sync::Arc;

fn first(array: impl Array + 'static) -> Cell {
    cell(&(Arc::new(array) as ArrayRef), 0).unwrap()
}

fn given(array: impl Array + 'static) -> Value {
    parameter(&(Arc::new(array) as ArrayRef), 0).unwrap()
}

#[test]
fn a_cell_is_a_number_where_c_has_one_and_a_text_elsewhere() {
    assert_eq!(first(Int64Array::from(vec![None, Some(1)])), Cell::Null);
    assert_eq!(first(UInt64Array::from(vec![7])), Cell::Integer(7));
    assert_eq!(first(UInt64Array::from(vec![u64::MAX])), Cell::Text("18446744073709551615".to_owned()));
    assert_eq!(first(BooleanArray::from(vec![true])), Cell::Boolean(true));
    assert_eq!(first(Float32Array::from(vec![0.5])), Cell::Real(0.5));
    assert_eq!(first(TimestampMillisecondArray::from(vec![-1])), Cell::Integer(-1));
    let decimal = Decimal128Array::from(vec![-1250]).with_precision_and_scale(6, 2).unwrap();
    assert_eq!(first(decimal), Cell::Text("-12.50".to_owned()));
    let list = ListArray::from_iter_primitive::<types::Int64Type, _, _>([Some(vec![Some(1), None])]);
    assert_eq!(first(list), Cell::Text("{1,NULL}".to_owned()));
    let uuid = FixedSizeBinaryArray::try_from_iter([[1u8; 16]].iter()).unwrap();
    assert_eq!(first(uuid), Cell::Text("01010101-0101-0101-0101-010101010101".to_owned()));
    let short = FixedSizeBinaryArray::try_from_iter([[1u8; 2]].iter()).unwrap();
    assert_eq!(first(short), Cell::Blob(vec![1, 1]));
}

#[test]
fn a_parameter_keeps_the_instant_and_the_digits() {
    let time = TimestampMillisecondArray::from(vec![1_500]);
    assert_eq!(given(time.clone()), Value::Text("1970-01-01T00:00:01.500".to_owned()));
    assert_eq!(given(time.with_timezone("+02:00")), Value::Text("1970-01-01T02:00:01.500+02:00".to_owned()));
    let decimal = Decimal128Array::from(vec![1250]).with_precision_and_scale(6, 2).unwrap();
    assert_eq!(given(decimal), Value::Decimal(Decimal { unscaled: 1250, scale: 2 }));
    let texts: DictionaryArray<types::Int32Type> = vec!["a", "b"].into_iter().collect();
    assert_eq!(given(texts), Value::Text("a".to_owned()));
    let list = ListArray::from_iter_primitive::<types::Int64Type, _, _>([Some(vec![Some(1), None])]);
    let array = ArrayValue::new(ArrayElement::Int64, &[Value::Int(1), Value::Null]).unwrap();
    assert_eq!(given(list), Value::Array(array));
    assert_eq!(given(StringArray::from(vec![None::<&str>])), Value::Null);
}

#[test]
fn a_column_takes_texts_and_numbers_in_its_own_form() {
    let price = ColumnType::Decimal { precision: 6, scale: 2 };
    assert_eq!(for_column(Value::Float(0.1), price).unwrap(), Value::Decimal(Decimal { unscaled: 10, scale: 2 }));
    assert_eq!(for_column(Value::Int(1), ColumnType::Boolean).unwrap(), Value::Boolean(true));
    assert_eq!(for_column(Value::Int(2), ColumnType::Boolean).unwrap(), Value::Int(2));
    assert_eq!(for_column("1970-01-02".into(), ColumnType::Date32).unwrap(), Value::Int(1));
    assert_eq!(for_column("7".into(), ColumnType::Utf8).unwrap(), Value::Text("7".to_owned()));
    assert_eq!(for_column("x".into(), ColumnType::Int64).unwrap_err().code(), Code::InvalidText);
}
