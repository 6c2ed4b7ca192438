//! `width_bucket(v, 0, 100, 10)`: which of ten buckets between 0 and 100 holds a value, counted
//! from 1, for histograms (`width_bucket_float8` in PostgreSQL's `float.c`). The result is 0 below
//! the range and 11 above it.

use crate::arguments::misuse;
use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ScalarUDF, Signature, SimpleScalarUDF, Volatility};
use std::sync::Arc;

/// The `width_bucket` function.
pub(super) fn function() -> ScalarUDF {
    let types = vec![DataType::Float64, DataType::Float64, DataType::Float64, DataType::Int64];
    let signature = Signature::exact(types, Volatility::Immutable);
    let body = Arc::new(make_scalar_function(buckets, Vec::new()));
    SimpleScalarUDF::new_with_signature("width_bucket", signature, DataType::Int32, body).into()
}

fn buckets(args: &[ArrayRef]) -> Result<ArrayRef> {
    let [values, low, high, counts] = args else {
        return Err(misuse("use width_bucket(value, low, high, count)".to_owned()));
    };
    let [values, low, high] = [values, low, high].map(|numbers| numbers.as_primitive::<Float64Type>());
    let counts = counts.as_primitive::<Int64Type>();
    let rows = values.iter().zip(low).zip(high).zip(counts);
    let buckets = rows.map(|(((value, low), high), count)| match (value, low, high, count) {
        (Some(value), Some(low), Some(high), Some(count)) => bucket(value, low, high, count).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(buckets.collect::<Result<Int32Array>>()?))
}

fn bucket(value: f64, low: f64, high: f64, count: i64) -> Result<i32> {
    let wrong = |what: &str| Err(misuse(format!("width_bucket: {what}")));
    let Some(count) = i32::try_from(count).ok().filter(|count| (1..i32::MAX).contains(count)) else {
        return wrong("count must be greater than zero, and less than 2,147,483,647");
    };
    if value.is_nan() || !low.is_finite() || !high.is_finite() {
        return wrong("the value must not be NaN, and bounds must be finite");
    }
    if low == high {
        return wrong("lower bound cannot equal upper bound");
    }
    // The position between the bounds, from 0 to 1, whichever bound is greater. Everything is
    // halved because the difference of the bounds may overflow a float.
    let part = (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
    let (is_before, is_behind) = match low < high {
        true => (value < low, value >= high),
        false => (value > low, value <= high),
    };
    Ok(match (is_before, is_behind) {
        (true, _) => 0,
        (_, true) => count + 1,
        // A position that rounds to 1 belongs to the last bucket.
        _ => ((part * f64::from(count)) as i32).min(count - 1) + 1,
    })
}

#[cfg(test)]
#[path = "width_bucket_tests.rs"]
mod tests;
