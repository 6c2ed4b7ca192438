//! Functions whose output can be far larger than their input. Before a call produces its output, it
//! reserves the bytes under `memory_limit`. Without this, a text from `repeat` may take 2 GiB and
//! an array from `range` 16 GiB, by DataFusion's own limits, and a read-only user could bring down
//! the server.
//!
//! A call reserves the exact size of its output, or a small multiple where the size is not known
//! exactly. It fails if there is no room. The reservation lasts until the same call produces its
//! next batch, or until the statement ends ([`FunctionMemory`]).
//!
//! Arrow panics if the texts of an array have more than 2 GiB. A call that may make so much runs over
//! fewer rows at a time, and fails if its texts are together too long for an array.

use super::function_memory::{FunctionMemory, MAX_TEXT_BYTES, check_text_bytes};
use super::wrapped::like_inner;
use crate::expressions::{are_constant, leaf, per_second};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::kernels::length::length;
use arrow::compute::{cast, concat};
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use datafusion::prelude::SessionContext;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const DAY_NS: f64 = 86_400e9;

/// The output size for one row, in bytes.
type RowBytes = fn(&Sizes) -> f64;

/// The bounded functions and their output sizes.
const FUNCTIONS: [(&str, RowBytes); 23] = [
    ("repeat", |of| of.at(0).bytes * of.at(1).number),
    ("lpad", padded_bytes),
    ("rpad", padded_bytes),
    ("upper", other_case_bytes),
    ("lower", other_case_bytes),
    ("initcap", other_case_bytes),
    ("overlay", |of| of.at(0).bytes + of.at(1).bytes),
    // A byte may become a character of four bytes.
    ("translate", |of| of.at(0).bytes * of.at(2).width.max(1.0)),
    // Each byte may need an escape.
    ("quote_ident", |of| of.at(0).bytes * 2.0 + 2.0),
    ("quote_literal", |of| of.at(0).bytes * 2.0 + 3.0),
    ("quote_nullable", |of| of.at(0).bytes * 2.0 + 4.0),
    ("encode", |of| of.at(0).bytes * 2.0),
    ("replace", |of| of.at(0).bytes + (of.at(0).bytes / of.at(1).bytes.max(1.0) + 1.0) * of.at(2).bytes),
    // Without flags, only the first match is replaced.
    ("regexp_replace", |of| of.at(0).bytes + (of.at(3).bytes.min(1.0) * of.at(0).bytes + 1.0) * of.at(2).bytes),
    ("concat", |of| of.0.iter().map(|one| one.bytes).sum()),
    ("concat_ws", |of| of.0.iter().map(|one| one.bytes + of.at(0).bytes).sum()),
    ("array_concat", |of| of.0.iter().map(|one| one.bytes).sum()),
    ("array_repeat", |of| of.at(0).bytes * of.at(1).number),
    ("array_resize", |of| of.at(0).bytes + of.at(1).number * of.at(2).bytes.max(8.0)),
    ("array_to_string", |of| of.at(0).bytes + of.at(0).elements * (of.at(1).bytes + of.at(2).bytes + 24.0)),
    // A template letter becomes at most seven characters.
    ("to_char", |of| of.at(1).bytes * 7.0),
    ("range", span_bytes),
    ("generate_series", span_bytes),
];

/// The functions whose output has exactly the size given above.
const EXACT: [&str; 3] = ["repeat", "concat", "concat_ws"];

/// What is known about the size of a value.
#[derive(Clone, Copy, Default)]
struct Size {
    bytes: f64,
    /// The most bytes of a character of a text.
    width: f64,
    /// The number of elements of an array.
    elements: f64,
    /// The value of a number; nanoseconds for times and intervals; 0 for other types.
    number: f64,
}

/// The sizes of a row's arguments.
struct Sizes(Vec<Size>);

impl Sizes {
    fn at(&self, place: usize) -> Size {
        self.0.get(place).copied().unwrap_or_default()
    }
}

/// The output size of `lpad` and `rpad`.
fn padded_bytes(of: &Sizes) -> f64 {
    of.at(1).number * of.at(0).width.max(of.at(2).width)
}

/// The output size of functions that change the case: `ΐ`, of two bytes, becomes three characters of two.
fn other_case_bytes(of: &Sizes) -> f64 {
    of.at(0).bytes * if of.at(0).width > 1.0 { 3.0 } else { 1.0 }
}

/// The output size of `range(end)`, `range(start, end)` and `range(start, end, step)`, for numbers
/// or times.
fn span_bytes(of: &Sizes) -> f64 {
    let (start, end, step) = match of.0.as_slice() {
        [end] => (0.0, end.number, 1.0),
        [start, end] => (start.number, end.number, 1.0),
        _ => (of.at(0).number, of.at(1).number, of.at(2).number),
    };
    // The function itself rejects a step of 0.
    if step == 0.0 { 0.0 } else { (end - start) / step * 8.0 }
}

/// Wraps the functions of a session.
///
/// # Errors
/// DataFusion no longer has one of them.
pub(crate) fn bound(context: &SessionContext, made: &Arc<FunctionMemory>) -> Result<()> {
    for (name, row_bytes) in FUNCTIONS {
        let inner = context.udf(name)?;
        context.register_udf(ScalarUDF::new_from_impl(Bounded { inner, row_bytes, made: Arc::clone(made) }));
    }
    Ok(())
}

/// Reserves memory for the output of the inner function. See the module documentation.
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
    like_inner!();

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let sizes = row_sizes(self.row_bytes, &args.args, args.number_rows)?;
        let bytes = sizes.iter().sum();
        let makes_texts = has_text(leaf(args.return_field.data_type()));
        if makes_texts && EXACT.contains(&self.name()) {
            check_text_bytes(self.name(), bytes)?;
        }
        self.made.call(self.name(), args, bytes, |args| match makes_texts && bytes > MAX_TEXT_BYTES {
            true => self.in_parts(&args, &sizes),
            false => self.inner.invoke_with_args(args),
        })
    }
}

impl Bounded {
    /// Runs the inner function over as many rows at a time as certainly fit into an array.
    fn in_parts(&self, args: &ScalarFunctionArgs, sizes: &[f64]) -> Result<ColumnarValue> {
        let (mut parts, mut made, mut start) = (Vec::new(), 0.0, 0);
        while start < sizes.len() {
            let (mut end, mut bytes) = (start + 1, sizes[start]);
            check_text_bytes(self.name(), bytes)?;
            while end < sizes.len() && bytes + sizes[end] <= MAX_TEXT_BYTES {
                bytes += sizes[end];
                end += 1;
            }
            let rows = end - start;
            let slice = |arg: &ColumnarValue| match arg {
                ColumnarValue::Array(values) => ColumnarValue::Array(values.slice(start, rows)),
                constant @ ColumnarValue::Scalar(_) => constant.clone(),
            };
            let slices = args.args.iter().map(slice).collect();
            let part = ScalarFunctionArgs { args: slices, number_rows: rows, ..args.clone() };
            let part = self.inner.invoke_with_args(part)?.into_array(rows)?;
            made += part.to_data().get_slice_memory_size()? as f64;
            check_text_bytes(self.name(), made)?;
            parts.push(part);
            start = end;
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&parts)?))
    }
}

/// Whether all texts of an array of this type are in one buffer.
fn has_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Binary)
}

/// The output size of a call for each row; a single one if all arguments are constant.
fn row_sizes(row_bytes: RowBytes, args: &[ColumnarValue], rows: usize) -> Result<Vec<f64>> {
    let sizes = args.iter().map(sizes).collect::<Result<Vec<_>>>()?;
    let rows = if are_constant(args) { 1 } else { rows };
    let of_row = |row: usize| {
        // A constant argument has one size for all rows.
        let size = |of: &Vec<Size>| of.get(row).or(of.first()).copied().unwrap_or_default();
        row_bytes(&Sizes(sizes.iter().map(size).collect())).max(0.0)
    };
    Ok((0..rows).map(of_row).collect())
}

/// The sizes of an argument's values; a single one if it is constant.
fn sizes(arg: &ColumnarValue) -> Result<Vec<Size>> {
    let values = match arg {
        ColumnarValue::Array(values) => Arc::clone(values),
        ColumnarValue::Scalar(value) => value.to_array()?,
    };
    let plain = |number: f64| Size { bytes: 8.0, number, ..Size::default() };
    let numbers = |values: &ArrayRef, unit: f64| -> Result<Vec<Size>> {
        let values = cast(values, &DataType::Float64)?;
        Ok(values.as_primitive::<Float64Type>().iter().map(|value| plain(value.unwrap_or(0.0) * unit)).collect())
    };
    Ok(match values.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary => {
            let lengths = cast(&length(&values)?, &DataType::Int64)?;
            let lengths = lengths.as_primitive::<Int64Type>().iter();
            let width = if is_ascii(&values) { 1.0 } else { 4.0 };
            lengths.map(|length| Size { bytes: length.unwrap_or(0) as f64, width, ..Size::default() }).collect()
        }
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            let each = lists.values().get_array_memory_size() as f64 / lists.values().len().max(1) as f64;
            let of_one = |elements: i32| {
                let elements = f64::from(elements);
                Size { bytes: elements * each, elements, ..Size::default() }
            };
            lists.offsets().lengths().map(|elements| of_one(elements as i32)).collect()
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let ns = |step: IntervalMonthDayNano| {
                // The shortest month has 28 days.
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

/// Whether all characters of an array of texts have one byte.
fn is_ascii(texts: &ArrayRef) -> bool {
    match texts.data_type() {
        DataType::Utf8 => texts.as_string::<i32>().is_ascii(),
        DataType::LargeUtf8 => texts.as_string::<i64>().is_ascii(),
        DataType::Utf8View => texts.as_string_view().is_ascii(),
        _ => false,
    }
}

#[cfg(test)]
#[path = "bounded_tests.rs"]
mod tests;
