//! `first(value, time)` and `last(value, time)`: the value at a group's smallest and largest time.
//!
//! Rows may arrive in any order. Among rows with equal times, `first` takes the earliest to arrive
//! and `last` the latest. Rows with a NULL time are ignored; NULL values are not.

use super::accumulators::{OneGroup, Peek, passes};
use crate::arguments::misuse;
use crate::expressions::per_second;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, Signature, Volatility,
};
use std::sync::Arc;

/// The `first` or `last` aggregate.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct FirstLast {
    last: bool,
    signature: Signature,
}

/// Both aggregates.
pub(super) fn functions() -> [FirstLast; 2] {
    [false, true].map(|last| FirstLast { last, signature: Signature::user_defined(Volatility::Immutable) })
}

/// Builds the expression `last(value, time)`.
pub fn last(value: Expr, time: Expr) -> Expr {
    let [_, last] = functions();
    AggregateUDF::new_from_impl(last).call(vec![value, time])
}

impl AggregateUDFImpl for FirstLast {
    fn name(&self) -> &str {
        if self.last { "last" } else { "first" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_, time] if per_second(time).is_some() || matches!(time, DataType::Date32 | DataType::Int64) => {
                Ok(types.to_vec())
            }
            _ => Err(misuse(format!("use {}(value, time)", self.name()))),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| misuse(format!("use {}(value, time)", self.name())))
    }

    fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        // With the metadata, which tells JSON from other texts.
        let value = args.first().ok_or_else(|| misuse(format!("use {}(value, time)", self.name())))?;
        Ok(Arc::new(value.as_ref().clone().with_name(self.name()).with_nullable(true)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![
            Arc::new(args.return_field.as_ref().clone().with_name(format_state_name(args.name, "value"))),
            Arc::new(Field::new(format_state_name(args.name, "time"), DataType::Int64, true)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup(Groups::new(self.last, args.return_type())?)))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::new(self.last, args.return_type())?))
    }
}

/// The best time and its value, for each group.
struct Groups {
    last: bool,
    nothing: ScalarValue,
    best: Vec<Option<(i64, ScalarValue)>>,
    /// Scratch: for each group, the current batch's row that beats `best`.
    rows: Vec<Option<(i64, usize)>>,
    touched: Vec<usize>,
    value_bytes: usize,
}

impl Groups {
    fn new(last: bool, value_type: &DataType) -> Result<Self> {
        let nothing = ScalarValue::try_from(value_type)?;
        Ok(Self { last, nothing, best: Vec::new(), rows: Vec::new(), touched: Vec::new(), value_bytes: 0 })
    }

    fn is_better(&self, time: i64, than: i64) -> bool {
        if self.last { time >= than } else { time < than }
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Option<(i64, ScalarValue)>> {
        self.rows = Vec::new();
        let taken = emit_to.take_needed(&mut self.best);
        self.value_bytes = self.best.iter().flatten().map(|(_, value)| value.size()).sum();
        taken
    }

    fn values(&self, taken: &[Option<(i64, ScalarValue)>]) -> Result<ArrayRef> {
        let values = taken.iter().map(|best| best.as_ref().map_or(&self.nothing, |(_, value)| value).clone());
        if taken.is_empty() {
            return Ok(arrow::array::new_empty_array(&self.nothing.data_type()));
        }
        ScalarValue::iter_to_array(values)
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.best.resize(total_num_groups, None);
        self.rows.resize(total_num_groups, None);
        let times = cast(&values[1], &DataType::Int64)?;
        let times = times.as_primitive::<Int64Type>();
        for (row, &group) in group_indices.iter().enumerate() {
            if !passes(filter, row) || times.is_null(row) {
                continue;
            }
            let time = times.value(row);
            match self.rows[group] {
                Some((known, _)) if !self.is_better(time, known) => {}
                Some(_) => self.rows[group] = Some((time, row)),
                None => {
                    let known = self.best[group].as_ref();
                    if known.is_none_or(|(known, _)| self.is_better(time, *known)) {
                        self.rows[group] = Some((time, row));
                        self.touched.push(group);
                    }
                }
            }
        }
        // Values are extracted only for the winning rows.
        for group in std::mem::take(&mut self.touched) {
            if let Some((time, row)) = self.rows[group].take() {
                let value = ScalarValue::try_from_array(&values[0], row)?;
                self.value_bytes += value.size();
                if let Some((_, old)) = self.best[group].replace((time, value)) {
                    self.value_bytes -= old.size();
                }
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let taken = self.take(emit_to);
        self.values(&taken)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let taken = self.take(emit_to);
        let times: Int64Array = taken.iter().map(|best| best.as_ref().map(|(time, _)| *time)).collect();
        Ok(vec![self.values(&taken)?, Arc::new(times)])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.update_batch(values, group_indices, None, total_num_groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let times = cast(&values[1], &DataType::Int64)?;
        let times = match filter {
            Some(filter) => arrow::compute::nullif(&times, &arrow::compute::not(filter)?)?,
            None => times,
        };
        Ok(vec![Arc::clone(&values[0]), times])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.value_bytes + self.best.capacity() * size_of::<Option<(i64, ScalarValue)>>()
    }
}

impl Peek for Groups {
    fn begin(&mut self) {
        self.best.resize(self.best.len().max(1), None);
    }

    fn peek(&self) -> Result<ScalarValue> {
        Ok(self.best.first().cloned().flatten().map_or(self.nothing.clone(), |(_, value)| value))
    }
}
