//! Casts of `jsonb` scalars: `(payload -> 'level')::int` is the number itself.

use crate::canonical::put_number;
use crate::kind::{JsonKind, kind_of, with_kind};
use crate::reader::{Form, form_of, whole};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use fleetdb_engine::{Code, Error};
use fleetdb_functions::arguments::misuse;
use fleetdb_functions::errors::{query_error, sql_name};
use fleetdb_functions::expressions::on_arrays;
use std::sync::Arc;

/// The expression that casts JSON of this kind to another type.
///
/// # Errors
/// There is no such cast.
pub fn cast_of(expr: Expr, kind: JsonKind, to: &DataType) -> Result<Expr> {
    let is_text = matches!(to, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_scalar = kind == JsonKind::Jsonb && (to.is_numeric() || *to == DataType::Boolean);
    if !is_text && !is_scalar {
        let message = format!("cannot cast type {} to {}", kind.sql_name(), sql_name(to));
        return Err(query_error(Error::new(Code::CannotCast, message)));
    }
    let cast = Scalar { to: to.clone(), signature: Signature::any(1, Volatility::Immutable) };
    Ok(ScalarUDF::new_from_impl(cast).call(vec![expr]))
}

/// The value of a JSON text as a value of another type; the text itself for a text.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Scalar {
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Scalar {
    fn name(&self) -> &str {
        "json_scalar"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        on_arrays(&args, |columns| {
            let [values] = columns else { return Err(misuse("a cast has one argument".to_owned())) };
            let texts = cast(values, &DataType::Utf8)?;
            scalars(texts.as_string::<i32>(), &self.to)
        })
    }
}

fn scalars(texts: &StringArray, to: &DataType) -> Result<ArrayRef> {
    let mismatch = |form: Form| misuse(format!("cannot cast jsonb {} to type {}", words(form), sql_name(to)));
    let number = |text: &str| -> Result<String> {
        let text = whole(text)?;
        match form_of(text)? {
            Form::Number => {
                let mut plain = String::new();
                put_number(text, &mut plain)?;
                Ok(plain)
            }
            form => Err(mismatch(form)),
        }
    };
    if *to == DataType::Boolean {
        let truth = |text: &str| match (form_of(text)?, whole(text)?) {
            (Form::Boolean, text) => Ok(text == "true"),
            (form, _) => Err(mismatch(form)),
        };
        let truths = texts.iter().map(|text| text.map(truth).transpose());
        return Ok(Arc::new(truths.collect::<Result<BooleanArray>>()?));
    }
    let beyond = || query_error(Error::new(Code::OutOfRange, format!("{} out of range", sql_name(to))));
    if matches!(to, DataType::UInt64) || !to.is_numeric() {
        let texts: StringArray = match to.is_numeric() {
            true => texts.iter().map(|text| text.map(number).transpose()).collect::<Result<_>>()?,
            false => texts.clone(),
        };
        return converted(&(Arc::new(texts) as ArrayRef), to).map_err(|_| beyond());
    }
    if to.is_integer() {
        let whole = |text: &str| whole_of(&number(text)?).ok_or_else(beyond);
        let numbers = texts.iter().map(|text| text.map(whole).transpose()).collect::<Result<Int64Array>>()?;
        return converted(&(Arc::new(numbers) as ArrayRef), to).map_err(|_| beyond());
    }
    let numbers = texts.iter().map(|text| text.map(number).transpose()).collect::<Result<StringArray>>()?;
    converted(&(Arc::new(numbers) as ArrayRef), to).map_err(|_| beyond())
}

fn converted(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(values, to, &CastOptions { safe: false, ..CastOptions::default() })?)
}

/// How PostgreSQL names a value in the error of a cast.
fn words(form: Form) -> &'static str {
    match form {
        Form::Number => "numeric",
        other => other.name(),
    }
}

/// A number rounded to an integer, halves away from zero; `None` if it is out of range.
fn whole_of(number: &str) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole_number: i128 = whole.parse().ok()?;
    let is_half = fraction.as_bytes().first().is_some_and(|digit| *digit >= b'5');
    let away = if number.starts_with('-') { -1 } else { 1 };
    i64::try_from(if is_half { whole_number + away } else { whole_number }).ok()
}

/// Marks an expression whose metadata DataFusion drops, such as a CASE, as JSON of this kind.
pub fn marked(expr: Expr, kind: JsonKind) -> Expr {
    mark(kind).call(vec![expr])
}

/// The function that marks its argument as JSON of this kind.
pub(super) fn mark(kind: JsonKind) -> ScalarUDF {
    ScalarUDF::new_from_impl(Mark { kind, signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark {
    kind: JsonKind,
    signature: Signature,
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &str {
        match self.kind {
            JsonKind::Json => "as_json",
            JsonKind::Jsonb => "as_jsonb",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| misuse("an argument is missing".to_owned()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let of = args.arg_fields.first().ok_or_else(|| misuse("an argument is missing".to_owned()))?;
        Ok(Arc::new(with_kind(Field::new(self.name(), of.data_type().clone(), true), self.kind)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args.into_iter().next().ok_or_else(|| misuse("an argument is missing".to_owned()))
    }
}

/// The kind of an expression's values.
///
/// # Errors
/// The expression has no type.
pub fn kind_of_expr(expr: &Expr, schema: &datafusion::common::DFSchema) -> Result<Option<JsonKind>, DataFusionError> {
    use datafusion::logical_expr::ExprSchemable;
    Ok(kind_of(&expr.to_field(schema)?.1))
}

#[cfg(test)]
#[path = "scalars_tests.rs"]
mod tests;
