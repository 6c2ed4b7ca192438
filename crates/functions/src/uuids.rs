//! UUIDs: from and to text, and random ones.

use crate::arguments::misuse;
use crate::errors::{misfit, query_error};
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, FixedSizeBinaryBuilder, RecordBatch, RecordBatchOptions,
    StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::datatype::DataTypeExt;
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SimpleScalarUDF, Volatility,
};
use fleetdb_engine::{ColumnType, Uuid};
use std::sync::{Arc, LazyLock};

/// Bytes of a UUID.
const BYTES: i32 = 16;

/// Parses a text as a UUID.
pub static UUID_OF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::exact(vec![DataType::Utf8], Volatility::Immutable);
    let of = Arc::new(make_scalar_function(uuids_of, Vec::new()));
    Arc::new(SimpleScalarUDF::new_with_signature("uuid_of", signature, ColumnType::UUID, of).into())
});

/// The bytes of a UUID as a literal's value.
///
/// # Errors
/// The text is not a UUID.
pub fn uuid_literal(text: &str) -> Result<ScalarValue> {
    let uuid = Uuid::try_parse(text.trim()).map_err(|_| query_error(misfit(text, &ColumnType::UUID)))?;
    Ok(ScalarValue::FixedSizeBinary(BYTES, Some(uuid.as_bytes().to_vec())))
}

/// A schema with texts in place of UUIDs.
pub fn schema_with_texts(schema: &SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| field.data_type() == &ColumnType::UUID) {
        return Arc::clone(schema);
    }
    let field = |field: &FieldRef| match field.data_type() {
        &ColumnType::UUID => Arc::new(Field::new(field.name(), DataType::Utf8, field.is_nullable())),
        _ => Arc::clone(field),
    };
    Arc::new(Schema::new_with_metadata(
        schema.fields().iter().map(field).collect::<Vec<_>>(),
        schema.metadata().clone(),
    ))
}

/// Rows with texts in place of UUIDs, for output that people or other programs read.
pub fn rows_with_texts(rows: &RecordBatch) -> RecordBatch {
    let schema = schema_with_texts(rows.schema_ref());
    if Arc::ptr_eq(&schema, rows.schema_ref()) {
        return rows.clone();
    }
    let column = |column: &ArrayRef| match column.as_fixed_size_binary_opt() {
        Some(uuids) if column.data_type() == &ColumnType::UUID => texts_of(uuids),
        _ => Arc::clone(column),
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let columns = rows.columns().iter().map(column).collect();
    RecordBatch::try_new_with_options(schema, columns, &options).unwrap_or_else(|_| rows.clone())
}

/// UUIDs as PostgreSQL writes them: `6ba7b810-9dad-11d1-80b4-00c04fd430c8`.
pub(crate) fn texts_of(uuids: &FixedSizeBinaryArray) -> ArrayRef {
    let text = |bytes: Option<&[u8]>| Uuid::from_slice(bytes?).ok().map(|uuid| uuid.to_string());
    Arc::new(uuids.iter().map(text).collect::<StringArray>())
}

/// The UUIDs that texts say.
pub(crate) fn uuids_of(args: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = args.first().ok_or_else(|| misuse("an argument is missing".to_owned()))?;
    let mut uuids = FixedSizeBinaryBuilder::with_capacity(texts.len(), BYTES);
    for text in texts.as_string::<i32>() {
        match text {
            None => uuids.append_null(),
            Some(text) => {
                let uuid = Uuid::try_parse(text.trim()).map_err(|_| query_error(misfit(text, &ColumnType::UUID)))?;
                uuids.append_value(uuid.as_bytes())?;
            }
        }
    }
    Ok(Arc::new(uuids.finish()))
}

/// `gen_random_uuid()`: DataFusion's `uuid`, which returns text, as UUIDs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct RandomUuid {
    text: Arc<ScalarUDF>,
    signature: Signature,
}

impl RandomUuid {
    /// `text` is DataFusion's function.
    pub(crate) fn new(text: Arc<ScalarUDF>) -> Self {
        Self { text, signature: Signature::nullary(Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for RandomUuid {
    fn name(&self) -> &str {
        "gen_random_uuid"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(ColumnType::UUID)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let args =
            ScalarFunctionArgs { return_field: self.text.inner().return_type(&[])?.into_nullable_field_ref(), ..args };
        let texts = cast(&self.text.invoke_with_args(args)?.into_array(rows)?, &DataType::Utf8)?;
        Ok(ColumnarValue::Array(uuids_of(&[texts])?))
    }
}

#[cfg(test)]
#[path = "uuids_tests.rs"]
mod tests;
