//! The values of a column while lines are gathered, and which values of a line it takes.

use super::line::FieldValue;
use crate::column_type::{ColumnType, UUID_BYTES};
use crate::decimal::Decimal;
use arrow::array::{
    ArrayBuilder, ArrayRef, BooleanArray, Decimal128Array, FixedSizeBinaryBuilder, Float64Array, Int64Array,
    StringBuilder, UInt64Array,
};
use serde::de::IgnoredAny;
use std::sync::Arc;
use uuid::Uuid;

/// The values of a column, gathered line by line.
pub(super) enum Values {
    Float(Vec<Option<f64>>),
    Int(Vec<Option<i64>>),
    UInt(Vec<Option<u64>>),
    Boolean(Vec<Option<bool>>),
    Decimal(Vec<Option<i64>>, Digits),
    Text(StringBuilder),
    Json(StringBuilder),
    Uuid(FixedSizeBinaryBuilder),
    /// A column of a type that line protocol cannot write: a number of rows, all NULL.
    Other(usize),
}

impl Values {
    pub(super) fn new(column_type: ColumnType, rows: usize) -> Self {
        match column_type {
            ColumnType::Float64 => Self::Float(vec![None; rows]),
            ColumnType::Int64 => Self::Int(vec![None; rows]),
            ColumnType::UInt64 => Self::UInt(vec![None; rows]),
            ColumnType::Boolean => Self::Boolean(vec![None; rows]),
            ColumnType::Decimal { precision, scale } => Self::Decimal(vec![None; rows], Digits { precision, scale }),
            ColumnType::Utf8 | ColumnType::Json | ColumnType::Jsonb => {
                let mut texts = StringBuilder::new();
                texts.append_nulls(rows);
                if column_type.is_json() { Self::Json(texts) } else { Self::Text(texts) }
            }
            ColumnType::Uuid => {
                let mut uuids = FixedSizeBinaryBuilder::new(UUID_BYTES as i32);
                uuids.append_nulls(rows);
                Self::Uuid(uuids)
            }
            _ => Self::Other(rows),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Float(v) => v.len(),
            Self::Int(v) => v.len(),
            Self::UInt(v) => v.len(),
            Self::Boolean(v) => v.len(),
            Self::Decimal(v, _) => v.len(),
            Self::Text(v) | Self::Json(v) => v.len(),
            Self::Uuid(v) => v.len(),
            Self::Other(rows) => *rows,
        }
    }

    pub(super) fn push_null(&mut self) {
        match self {
            Self::Float(v) => v.push(None),
            Self::Int(v) => v.push(None),
            Self::UInt(v) => v.push(None),
            Self::Boolean(v) => v.push(None),
            Self::Decimal(v, _) => v.push(None),
            Self::Text(v) | Self::Json(v) => v.append_null(),
            Self::Uuid(v) => v.append_null(),
            Self::Other(rows) => *rows += 1,
        }
    }

    pub(super) fn takes(&self, value: &FieldValue<'_>) -> bool {
        match (self, value) {
            (Self::Decimal(_, digits), value) => return digits.of(value).is_some(),
            (Self::Json(_), FieldValue::Text(text)) => return serde_json::from_str::<IgnoredAny>(text).is_ok(),
            (Self::Uuid(_), FieldValue::Text(text)) => return Uuid::try_parse(text).is_ok(),
            _ => {}
        }
        matches!(
            (self, value),
            (Self::Float(_), FieldValue::Float(_) | FieldValue::Int(_) | FieldValue::UInt(_))
                | (Self::Int(_), FieldValue::Int(_))
                | (Self::UInt(_), FieldValue::UInt(_))
                | (Self::Boolean(_), FieldValue::Boolean(_))
                | (Self::Text(_), FieldValue::Text(_))
        )
    }

    pub(super) fn push(&mut self, value: FieldValue<'_>) {
        match (self, value) {
            (Self::Float(v), FieldValue::Float(value)) => v.push(Some(value)),
            (Self::Float(v), FieldValue::Int(value)) => v.push(Some(value as f64)),
            (Self::Float(v), FieldValue::UInt(value)) => v.push(Some(value as f64)),
            (Self::Int(v), FieldValue::Int(value)) => v.push(Some(value)),
            (Self::UInt(v), FieldValue::UInt(value)) => v.push(Some(value)),
            (Self::Boolean(v), FieldValue::Boolean(value)) => v.push(Some(value)),
            (Self::Decimal(v, digits), value) => v.push(digits.of(&value)),
            (Self::Text(v) | Self::Json(v), FieldValue::Text(value)) => v.append_value(value),
            (Self::Uuid(v), FieldValue::Text(value)) => match Uuid::try_parse(&value) {
                Ok(uuid) if v.append_value(uuid.as_bytes()).is_ok() => {}
                _ => v.append_null(),
            },
            // The caller has asked `takes`.
            (values, _) => values.push_null(),
        }
    }

    /// The values; `None` if no line has any.
    pub(super) fn into_array(self) -> Option<ArrayRef> {
        Some(match self {
            Self::Float(v) => Arc::new(Float64Array::from(v)),
            Self::Int(v) => Arc::new(Int64Array::from(v)),
            Self::UInt(v) => Arc::new(UInt64Array::from(v)),
            Self::Boolean(v) => Arc::new(BooleanArray::from(v)),
            Self::Decimal(v, digits) => {
                let Digits { precision, scale } = digits;
                let data_type = ColumnType::Decimal { precision, scale }.to_arrow();
                let values = v.into_iter().map(|value| value.map(i128::from));
                Arc::new(values.collect::<Decimal128Array>().with_data_type(data_type))
            }
            Self::Text(mut v) | Self::Json(mut v) => Arc::new(v.finish()),
            Self::Uuid(mut v) => Arc::new(v.finish()),
            Self::Other(_) => return None,
        })
    }
}

/// The digits of a decimal column.
#[derive(Clone, Copy)]
pub(super) struct Digits {
    precision: u8,
    scale: u8,
}

impl Digits {
    /// A number of a line without its decimal point, rounded to the column's digits; `None` if it has
    /// too many.
    fn of(self, value: &FieldValue<'_>) -> Option<i64> {
        let text = match value {
            // The shortest text that stands for the float is what the line says, up to 15 digits.
            FieldValue::Float(value) => value.to_string(),
            FieldValue::Int(value) => value.to_string(),
            FieldValue::UInt(value) => value.to_string(),
            _ => return None,
        };
        Decimal::parse(&text, self.precision, self.scale).ok().map(|number| number.unscaled)
    }
}
