//! The names and types of the marker functions.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use fleetdb_functions::arguments::misuse;
use fleetdb_functions::bucket::bucket_types;
use fleetdb_functions::usages;

pub(super) const GAPFILL: &str = "time_bucket_gapfill";
pub(super) const LOCF: &str = "locf";
pub(super) const INTERPOLATE: &str = "interpolate";
/// The optional second argument of [`LOCF`] and [`INTERPOLATE`].
pub(super) const BEFORE: &str = "before";

/// A marker function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Marker {
    name: &'static str,
    usage: &'static str,
    signature: Signature,
}

/// All marker functions.
pub(crate) fn functions() -> [Marker; 3] {
    let marker = |name, usage| Marker { name, usage, signature: Signature::user_defined(Volatility::Immutable) };
    [marker(GAPFILL, usages::GAPFILL), marker(LOCF, usages::LOCF), marker(INTERPOLATE, usages::INTERPOLATE)]
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let wrong = || misuse(format!("use {}", self.usage));
        if self.name == GAPFILL {
            // Of four or five arguments, the last two are the window.
            let bounds = if types.len() > 3 { 2 } else { 0 };
            let (bucket, bounds) = types.split_at(types.len() - bounds);
            let mut types = bucket_types(bucket, self.usage)?;
            if types.len() > 3 {
                return Err(wrong());
            }
            types.extend(bounds.iter().map(|_| DataType::Timestamp(TimeUnit::Nanosecond, None)));
            return Ok(types);
        }
        let value = match (self.name, types.first()) {
            (LOCF, Some(value)) => value.clone(),
            (_, Some(value)) if value.is_numeric() || value.is_null() => DataType::Float64,
            _ => return Err(wrong()),
        };
        match types.len() {
            1 => Ok(vec![value]),
            2 => Ok(vec![value, DataType::Utf8]),
            _ => Err(wrong()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let place = usize::from(self.name == GAPFILL);
        types.get(place).cloned().ok_or_else(|| misuse(format!("use {}", self.usage)))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(misuse(format!("use {}", self.usage)))
    }
}
