//! The value of a correlated scalar subquery that may have several rows: `(SELECT name FROM meters m WHERE
//! m.id = r.meter)`. DataFusion computes such a subquery for all groups of its rows at once, also for those
//! that no outer row looks at. So an aggregate keeps the first two values of a group ([`FEW_VALUES`]), and a
//! function reports the second one where an outer row has it ([`ONE_VALUE`]).

use crate::arguments::misuse;
use crate::errors::query_error;
use crate::expressions::on_arrays;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use fleetdb_engine::{Code, Error};
use std::sync::{Arc, LazyLock};

/// As many values as tell that there are several.
const MAX_VALUES: usize = 2;

/// The aggregate that keeps the first values of a group, as an array.
pub static FEW_VALUES: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
    Arc::new(AggregateUDF::new_from_impl(FewValues { signature: Signature::any(1, Volatility::Immutable) }))
});

/// The function that returns the only element of an array.
pub static ONE_VALUE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(OneValue { signature: Signature::any(1, Volatility::Immutable) }))
});

/// See [`FEW_VALUES`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct FewValues {
    signature: Signature,
}

impl AggregateUDFImpl for FewValues {
    fn name(&self) -> &'static str {
        "few_values"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let of = types.first().cloned().ok_or_else(|| misuse("an argument is missing".to_owned()))?;
        Ok(DataType::new_list(of, true))
    }

    fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        // With the metadata, which tells JSON from other texts.
        let of = args.first().ok_or_else(|| misuse("an argument is missing".to_owned()))?;
        let element = of.as_ref().clone().with_name(Field::LIST_FIELD_DEFAULT_NAME).with_nullable(true);
        Ok(Arc::new(Field::new(self.name(), DataType::List(Arc::new(element)), true)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(args.return_field.as_ref().clone().with_name(format_state_name(args.name, "values")))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let DataType::List(element) = args.return_type() else {
            return Err(misuse("the values of a subquery are no array".to_owned()));
        };
        Ok(Box::new(Values { element: Arc::clone(element), values: Vec::new() }))
    }
}

/// The first values of a group.
#[derive(Debug)]
struct Values {
    element: FieldRef,
    values: Vec<ScalarValue>,
}

impl Values {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        for row in 0..values.len().min(MAX_VALUES - self.values.len()) {
            self.values.push(ScalarValue::try_from_array(values, row)?);
        }
        Ok(())
    }

    fn list(&self) -> Result<ScalarValue> {
        let values = match self.values.is_empty() {
            true => new_empty_array(self.element.data_type()),
            false => ScalarValue::iter_to_array(self.values.iter().cloned())?,
        };
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::try_new(Arc::clone(&self.element), offsets, values, None)?;
        Ok(ScalarValue::List(Arc::new(list)))
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values.first().map_or(Ok(()), |values| self.add(values))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.list()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.iter().map(ScalarValue::size).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.list()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states.first().and_then(|lists| lists.as_list_opt::<i32>());
        lists.into_iter().flat_map(|lists| lists.iter().flatten()).try_for_each(|values| self.add(&values))
    }
}

/// See [`ONE_VALUE`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneValue {
    signature: Signature,
}

impl ScalarUDFImpl for OneValue {
    fn name(&self) -> &'static str {
        "one_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::List(element)] => Ok(element.data_type().clone()),
            _ => Err(misuse("the values of a subquery are no array".to_owned())),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields.first().map(|values| values.data_type()) {
            Some(DataType::List(element)) => {
                Ok(Arc::new(element.as_ref().clone().with_name(self.name()).with_nullable(true)))
            }
            _ => Err(misuse("the values of a subquery are no array".to_owned())),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        on_arrays(&args, |columns| {
            let lists = columns.first().and_then(|lists| lists.as_list_opt::<i32>());
            let lists = lists.ok_or_else(|| misuse("the values of a subquery are no array".to_owned()))?;
            let offsets = lists.value_offsets();
            let place = |row: usize| match offsets[row + 1] - offsets[row] {
                _ if lists.is_null(row) => Ok(None),
                0 => Ok(None),
                1 => Ok(Some(offsets[row] as u64)),
                _ => {
                    let message = "more than one row returned by a subquery used as an expression";
                    Err(query_error(Error::new(Code::Cardinality, message)))
                }
            };
            let places = (0..lists.len()).map(place).collect::<Result<UInt64Array>>()?;
            Ok(take(lists.values(), &places, None)?)
        })
    }
}
