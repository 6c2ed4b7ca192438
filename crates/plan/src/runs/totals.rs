//! The supported functions, and how each aggregates the rows of a run.

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, Float64Array, Int64Array, PrimitiveArray,
    downcast_primitive,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Float64Type, Int64Type, SchemaRef, UInt64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Literal};
use fleetdb_engine::sum_of_floats;
use fleetdb_functions::whole_sum::{Whole, for_each_masked, sum_of};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// An aggregate function over the rows of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// Counts all rows.
    Rows,
    /// Counts the values that are not NULL.
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

/// A function and its argument.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) function: Function,
    pub(super) argument: Arc<dyn PhysicalExpr>,
    /// The argument's type.
    pub(super) data_type: DataType,
    /// The result type.
    pub(super) result: DataType,
}

impl Call {
    /// Recognizes a supported function; `None` for any other.
    pub(super) fn of(expr: &AggregateFunctionExpr, input: &SchemaRef) -> Option<Self> {
        let [argument] = <[_; 1]>::try_from(expr.expressions()).ok()?;
        if expr.is_distinct() || !expr.order_bys().is_empty() {
            return None;
        }
        let result = expr.field().data_type().clone();
        let argument = without_cast(argument, expr.fun().name(), input);
        let data_type = argument.data_type(input).ok()?;
        let same = result == data_type;
        let adds = matches!(data_type, DataType::Int64 | DataType::UInt64 | DataType::Float64);
        let averages = matches!(data_type, DataType::Int64 | DataType::Float64) && result == DataType::Float64;
        let function = match expr.fun().name() {
            "count" => match argument.downcast_ref::<Literal>() {
                Some(literal) if literal.value().is_null() => return None,
                Some(_) => Function::Rows,
                None => Function::Count,
            },
            "sum" if same && adds => Function::Sum,
            "avg" if averages => Function::Avg,
            "min" if same && (data_type.is_numeric() || data_type.is_temporal()) => Function::Min,
            "max" if same && (data_type.is_numeric() || data_type.is_temporal()) => Function::Max,
            _ => return None,
        };
        Some(Self { function, argument, data_type, result })
    }

    pub(super) fn total(&self) -> Result<Box<dyn Total>> {
        Ok(match (self.function, &self.data_type) {
            (Function::Rows, _) => Box::new(Count { of_values: false, ..Count::default() }),
            (Function::Count, _) => Box::new(Count { of_values: true, ..Count::default() }),
            (Function::Avg, DataType::Int64) => Box::new(FloatTotal::<i128>::new(true)),
            (Function::Avg, _) => Box::new(FloatTotal::<f64>::new(true)),
            (Function::Sum, DataType::Int64) if self.result == DataType::Float64 => {
                Box::new(FloatTotal::<i128>::new(false))
            }
            (Function::Sum, DataType::Int64) => Box::new(WholeTotal::<Int64Type>::default()),
            (Function::Sum, DataType::UInt64) => Box::new(WholeTotal::<UInt64Type>::default()),
            (Function::Sum, _) => Box::new(FloatTotal::<f64>::new(false)),
            (Function::Min | Function::Max, data_type) => extreme(self.function, data_type)?,
        })
    }
}

/// Removes the cast to float that DataFusion adds to the argument of an average: the average
/// converts its values itself.
fn without_cast(argument: Arc<dyn PhysicalExpr>, function: &str, input: &SchemaRef) -> Arc<dyn PhysicalExpr> {
    match argument.downcast_ref::<CastExpr>() {
        Some(cast)
            if function == "avg"
                && *cast.cast_type() == DataType::Float64
                && cast.expr().data_type(input).is_ok_and(|of| of == DataType::Int64) =>
        {
            Arc::clone(cast.expr())
        }
        _ => argument,
    }
}

fn extreme(function: Function, data_type: &DataType) -> Result<Box<dyn Total>> {
    macro_rules! extreme {
        ($t:ty) => {
            match function {
                Function::Min => folded::<$t>(data_type, |a, b| if b.is_lt(a) { b } else { a }),
                _ => folded::<$t>(data_type, |a, b| if b.is_gt(a) { b } else { a }),
            }
        };
    }
    Ok(downcast_primitive! {
        data_type => (extreme),
        other => return Err(DataFusionError::Internal(format!("the extreme of {other}")))
    })
}

/// Accumulates a function's results: those of closed groups and of the open one.
pub(super) trait Total: Send {
    /// Adds rows of the open group.
    fn add(&mut self, values: &ArrayRef, rows: Range<usize>);

    /// Ends the open group.
    fn close(&mut self);

    /// Takes the results of the groups closed since the last call.
    fn take(&mut self) -> Result<ArrayRef>;
}

/// The number of rows of a range that are not NULL.
fn present(nulls: Option<&NullBuffer>, rows: &Range<usize>) -> u64 {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    let nulls = nulls.map_or(0, |nulls| nulls.slice(rows.start, rows.len()).null_count());
    (rows.len() - nulls) as u64
}

#[derive(Default)]
struct Count {
    of_values: bool,
    current: i64,
    done: Vec<i64>,
}

impl Total for Count {
    fn add(&mut self, values: &ArrayRef, rows: Range<usize>) {
        self.current += present(values.nulls().filter(|_| self.of_values), &rows) as i64;
    }

    fn close(&mut self) {
        self.done.push(std::mem::take(&mut self.current));
    }

    fn take(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(std::mem::take(&mut self.done))))
    }
}

/// Combines values pairwise.
struct Folded<T: ArrowPrimitiveType, F> {
    data_type: DataType,
    fold: F,
    current: Option<T::Native>,
    done: Vec<Option<T::Native>>,
}

fn folded<T: ArrowPrimitiveType>(
    data_type: &DataType,
    fold: impl Fn(T::Native, T::Native) -> T::Native + Send + 'static,
) -> Box<dyn Total> {
    Box::new(Folded::<T, _> { data_type: data_type.clone(), fold, current: None, done: Vec::new() })
}

impl<T: ArrowPrimitiveType, F: Fn(T::Native, T::Native) -> T::Native + Send> Total for Folded<T, F> {
    fn add(&mut self, values: &ArrayRef, rows: Range<usize>) {
        let Some(values) = values.as_primitive_opt::<T>() else { return };
        let of_rows = if values.null_count() == 0 {
            values.values()[rows].iter().copied().reduce(&self.fold)
        } else {
            rows.filter(|row| values.is_valid(*row)).map(|row| values.value(row)).reduce(&self.fold)
        };
        self.current = self.current.into_iter().chain(of_rows).reduce(&self.fold);
    }

    fn close(&mut self) {
        self.done.push(self.current.take());
    }

    fn take(&mut self) -> Result<ArrayRef> {
        let done: PrimitiveArray<T> = std::mem::take(&mut self.done).into_iter().collect();
        Ok(Arc::new(done.with_data_type(self.data_type.clone())))
    }
}

/// The sum of integers; overflow of the result type is an error.
struct WholeTotal<T> {
    current: Option<i128>,
    done: Vec<Option<i128>>,
    of: PhantomData<fn(T)>,
}

impl<T> Default for WholeTotal<T> {
    fn default() -> Self {
        Self { current: None, done: Vec::new(), of: PhantomData }
    }
}

impl<T: Whole> Total for WholeTotal<T> {
    fn add(&mut self, values: &ArrayRef, rows: Range<usize>) {
        let of_rows = values.as_primitive_opt::<T>().and_then(|values| sum_of(values, rows));
        self.current = self.current.into_iter().chain(of_rows).reduce(|a, b| a + b);
    }

    fn close(&mut self) {
        self.done.push(self.current.take());
    }

    fn take(&mut self) -> Result<ArrayRef> {
        let done = std::mem::take(&mut self.done).into_iter().map(|sum| sum.map(T::narrow).transpose());
        Ok(Arc::new(done.collect::<Result<PrimitiveArray<T>>>()?))
    }
}

/// The sum or average of numbers as a float.
struct FloatTotal<S> {
    average: bool,
    sum: S,
    count: u64,
    done: Vec<Option<f64>>,
}

impl<S: Default> FloatTotal<S> {
    fn new(average: bool) -> Self {
        Self { average, sum: S::default(), count: 0, done: Vec::new() }
    }
}

impl<S: Sum> Total for FloatTotal<S> {
    fn add(&mut self, values: &ArrayRef, rows: Range<usize>) {
        self.count += present(values.nulls(), &rows);
        self.sum.add(values, rows);
    }

    fn close(&mut self) {
        let (sum, count) = (std::mem::take(&mut self.sum).to_float(), std::mem::take(&mut self.count));
        self.done.push((count > 0).then(|| if self.average { sum / count as f64 } else { sum }));
    }

    fn take(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(Float64Array::from(std::mem::take(&mut self.done))))
    }
}

/// A sum that becomes a float.
trait Sum: Default + Send {
    /// Adds the values that are not NULL.
    fn add(&mut self, values: &ArrayRef, rows: Range<usize>);

    fn to_float(self) -> f64;
}

/// The exact sum of integers, which is rounded once.
impl Sum for i128 {
    fn add(&mut self, values: &ArrayRef, rows: Range<usize>) {
        let sum = values.as_primitive_opt::<Int64Type>().and_then(|values| sum_of(values, rows));
        *self += sum.unwrap_or(0);
    }

    fn to_float(self) -> f64 {
        self as f64
    }
}

impl Sum for f64 {
    fn add(&mut self, values: &ArrayRef, rows: Range<usize>) {
        let Some(values) = values.as_primitive_opt::<Float64Type>() else { return };
        let (values, nulls) = (&values.values()[rows.clone()], values.nulls().filter(|nulls| nulls.null_count() > 0));
        let Some(nulls) = nulls else {
            *self += sum_of_floats(values, |value| value);
            return;
        };
        for_each_masked(values, nulls, rows, Self::to_bits, |bits| *self += sum_of_floats(bits, Self::from_bits));
    }

    fn to_float(self) -> f64 {
        self
    }
}
