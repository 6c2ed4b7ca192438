//! Writes rows as lines of JSON. NaN and infinities, which JSON numbers cannot express, become the
//! texts `"NaN"`, `"Infinity"` and `"-Infinity"`. Column names are made distinct, because JSON
//! objects identify values by name.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::WriterBuilder;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, LineDelimited, NullableEncoder, make_encoder};
use fleetdb_engine::{Error, Result};
use fleetdb_functions::uuids::rows_with_texts;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// Makes column names distinct: a repeated name gets the suffix `_1`, `_2` and so on.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
/// let field = |name| Field::new(name, DataType::Int64, true);
/// let names = fleetdb_query::distinct_names(&Schema::new(vec![field("n"), field("n"), field("n_1"), field("n")]).into());
/// let names: Vec<&str> = names.fields().iter().map(|field| field.name().as_str()).collect();
/// assert_eq!(names, ["n", "n_2", "n_1", "n_3"]);
/// ```
pub fn distinct_names(schema: &SchemaRef) -> SchemaRef {
    let mut taken: HashSet<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    if taken.len() == schema.fields().len() {
        return Arc::clone(schema);
    }
    let mut seen = HashSet::new();
    let fields = schema.fields().iter().map(|field| {
        if seen.insert(field.name().clone()) {
            return Arc::clone(field);
        }
        let free = (1..).map(|number| format!("{}_{number}", field.name())).find(|name| taken.insert(name.clone()));
        Arc::new(field.as_ref().clone().with_name(free.unwrap_or_default()))
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Renames the columns of rows to those of another schema.
///
/// # Errors
/// The schema has other types.
pub fn with_names(rows: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if Arc::ptr_eq(rows.schema_ref(), schema) || rows.schema_ref() == schema {
        return Ok(rows);
    }
    // An operator may declare a column non-nullable where the plan's schema does not.
    let fields = rows.schema_ref().fields().iter().zip(schema.fields()).map(|(of_rows, named)| {
        if of_rows.name() == named.name() {
            return Arc::clone(of_rows);
        }
        Arc::new(of_rows.as_ref().clone().with_name(named.name()))
    });
    let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), rows.schema_ref().metadata().clone());
    let (_, columns, count) = rows.into_parts();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)
        .map_err(|e| Error::bug(format!("rows do not take other names: {e}")))
}

/// Appends a JSON object per row, each on its own line. NULLs are written as `null` if `has_nulls`
/// is set, and omitted otherwise.
///
/// # Errors
/// A type has no JSON form.
pub fn json_lines(rows: &RecordBatch, has_nulls: bool, out: &mut Vec<u8>) -> std::result::Result<(), ArrowError> {
    let builder = WriterBuilder::new().with_explicit_nulls(has_nulls).with_encoder_factory(Arc::new(Floats));
    let mut writer = builder.build::<_, LineDelimited>(out);
    writer.write(&rows_with_texts(rows)).and_then(|()| writer.finish())
}

/// Creates encoders for floats, including those JSON numbers cannot express.
#[derive(Debug)]
struct Floats;

/// The options for all other values.
static USUAL: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);

impl EncoderFactory for Floats {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> std::result::Result<Option<NullableEncoder<'a>>, ArrowError> {
        let special: Vec<Option<&'static str>> = match array.data_type() {
            DataType::Float32 => array.as_primitive::<Float32Type>().values().iter().map(|&v| name(v.into())).collect(),
            DataType::Float64 => array.as_primitive::<Float64Type>().values().iter().map(|&v| name(v)).collect(),
            _ => return Ok(None),
        };
        if special.iter().all(Option::is_none) {
            return Ok(None);
        }
        let usual = make_encoder(field, array, &USUAL)?;
        Ok(Some(NullableEncoder::new(Box::new(WithNames { special, usual }), array.nulls().cloned())))
    }
}

fn name(value: f64) -> Option<&'static str> {
    match value {
        f64::INFINITY => Some("\"Infinity\""),
        f64::NEG_INFINITY => Some("\"-Infinity\""),
        value if value.is_nan() => Some("\"NaN\""),
        _ => None,
    }
}

/// Writes names in place of the special values.
struct WithNames<'a> {
    special: Vec<Option<&'static str>>,
    usual: NullableEncoder<'a>,
}

impl Encoder for WithNames<'_> {
    fn encode(&mut self, idx: usize, out: &mut Vec<u8>) {
        match self.special.get(idx).copied().flatten() {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None => self.usual.encode(idx, out),
        }
    }
}
