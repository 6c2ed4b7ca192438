//! `avg` of decimal numbers, rounded to its last digit, halves away from zero. DataFusion cuts the
//! average, so it is asked for one more digit, which decides the rounding.

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
};
use std::sync::Arc;

/// The `avg` aggregate.
pub(crate) fn function() -> AggregateUDF {
    AggregateUDF::new_from_impl(Average { inner: avg_udaf() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    /// DataFusion's `avg`.
    inner: Arc<AggregateUDF>,
}

/// What DataFusion is asked for, and the type to round the result to, if it must be rounded.
fn finer(mut args: AccumulatorArgs<'_>) -> (AccumulatorArgs<'_>, Option<DataType>) {
    let rounded = args.return_type().clone();
    let DataType::Decimal128(precision @ ..DECIMAL128_MAX_PRECISION, scale) = rounded else { return (args, None) };
    let finer = DataType::Decimal128(precision + 1, scale + 1);
    args.return_field = Arc::new(Field::clone(&args.return_field).with_data_type(finer));
    (args, Some(rounded))
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let (args, rounded) = finer(args);
        let inner = self.inner.accumulator(args)?;
        Ok(match rounded {
            Some(to) => Box::new(Rounded { inner, to }),
            None => inner,
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let (args, rounded) = finer(args);
        let inner = self.inner.create_groups_accumulator(args)?;
        Ok(match rounded {
            Some(to) => Box::new(Rounded { inner, to }),
            None => inner,
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// An accumulator whose result has one digit too many. Casts round halves away from zero.
#[derive(Debug)]
struct Rounded<A> {
    inner: A,
    to: DataType,
}

impl Accumulator for Rounded<Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()?.cast_to(&self.to)
    }

    fn size(&self) -> usize {
        self.inner.size() + size_of::<DataType>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

impl GroupsAccumulator for Rounded<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(cast(&self.inner.evaluate(emit_to)?, &self.to)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.inner.merge_batch(states, groups, count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size() + size_of::<DataType>()
    }
}
