//! What the JSON functions have in common: their arguments, the type of their result, and the
//! memory of their output.

use crate::canonical::exponent_bytes;
use crate::kind::{JsonKind, kind_of, with_kind};
use crate::values::Values;
use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use fleetdb_engine::{Code, Error};
use fleetdb_functions::arguments::is_text;
use fleetdb_functions::errors::{query_error, sql_name};
use fleetdb_functions::expressions::are_constant;
use fleetdb_functions::function_memory::FunctionMemory;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The size of the largest float without an exponent.
const MAX_FLOAT_BYTES: f64 = 310.0;

/// What an argument may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// A text.
    Text,
    /// A text or an integer.
    Step,
    /// A text or an array.
    Path,
    /// A boolean.
    Boolean,
    /// An array.
    Array,
    /// A row, or JSON.
    Row,
    /// Anything.
    Any,
}

impl Takes {
    /// The type to which an argument is converted; `None` if it is not accepted.
    fn coerced(self, of: &DataType) -> Option<DataType> {
        let is_text = is_text(of);
        match self {
            Self::Text | Self::Step | Self::Path if is_text => Some(DataType::Utf8),
            Self::Step if of.is_integer() => Some(DataType::Int64),
            Self::Boolean if matches!(of, DataType::Boolean | DataType::Null) => Some(DataType::Boolean),
            Self::Path | Self::Array if matches!(of, DataType::List(_)) => Some(of.clone()),
            Self::Array if *of == DataType::Null => Some(of.clone()),
            Self::Row if is_text || matches!(of, DataType::Struct(_)) => Some(of.clone()),
            Self::Any => Some(of.clone()),
            _ => None,
        }
    }
}

/// The type of a result.
#[derive(Clone, Debug)]
pub(super) enum Gives {
    /// JSON of this kind.
    Json(JsonKind),
    /// JSON of the first argument's kind.
    LikeFirst,
    /// Another type.
    Type(DataType),
}

/// A JSON function.
#[derive(Debug)]
pub(super) struct JsonFunction {
    pub(super) name: &'static str,
    pub(super) takes: &'static [Takes],
    /// What further arguments may be, and how many of the first ones are needed.
    pub(super) rest: Option<Takes>,
    pub(super) needs: usize,
    pub(super) gives: Gives,
    /// The output's size is at most this multiple of the arguments'.
    pub(super) grows: f64,
    pub(super) of: fn(&Call<'_>) -> Result<ArrayRef>,
    pub(super) made: Arc<FunctionMemory>,
    pub(super) signature: Signature,
}

/// The signature of all of them: [`JsonFunction::coerce_types`] decides.
pub(super) fn signature() -> Signature {
    Signature::user_defined(Volatility::Immutable)
}

impl PartialEq for JsonFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for JsonFunction {}

impl Hash for JsonFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The error for a call with other types of arguments.
pub(super) fn no_such_call(name: &str, types: &[DataType]) -> DataFusionError {
    let types: Vec<_> = types.iter().map(sql_name).collect();
    let message = format!("function {name}({}) does not exist", types.join(", "));
    query_error(
        Error::new(Code::UndefinedFunction, message).with_hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        ),
    )
}

impl ScalarUDFImpl for JsonFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let wrong = || no_such_call(self.name, types);
        if types.len() < self.needs {
            return Err(wrong());
        }
        let takes = |place: usize| self.takes.get(place).copied().or(self.rest);
        let coerced = types.iter().enumerate().map(|(place, of)| takes(place)?.coerced(of));
        coerced.collect::<Option<Vec<_>>>().ok_or_else(wrong)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(match &self.gives {
            Gives::Type(data_type) => data_type.clone(),
            _ => DataType::Utf8,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let plain = |of: &DataType| Field::new(self.name, of.clone(), true);
        Ok(Arc::new(match &self.gives {
            Gives::Type(data_type) => plain(data_type),
            Gives::Json(kind) => {
                let of = args.arg_fields.first().map(|first| first.data_type());
                if let Some(of) = of.filter(|of| matches!(self.name, "json" | "jsonb") && !is_text(of)) {
                    let message = format!("cannot cast type {} to {}", sql_name(of), self.name);
                    return Err(query_error(Error::new(Code::CannotCast, message)));
                }
                with_kind(plain(&DataType::Utf8), *kind)
            }
            Gives::LikeFirst => {
                let kind = args.arg_fields.first().and_then(|first| kind_of(first));
                with_kind(plain(&DataType::Utf8), kind.unwrap_or(JsonKind::Json))
            }
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = are_constant(&args.args);
        let rows = if is_constant { 1 } else { args.number_rows };
        let mut bytes = args.args.iter().map(|arg| bytes(arg, rows)).sum::<f64>() * self.grows;
        if matches!(self.gives, Gives::Json(JsonKind::Jsonb)) || self.name == "jsonb_pretty" {
            bytes += args.args.iter().map(|arg| digit_bytes(arg, rows)).sum::<Result<f64>>()?;
        }
        self.made.call(self.name, args, bytes, |args| {
            let call = Call { name: self.name, args: &args.args, fields: &args.arg_fields, rows };
            let made = (self.of)(&call)?;
            Ok(match is_constant {
                true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
                false => ColumnarValue::Array(made),
            })
        })
    }
}

/// The size of an argument over all rows.
fn bytes(arg: &ColumnarValue, rows: usize) -> f64 {
    match arg {
        ColumnarValue::Scalar(value) => (value.size() * rows) as f64,
        ColumnarValue::Array(values) => {
            let of_rows = values.to_data().get_slice_memory_size();
            of_rows.unwrap_or_else(|_| values.get_array_memory_size()) as f64
        }
    }
}

/// The size of the digits that `jsonb` writes for numbers with exponents.
fn digit_bytes(arg: &ColumnarValue, rows: usize) -> Result<f64> {
    match arg {
        ColumnarValue::Array(values) => digits_of(values),
        ColumnarValue::Scalar(value) => Ok(digits_of(&value.to_array()?)? * rows as f64),
    }
}

fn digits_of(values: &ArrayRef) -> Result<f64> {
    Ok(match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().iter().flatten().map(exponent_bytes).sum(),
        DataType::LargeUtf8 | DataType::Utf8View => digits_of(&cast(values, &DataType::Utf8)?)?,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => values.len() as f64 * MAX_FLOAT_BYTES,
        DataType::List(_) => digits_of(values.as_list::<i32>().values())?,
        DataType::Struct(_) => values.as_struct().columns().iter().map(digits_of).sum::<Result<f64>>()?,
        _ => 0.0,
    })
}

/// A running call.
pub(super) struct Call<'a> {
    pub(super) name: &'static str,
    pub(super) args: &'a [ColumnarValue],
    pub(super) fields: &'a [FieldRef],
    /// The rows of the result; 1 if all arguments are constant.
    pub(super) rows: usize,
}

impl Call<'_> {
    pub(super) fn arg(&self, place: usize) -> Result<&ColumnarValue> {
        self.args.get(place).ok_or_else(|| no_such_call(self.name, &[]))
    }

    pub(super) fn kind(&self, place: usize) -> Option<JsonKind> {
        self.fields.get(place).and_then(|field| kind_of(field))
    }

    /// An argument as texts.
    pub(super) fn texts(&self, place: usize) -> Result<Texts> {
        Texts::of(self.arg(place)?)
    }

    /// An argument as values to write in JSON.
    pub(super) fn values(&self, place: usize) -> Result<Values> {
        let field = self.fields.get(place).ok_or_else(|| no_such_call(self.name, &[]))?;
        Values::of(self.arg(place)?, field)
    }
}

/// Texts of an argument. A constant is not repeated for each row.
pub(super) struct Texts {
    texts: StringArray,
    is_one: bool,
}

impl Texts {
    pub(super) fn of(arg: &ColumnarValue) -> Result<Self> {
        let (texts, is_one) = match arg {
            ColumnarValue::Array(texts) => (Arc::clone(texts), false),
            ColumnarValue::Scalar(text) => (text.to_array()?, true),
        };
        Ok(Self { texts: cast(&texts, &DataType::Utf8)?.as_string::<i32>().clone(), is_one })
    }

    pub(super) fn get(&self, row: usize) -> Option<&str> {
        let row = if self.is_one { 0 } else { row };
        (row < self.texts.len() && self.texts.is_valid(row)).then(|| self.texts.value(row))
    }
}

/// Builds a column of texts. Arrow's columns hold at most 2 GiB.
pub(super) struct TextsOut {
    texts: StringBuilder,
    bytes: usize,
}

impl TextsOut {
    pub(super) fn new(rows: usize) -> Self {
        Self { texts: StringBuilder::with_capacity(rows, 0), bytes: 0 }
    }

    pub(super) fn push(&mut self, text: Option<&str>) -> Result<()> {
        self.bytes += text.map_or(0, str::len);
        if self.bytes > i32::MAX as usize {
            let message = "the texts of a JSON function are too large: they have more than 2 GiB together";
            return Err(query_error(Error::new(Code::LimitExceeded, message)));
        }
        self.texts.append_option(text);
        Ok(())
    }

    pub(super) fn finish(mut self) -> ArrayRef {
        Arc::new(self.texts.finish())
    }
}
