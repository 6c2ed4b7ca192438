use super::{cast_of, scalars, whole_of};
use crate::kind::JsonKind;
use arrow::array::{AsArray, StringArray};
use arrow::datatypes::{DataType, Float64Type, Int32Type};
use datafusion::logical_expr::lit;

#[test]
fn scalars_are_numbers_and_booleans() {
    let texts = |text: &str| StringArray::from(vec![Some(text), None]);
    let number =
        |text: &str| scalars(&texts(text), &DataType::Int32).map(|made| made.as_primitive::<Int32Type>().value(0));
    assert_eq!(number("7").unwrap(), 7);
    assert_eq!(number("2.5").unwrap(), 3);
    assert_eq!(number("-2.5").unwrap(), -3);
    assert_eq!(number("1e3").unwrap(), 1_000);
    for wrong in ["\"7\"", "null", "[7]", "true", "3000000000", "1e30", "7 8"] {
        assert!(number(wrong).is_err(), "{wrong}");
    }
    let float = scalars(&texts("1.5"), &DataType::Float64).unwrap();
    assert!((float.as_primitive::<Float64Type>().value(0) - 1.5).abs() < 1e-9);
    assert!(float.is_null(1));
    assert!(scalars(&texts("true"), &DataType::Boolean).unwrap().as_boolean().value(0));
    assert!(scalars(&texts("1"), &DataType::Boolean).is_err());
}

#[test]
fn numbers_are_rounded_away_from_zero() {
    assert_eq!(whole_of("-0.5"), Some(-1));
    assert_eq!(whole_of("9223372036854775807.4"), Some(i64::MAX));
    assert_eq!(whole_of("9223372036854775807.5"), None);
}

#[test]
fn only_jsonb_scalars_and_texts_can_be_cast() {
    assert!(cast_of(lit("1"), JsonKind::Json, &DataType::Int32).is_err());
    assert!(cast_of(lit("1"), JsonKind::Json, &DataType::Utf8).is_ok());
    assert!(cast_of(lit("1"), JsonKind::Jsonb, &DataType::Date32).is_err());
}
