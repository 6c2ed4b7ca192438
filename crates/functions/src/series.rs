//! Aggregates over a series in order of time: `time_weight_avg`, `integral`, `delta`, `rate`.
//!
//! 1. Each call is rewritten to request its rows in order of time ([`AggregateUDFImpl::simplify`]).
//!    A table scan provides this order; any other input is sorted first.
//! 2. A group's state is its first and last point, the area under its values, and the total
//!    increase of its counter ([`Series`]). Its size does not depend on the number of rows.
//!
//! Rows with a NULL value or time are ignored. Areas are computed as in TimescaleDB's toolkit,
//! counters as in Prometheus' `increase` without extrapolation.

use super::accumulators::{OneGroup, Peek, passes, state_of_each_row};
use crate::arguments::misuse;
use crate::expressions::per_second;
use crate::usages::usage;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use std::sync::Arc;

/// The quantity a function computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Amount {
    /// The average, with each value weighted by its duration.
    TimeWeightAvg,
    /// The area under the values, in value times seconds.
    Integral,
    /// The increase of a counter.
    Delta,
    /// The increase of a counter per second.
    Rate,
}

/// How values between two points are interpolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// Linearly.
    Linear,
    /// As the value of the earlier point.
    Step,
}

/// One of the aggregates.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct SeriesFunction {
    amount: Amount,
    signature: Signature,
    aliases: Vec<String>,
}

/// All aggregates of this module.
pub(super) fn functions() -> [SeriesFunction; 4] {
    [Amount::TimeWeightAvg, Amount::Integral, Amount::Delta, Amount::Rate].map(SeriesFunction::new)
}

impl SeriesFunction {
    fn new(amount: Amount) -> Self {
        // GridDB's name for the same: each row is weighted by half the gap to each neighbour.
        let aliases = if amount == Amount::TimeWeightAvg { vec!["time_avg".to_owned()] } else { Vec::new() };
        Self { amount, signature: Signature::user_defined(Volatility::Immutable), aliases }
    }

    fn takes_method(&self) -> bool {
        matches!(self.amount, Amount::TimeWeightAvg | Amount::Integral)
    }

    fn usage(&self) -> String {
        format!("use {}", usage(self.name()).unwrap_or_default())
    }

    fn groups(&self, args: &AccumulatorArgs) -> Result<Groups> {
        let method = match args.exprs.get(2) {
            None => Method::Linear,
            Some(method) => match method.downcast_ref::<Literal>().and_then(|text| text.value().try_as_str().flatten())
            {
                Some("linear") => Method::Linear,
                Some("step") => Method::Step,
                _ => return Err(misuse(self.usage())),
            },
        };
        let per_second = per_second(args.expr_fields[1].data_type()).ok_or_else(|| misuse(self.usage()))?;
        Ok(Groups { amount: self.amount, method, seconds: 1.0 / per_second as f64, series: Vec::new() })
    }
}

impl AggregateUDFImpl for SeriesFunction {
    fn name(&self) -> &str {
        match self.amount {
            Amount::TimeWeightAvg => "time_weight_avg",
            Amount::Integral => "integral",
            Amount::Delta => "delta",
            Amount::Rate => "rate",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [value, time, rest @ ..]
                if (value.is_numeric() || value.is_null())
                    && per_second(time).is_some()
                    && rest.len() <= usize::from(self.takes_method()) =>
            {
                let method = rest.iter().map(|_| DataType::Utf8);
                Ok([DataType::Float64, time.clone()].into_iter().chain(method).collect())
            }
            _ => Err(misuse(self.usage())),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        Some(Box::new(|mut function: AggregateFunction, _| {
            if function.params.order_by.is_empty() {
                let by_time = function.params.args.get(1).map(|time| time.clone().sort(true, true));
                function.params.order_by.extend(by_time);
            }
            Ok(Expr::AggregateFunction(function))
        }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        // The state accepts either order. Without a reverse, DataFusion does not sort for the
        // aggregate at all.
        ReversedUDAF::Reversed(Arc::new(AggregateUDF::new_from_impl(Self::new(self.amount))))
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        // The ORDER BY is added internally and is not part of the name.
        let args: Vec<String> = params.args.iter().map(|arg| arg.schema_name().to_string()).collect();
        let filter = params.filter.as_ref().map_or_else(String::new, |filter| format!(" FILTER (WHERE {filter})"));
        Ok(format!("{}({}){filter}", self.name(), args.join(",")))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name: &str, data_type| Arc::new(Field::new(format_state_name(args.name, name), data_type, true));
        Ok(vec![
            field("first_time", DataType::Int64),
            field("first", DataType::Float64),
            field("last_time", DataType::Int64),
            field("last", DataType::Float64),
            field("area", DataType::Float64),
            field("counted", DataType::Float64),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup(self.groups(&args)?)))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(self.groups(&args)?))
    }
}

/// A part of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Series {
    first: (i64, f64),
    last: (i64, f64),
    /// In value times the unit of time.
    area: f64,
    counted: f64,
}

impl Series {
    fn point(time: i64, value: f64) -> Self {
        Self { first: (time, value), last: (time, value), area: 0.0, counted: 0.0 }
    }

    /// Appends a later part.
    fn add(&mut self, later: &Self, method: Method) {
        let (from, to) = (self.last, later.first);
        let span = (i128::from(to.0) - i128::from(from.0)) as f64;
        let height = match method {
            Method::Linear => (from.1 + to.1) / 2.0,
            Method::Step => from.1,
        };
        self.area += height * span + later.area;
        // A counter that decreases was reset to 0.
        let counted = if to.1 >= from.1 { to.1 - from.1 } else { to.1 };
        self.counted += counted + later.counted;
        self.last = later.last;
    }

    fn amount(&self, amount: Amount, seconds: f64) -> Option<f64> {
        let span = (i128::from(self.last.0) - i128::from(self.first.0)) as f64;
        match amount {
            Amount::TimeWeightAvg if span == 0.0 => Some(self.first.1),
            Amount::TimeWeightAvg => Some(self.area / span),
            Amount::Integral => Some(self.area * seconds),
            Amount::Delta => Some(self.counted),
            Amount::Rate if span == 0.0 => None,
            Amount::Rate => Some(self.counted / (span * seconds)),
        }
    }
}

/// The series of all groups.
struct Groups {
    amount: Amount,
    method: Method,
    /// The length of the time unit in seconds.
    seconds: f64,
    series: Vec<Option<Series>>,
}

impl Groups {
    fn add(&mut self, group: usize, stretch: Series) -> Result<()> {
        match &mut self.series[group] {
            Some(series) if series.last.0 <= stretch.first.0 => series.add(&stretch, self.method),
            // Rows may also arrive in descending order.
            Some(series) if stretch.last.0 <= series.first.0 => {
                let later = std::mem::replace(series, stretch);
                series.add(&later, self.method);
            }
            Some(_) => return Err(DataFusionError::Internal("rows of a series are not in order of time".to_owned())),
            none => *none = Some(stretch),
        }
        Ok(())
    }

    fn amounts(&self, taken: &[Option<Series>]) -> Float64Array {
        taken.iter().map(|series| series.and_then(|series| series.amount(self.amount, self.seconds))).collect()
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
        self.series.resize(total_num_groups, None);
        let times = cast(&values[1], &DataType::Int64)?;
        let (points, times) = (values[0].as_primitive::<Float64Type>(), times.as_primitive::<Int64Type>());
        for (row, &group) in group_indices.iter().enumerate() {
            if passes(filter, row) && times.is_valid(row) && points.is_valid(row) {
                self.add(group, Series::point(times.value(row), points.value(row)))?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let taken = emit_to.take_needed(&mut self.series);
        Ok(Arc::new(self.amounts(&taken)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let taken = emit_to.take_needed(&mut self.series);
        let times = |of: fn(&Series) -> i64| -> ArrayRef {
            Arc::new(taken.iter().map(|series| series.as_ref().map(of)).collect::<Int64Array>())
        };
        let values = |of: fn(&Series) -> f64| -> ArrayRef {
            Arc::new(taken.iter().map(|series| series.as_ref().map(of)).collect::<Float64Array>())
        };
        Ok(vec![
            times(|series| series.first.0),
            values(|series| series.first.1),
            times(|series| series.last.0),
            values(|series| series.last.1),
            values(|series| series.area),
            values(|series| series.counted),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.series.resize(total_num_groups, None);
        let time = |place: usize| states[place].as_primitive::<Int64Type>();
        let value = |place: usize| states[place].as_primitive::<Float64Type>();
        for (row, &group) in group_indices.iter().enumerate() {
            if time(0).is_valid(row) {
                let series = Series {
                    first: (time(0).value(row), value(1).value(row)),
                    last: (time(2).value(row), value(3).value(row)),
                    area: value(4).value(row),
                    counted: value(5).value(row),
                };
                self.add(group, series)?;
            }
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        state_of_each_row(Self { series: Vec::new(), ..*self }, values, filter)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.series.capacity() * size_of::<Option<Series>>()
    }
}

impl Peek for Groups {
    fn begin(&mut self) {
        self.series.resize(self.series.len().max(1), None);
    }

    fn peek(&self) -> Result<ScalarValue> {
        let amount = |series: Series| series.amount(self.amount, self.seconds);
        Ok(ScalarValue::Float64(self.series.first().copied().flatten().and_then(amount)))
    }
}
