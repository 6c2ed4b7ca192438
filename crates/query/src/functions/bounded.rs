//! Functions that make much of little: a call asks `memory_limit` for what it makes before it is made. Without it a text of
//! `repeat` may have 2 GiB and an array of `range` 16, by DataFusion's own bounds, and who may only read can end the server.
//!
//! A call asks for what it makes, or for a few times as much where that is not known exactly, and is refused if there is no
//! room. What it has made stays counted until the same call makes the next rows, or the statement ends ([`FunctionMemory`]).

use super::function_memory::FunctionMemory;
use super::{are_constant, per_second};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{
    DataType, FieldRef, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const DAY_NS: f64 = 86_400e9;

/// What one call makes of a row's values, in bytes.
type RowBytes = fn(&Sizes) -> f64;

/// The functions, and what they make of a row.
const FUNCTIONS: [(&str, RowBytes); 14] = [
    ("repeat", |of| of.at(0).bytes * of.at(1).number),
    // A character has up to four bytes.
    ("lpad", |of| of.at(1).number * 4.0),
    ("rpad", |of| of.at(1).number * 4.0),
    ("replace", |of| of.at(0).bytes + (of.at(0).bytes / of.at(1).bytes.max(1.0) + 1.0) * of.at(2).bytes),
    // Without flags it replaces once.
    ("regexp_replace", |of| of.at(0).bytes + (of.at(3).bytes.min(1.0) * of.at(0).bytes + 1.0) * of.at(2).bytes),
    ("concat", |of| of.0.iter().map(|one| one.bytes).sum()),
    ("concat_ws", |of| of.0.iter().map(|one| one.bytes + of.at(0).bytes).sum()),
    ("array_concat", |of| of.0.iter().map(|one| one.bytes).sum()),
    ("array_repeat", |of| of.at(0).bytes * of.at(1).number),
    ("array_resize", |of| of.at(0).bytes + of.at(1).number * of.at(2).bytes.max(8.0)),
    ("array_to_string", |of| of.at(0).bytes + of.at(0).elements * (of.at(1).bytes + of.at(2).bytes + 24.0)),
    // A letter becomes seven digits at the most.
    ("to_char", |of| of.at(1).bytes * 7.0),
    ("range", span_bytes),
    ("generate_series", span_bytes),
];

/// What is known of a value.
#[derive(Clone, Copy, Default)]
struct Size {
    bytes: f64,
    /// Of an array.
    elements: f64,
    /// The number that it is; a time and an interval in nanoseconds; 0 for others.
    number: f64,
}

/// A row's values.
struct Sizes(Vec<Size>);

impl Sizes {
    fn at(&self, place: usize) -> Size {
        self.0.get(place).copied().unwrap_or_default()
    }
}

/// `range(end)`, `range(start, end)`, `range(start, end, step)` of numbers or times.
fn span_bytes(of: &Sizes) -> f64 {
    let (start, end, step) = match of.0.as_slice() {
        [end] => (0.0, end.number, 1.0),
        [start, end] => (start.number, end.number, 1.0),
        _ => (of.at(0).number, of.at(1).number, of.at(2).number),
    };
    // A step of 0 is an error.
    if step == 0.0 { 0.0 } else { (end - start) / step * 8.0 }
}

/// Puts itself in front of the functions of a session.
///
/// # Errors
/// DataFusion has one of them no more.
pub(crate) fn bound(context: &SessionContext, made: &Arc<FunctionMemory>) -> Result<()> {
    for (name, row_bytes) in FUNCTIONS {
        let inner = context.udf(name)?;
        context.register_udf(ScalarUDF::new_from_impl(Bounded { inner, row_bytes, made: Arc::clone(made) }));
    }
    Ok(())
}

/// See the module.
#[derive(Debug)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    row_bytes: RowBytes,
    made: Arc<FunctionMemory>,
}

impl PartialEq for Bounded {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Bounded {}

impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = bytes(self.row_bytes, &args.args, args.number_rows)?;
        self.made.call(self.name(), args, bytes, |args| self.inner.invoke_with_args(args))
    }
}

/// What a call makes of all rows.
fn bytes(row_bytes: RowBytes, args: &[ColumnarValue], rows: usize) -> Result<f64> {
    let sizes = args.iter().map(sizes).collect::<Result<Vec<_>>>()?;
    let rows = if are_constant(args) { 1 } else { rows };
    let of_row = |row: usize| {
        // A constant has one value for all rows.
        let size = |of: &Vec<Size>| of.get(row).or(of.first()).copied().unwrap_or_default();
        row_bytes(&Sizes(sizes.iter().map(size).collect())).max(0.0)
    };
    Ok((0..rows).map(of_row).sum())
}

/// The sizes of an argument's values: one if it is a constant.
fn sizes(arg: &ColumnarValue) -> Result<Vec<Size>> {
    let values = match arg {
        ColumnarValue::Array(values) => Arc::clone(values),
        ColumnarValue::Scalar(value) => value.to_array()?,
    };
    let plain = |number: f64| Size { bytes: 8.0, elements: 0.0, number };
    let numbers = |values: &ArrayRef, unit: f64| -> Result<Vec<Size>> {
        let values = cast(values, &DataType::Float64)?;
        Ok(values.as_primitive::<Float64Type>().iter().map(|value| plain(value.unwrap_or(0.0) * unit)).collect())
    };
    Ok(match values.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let lengths = cast(&length(&values)?, &DataType::Int64)?;
            let lengths = lengths.as_primitive::<Int64Type>().iter();
            lengths.map(|length| Size { bytes: length.unwrap_or(0) as f64, ..Size::default() }).collect()
        }
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            let each = lists.values().get_array_memory_size() as f64 / lists.values().len().max(1) as f64;
            let of_one = |elements: i32| {
                let elements = f64::from(elements);
                Size { bytes: elements * each, elements, number: 0.0 }
            };
            lists.offsets().lengths().map(|elements| of_one(elements as i32)).collect()
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let ns = |step: IntervalMonthDayNano| {
                // As many as the shortest month has.
                f64::from(step.months) * 28.0 * DAY_NS + f64::from(step.days) * DAY_NS + step.nanoseconds as f64
            };
            let steps = values.as_primitive::<IntervalMonthDayNanoType>().iter();
            steps.map(|step| plain(step.map_or(0.0, ns))).collect()
        }
        DataType::Date32 => numbers(&cast(&values, &DataType::Int32)?, DAY_NS)?,
        data_type if let Some(per_second) = per_second(data_type) => {
            numbers(&cast(&values, &DataType::Int64)?, 1e9 / per_second as f64)?
        }
        data_type if data_type.is_numeric() => numbers(&values, 1.0)?,
        _ => vec![plain(0.0); values.len()],
    })
}

#[cfg(test)]
#[path = "bounded_tests.rs"]
mod tests;
