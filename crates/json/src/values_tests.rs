use super::{Values, iso};
use crate::kind::{JsonKind, json_field};
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;

fn written(value: ScalarValue, field: &Field) -> String {
    let mut out = String::new();
    Values::of(&ColumnarValue::Scalar(value), field).unwrap().put(0, &mut out);
    out
}

#[test]
fn values_are_written_as_postgres_does() {
    let plain = Field::new("", DataType::Utf8, true);
    let list = ScalarValue::List(ScalarValue::new_list_nullable(
        &[ScalarValue::Int64(Some(1)), ScalarValue::Int64(None)],
        &DataType::Int64,
    ));
    let list_field = Field::new("", list.data_type(), true);
    for (value, field, text) in [
        (ScalarValue::from("a\"b"), &plain, r#""a\"b""#),
        (ScalarValue::from("{}"), &json_field("", JsonKind::Json), "{}"),
        (ScalarValue::Utf8(None), &plain, "null"),
        (ScalarValue::Null, &plain, "null"),
        (ScalarValue::Boolean(Some(true)), &plain, "true"),
        (ScalarValue::Float64(Some(2.0)), &plain, "2"),
        (ScalarValue::Float64(Some(f64::NAN)), &plain, "\"NaN\""),
        (ScalarValue::Float64(Some(f64::INFINITY)), &plain, "\"Infinity\""),
        (ScalarValue::Float64(Some(1e20)), &plain, "1e+20"),
        (ScalarValue::Decimal128(Some(150), 10, 2), &plain, "1.50"),
        (ScalarValue::TimestampMicrosecond(Some(1_500_000), None), &plain, "\"1970-01-01T00:00:01.5\""),
        (ScalarValue::TimestampSecond(Some(1), Some("UTC".into())), &plain, "\"1970-01-01T00:00:01+00:00\""),
        (ScalarValue::Date32(Some(0)), &plain, "\"1970-01-01\""),
        (ScalarValue::Binary(Some(vec![1, 255])), &plain, r#""\\x01ff""#),
        (list, &list_field, "[1,null]"),
    ] {
        assert_eq!(written(value, field), text);
    }
}

#[test]
fn offsets_have_minutes() {
    assert_eq!(iso("2026-01-01 00:00:00+02", true), "2026-01-01T00:00:00+02:00");
    assert_eq!(iso("2026-01-01 00:00:00.5-03:30", true), "2026-01-01T00:00:00.5-03:30");
    assert_eq!(iso("0044-03-15 00:00:00 BC", false), "0044-03-15T00:00:00 BC");
}
