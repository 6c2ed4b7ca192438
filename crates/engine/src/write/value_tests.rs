use super::*;

#[test]
fn arrays_have_the_text_form_of_postgresql() {
    let texts = ["a", "", "null", "x y", "q\"\\", "{"].map(|text| Value::Text(text.to_owned()));
    let array = ArrayValue::new(ArrayElement::Utf8, &texts).unwrap();
    assert_eq!(array.to_string(), r#"{a,"","null","x y","q\"\\","{"}"#);
    let array = ArrayValue::new(ArrayElement::Boolean, &[Value::Boolean(true), Value::Null]).unwrap();
    assert_eq!(array.to_string(), "{t,NULL}");
    assert_eq!(ArrayValue::new(ArrayElement::Float64, &[]).unwrap().to_string(), "{}");
}

#[test]
fn an_element_that_does_not_fit_is_refused() {
    let error = ArrayValue::new(ArrayElement::Int16, &[Value::Int(1), Value::Int(40_000)]).unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange);
    assert!(ArrayValue::new(ArrayElement::Int32, &["1".into()]).is_err());
}

#[test]
fn a_column_takes_arrays_of_its_elements_only() {
    let array = Value::Array(ArrayValue::new(ArrayElement::Int32, &[Value::Int(1)]).unwrap());
    assert!(array.fits(ColumnType::Array(ArrayElement::Int32)));
    assert!(!array.fits(ColumnType::Array(ArrayElement::Int64)));
    assert!(!array.fits(ColumnType::Binary));
    assert!(!Value::from("{1}").fits(ColumnType::Array(ArrayElement::Int32)));
}
