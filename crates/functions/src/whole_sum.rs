//! `sum` of integers without wraparound.
//!
//! 1. A sum is accumulated in 128 bits, which suffice for as many 64-bit integers as there can be
//!    rows.
//! 2. The final result is narrowed to 64 bits, or is an error (22003). The result therefore does
//!    not depend on the order of the rows or on how partial sums are combined.
//!
//! DataFusion handles sums of other types. [`crate::runs`] and [`crate::metadata`] compute sums
//! themselves and raise the same error.

use super::accumulators::{passes, state_of_each_row};
use crate::errors::query_error;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature,
};
use fleetdb_engine::{Code, Error, sum_of_integers};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// The `sum` aggregate.
pub static SUM: LazyLock<Arc<AggregateUDF>> =
    LazyLock::new(|| Arc::new(AggregateUDF::new_from_impl(WholeSum { inner: sum_udaf() })));

/// The type of partial sums.
const STATE: DataType = DataType::Decimal128(38, 0);

/// The error for a sum that is out of range of its type.
pub(crate) fn sum_out_of_range() -> DataFusionError {
    let message = "bigint out of range: a sum is larger than its type; add up numerics, as in sum(v::numeric(38, 0))";
    query_error(Error::new(Code::OutOfRange, message))
}

/// A 64-bit integer type.
pub trait Whole: ArrowPrimitiveType<Native: Into<i128>> {
    /// Whether the highest bit of a value is its sign.
    const IS_SIGNED: bool;

    /// Narrows a sum to this type.
    ///
    /// # Errors
    /// The sum is out of range.
    fn narrow(sum: i128) -> Result<Self::Native>;
}

impl Whole for Int64Type {
    const IS_SIGNED: bool = true;

    fn narrow(sum: i128) -> Result<i64> {
        i64::try_from(sum).map_err(|_| sum_out_of_range())
    }
}

impl Whole for UInt64Type {
    const IS_SIGNED: bool = false;

    fn narrow(sum: i128) -> Result<u64> {
        u64::try_from(sum).map_err(|_| sum_out_of_range())
    }
}

/// The sum of a range of rows; `None` if all are NULL.
pub fn sum_of<T: Whole>(values: &PrimitiveArray<T>, rows: Range<usize>) -> Option<i128> {
    if rows.is_empty() {
        return None;
    }
    let raws = &values.values().inner().typed_data::<u64>()[rows.clone()];
    let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Some(sum_of_integers(raws, T::IS_SIGNED));
    };
    let mut sum = 0;
    let is_present = for_each_masked(raws, nulls, rows, |raw| raw, |raws| sum += sum_of_integers(raws, T::IS_SIGNED));
    is_present.then_some(sum)
}

/// Visits the bits of values, up to 64 at a time, with 0 for NULL. `rows` are the values' places in
/// `nulls`. Returns whether a value is not NULL. NULLs take no branch, because scattered ones would
/// cause branch mispredictions.
pub fn for_each_masked<T: Copy>(
    values: &[T],
    nulls: &NullBuffer,
    rows: Range<usize>,
    bits: impl Fn(T) -> u64,
    mut visit: impl FnMut(&[u64]),
) -> bool {
    let present = nulls.inner().slice(rows.start, rows.len());
    for (values, word) in values.chunks(64).zip(present.bit_chunks().iter_padded()) {
        let mut masked = [0; 64];
        for (place, (masked, &value)) in masked.iter_mut().zip(values).enumerate() {
            *masked = bits(value) & (word >> place & 1).wrapping_neg();
        }
        visit(&masked[..values.len()]);
    }
    present.count_set_bits() > 0
}

/// Instantiates an expression for either integer type.
macro_rules! of_type {
    ($data_type:expr, $t:ident => $what:expr) => {
        match $data_type {
            DataType::UInt64 => {
                type $t = UInt64Type;
                $what
            }
            _ => {
                type $t = Int64Type;
                $what
            }
        }
    };
}

fn is_whole(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::UInt64)
}

fn missing() -> DataFusionError {
    DataFusionError::Internal("a sum has one argument".to_owned())
}

/// The `sum` aggregate. See the module documentation.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WholeSum {
    /// DataFusion's `sum`.
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for WholeSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.return_type() {
            data_type if !is_whole(data_type) => self.inner.accumulator(args),
            data_type if args.is_distinct => Ok(Box::new(DistinctSum::of(data_type))),
            data_type => Ok(Box::new(OneSum::of(data_type))),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.is_distinct || !is_whole(args.return_field.data_type()) {
            return self.inner.state_fields(args);
        }
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "sum"), STATE, true))])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_type() {
            data_type if !is_whole(data_type) => self.inner.create_groups_accumulator(args),
            data_type => Ok(of_type!(data_type, T => Box::new(Sums::<T>::default()))),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match is_whole(args.return_type()) {
            true => self.accumulator(args),
            false => self.inner.create_sliding_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}

/// A sum as a scalar of the result type.
fn narrowed(sum: Option<i128>, data_type: &DataType) -> Result<ScalarValue> {
    Ok(match data_type {
        DataType::UInt64 => ScalarValue::UInt64(sum.map(UInt64Type::narrow).transpose()?),
        _ => ScalarValue::Int64(sum.map(Int64Type::narrow).transpose()?),
    })
}

/// The sum of one group, or of a window that may also drop rows.
#[derive(Debug)]
struct OneSum {
    data_type: DataType,
    sum: i128,
    /// The number of non-NULL rows.
    rows: u64,
}

impl OneSum {
    fn of(data_type: &DataType) -> Self {
        Self { data_type: data_type.clone(), sum: 0, rows: 0 }
    }

    /// The sum of some rows, and how many are not NULL.
    fn amount(&self, values: &[ArrayRef]) -> Result<(i128, u64)> {
        let values = values.first().ok_or_else(missing)?;
        let rows = (values.len() - values.null_count()) as u64;
        let sum = of_type!(self.data_type, T => sum_of(values.as_primitive::<T>(), 0..values.len()));
        Ok((sum.unwrap_or(0), rows))
    }

    fn sum(&self) -> Option<i128> {
        (self.rows > 0).then_some(self.sum)
    }
}

impl Accumulator for OneSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = self.amount(values)?;
        self.sum += sum;
        self.rows += rows;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = self.amount(values)?;
        self.sum -= sum;
        self.rows -= rows;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        narrowed(self.sum(), &self.data_type)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Decimal128(self.sum(), 38, 0)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sums = states.first().ok_or_else(missing)?.as_primitive::<Decimal128Type>();
        for sum in sums.iter().flatten() {
            self.sum += sum;
            self.rows += 1;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// The sum of distinct values.
#[derive(Debug)]
struct DistinctSum {
    data_type: DataType,
    sum: i128,
    /// The number of occurrences of each value.
    values: HashMap<i128, u64>,
}

impl DistinctSum {
    fn of(data_type: &DataType) -> Self {
        Self { data_type: data_type.clone(), sum: 0, values: HashMap::new() }
    }

    fn each(values: &ArrayRef, data_type: &DataType, mut see: impl FnMut(i128)) {
        of_type!(data_type, T => values.as_primitive::<T>().iter().flatten().for_each(|value| see(value.into())));
    }

    fn add(&mut self, values: &ArrayRef) {
        let Self { data_type, sum, values: seen } = self;
        Self::each(values, data_type, |value| {
            let count = seen.entry(value).or_insert(0);
            if *count == 0 {
                *sum += value;
            }
            *count += 1;
        });
    }
}

impl Accumulator for DistinctSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values.first().ok_or_else(missing)?);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values.first().ok_or_else(missing)?;
        let Self { data_type, sum, values: seen } = self;
        Self::each(values, data_type, |value| {
            if let Some(count) = seen.get_mut(&value) {
                *count -= 1;
                if *count == 0 {
                    seen.remove(&value);
                    *sum -= value;
                }
            }
        });
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        narrowed((!self.values.is_empty()).then_some(self.sum), &self.data_type)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.values.keys().map(|value| narrowed(Some(*value), &self.data_type));
        let values = values.collect::<Result<Vec<_>>>()?;
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.data_type))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in states.first().ok_or_else(missing)?.as_list::<i32>().iter().flatten() {
            self.add(&values);
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.capacity() * size_of::<(i128, u64)>()
    }
}

/// The sums of all groups.
#[derive(Debug)]
struct Sums<T> {
    sums: Vec<i128>,
    /// Whether a group has a non-NULL value.
    present: Vec<bool>,
    of: PhantomData<fn(T)>,
}

impl<T> Default for Sums<T> {
    fn default() -> Self {
        Self { sums: Vec::new(), present: Vec::new(), of: PhantomData }
    }
}

impl<T> Sums<T> {
    fn add<V: ArrowPrimitiveType<Native: Into<i128>>>(
        &mut self,
        values: &PrimitiveArray<V>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) {
        self.sums.resize(count, 0);
        self.present.resize(count, false);
        let mut add = |group: usize, value: V::Native| {
            self.sums[group] += value.into();
            self.present[group] = true;
        };
        if filter.is_none() && values.null_count() == 0 {
            groups.iter().zip(values.values()).for_each(|(&group, &value)| add(group, value));
            return;
        }
        for (row, &group) in groups.iter().enumerate() {
            if passes(filter, row) && values.is_valid(row) {
                add(group, values.value(row));
            }
        }
    }

    fn take(&mut self, emit_to: EmitTo) -> impl Iterator<Item = Option<i128>> + use<T> {
        let (sums, present) = (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.present));
        sums.into_iter().zip(present).map(|(sum, present)| present.then_some(sum))
    }
}

impl<T: Whole + Send> GroupsAccumulator for Sums<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let values = values.first().ok_or_else(missing)?.as_primitive::<T>();
        self.add(values, group_indices, filter, total_num_groups);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = self.take(emit_to).map(|sum| sum.map(T::narrow).transpose());
        Ok(Arc::new(sums.collect::<Result<PrimitiveArray<T>>>()?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums: Decimal128Array = self.take(emit_to).collect();
        Ok(vec![Arc::new(sums.with_data_type(STATE))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        let sums = states.first().ok_or_else(missing)?.as_primitive::<Decimal128Type>();
        self.add(sums, group_indices, None, total_num_groups);
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        state_of_each_row(Self::default(), values, filter)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.sums.capacity() * size_of::<i128>() + self.present.capacity()
    }
}

#[cfg(test)]
#[path = "whole_sum_tests.rs"]
mod tests;
