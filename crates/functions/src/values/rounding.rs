//! Rounds times to a coarser unit.

use crate::expressions::{on_arrays, per_second};
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::cmp::Ordering;
use std::sync::Arc;

/// 2000-01-01, in seconds since 1970.
const YEAR_2000_SECONDS: i64 = 946_684_800;

/// How a time is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// To the earlier time.
    Down,
    /// To the later time.
    Up,
    /// To the nearest; ties away from 2000-01-01 (`AdjustTimestampForTypmod` in PostgreSQL's
    /// `timestamp.c`).
    Nearest,
}

/// Whether a time is rounded up to the next multiple of `unit`. The time is `rest` after the previous
/// multiple; `seconds` is the time in seconds since 1970.
pub(crate) fn is_nearer_to_next(rest: i64, unit: i64, seconds: i64) -> bool {
    match rest.cmp(&(unit - rest)) {
        Ordering::Less => false,
        Ordering::Equal => rest > 0 && seconds >= YEAR_2000_SECONDS,
        Ordering::Greater => true,
    }
}

/// Rounds times to the unit of a type.
pub fn rounded(times: Expr, to: DataType, rounding: Rounding) -> Expr {
    let function = Rounded { rounding, to, signature: Signature::any(1, Volatility::Immutable) };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(function)), vec![times]))
}

/// Rounding as a scalar function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounded {
    rounding: Rounding,
    to: DataType,
    signature: Signature,
}

impl Rounded {
    fn round(&self, times: &ArrayRef) -> Result<ArrayRef> {
        let from = per_second(times.data_type()).unwrap_or(1);
        let ratio = per_second(&self.to).map_or(1, |to| from / to).max(1);
        let counts = cast(times, &DataType::Int64)?;
        let rounded = counts.as_primitive::<Int64Type>().unary::<_, Int64Type>(|count| {
            let (down, rest) = (count.div_euclid(ratio), count.rem_euclid(ratio));
            let is_up = match self.rounding {
                Rounding::Down => false,
                Rounding::Up => rest > 0,
                Rounding::Nearest => is_nearer_to_next(rest, ratio, count.div_euclid(from)),
            };
            down + i64::from(is_up)
        });
        Ok(cast(&rounded, &self.to)?)
    }
}

impl ScalarUDFImpl for Rounded {
    fn name(&self) -> &str {
        match self.rounding {
            Rounding::Down => "floor",
            Rounding::Up => "ceil",
            Rounding::Nearest => "round",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |times| times.sort_properties))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        on_arrays(&args, |arrays| self.round(&arrays[0]))
    }
}

#[cfg(test)]
#[path = "rounding_tests.rs"]
mod tests;
