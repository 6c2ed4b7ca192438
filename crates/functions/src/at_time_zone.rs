//! `time AT TIME ZONE zone` and `timezone(zone, time)`, as in PostgreSQL: an instant becomes the
//! zone's local time, without a zone; a local time becomes an instant. DataFusion's own operator
//! only changes the zone in the type of the same instant, which clients do not see.
//! <https://www.postgresql.org/docs/current/functions-datetime.html#FUNCTIONS-DATETIME-ZONECONVERT>

use super::calendar::{NS_PER_SECOND, Zone};
use crate::arguments::{is_text, misuse};
use crate::expressions::{are_constant, per_second};
use crate::usages::AT_TIME_ZONE as USAGE;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use fleetdb_engine::ColumnType;
use std::sync::Arc;

/// The conversion function. See the module documentation.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AtTimeZone {
    signature: Signature,
}

impl Default for AtTimeZone {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for AtTimeZone {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [zone, time] if is_text(zone) => Ok(vec![
                DataType::Utf8,
                match time {
                    DataType::Timestamp(..) => time.clone(),
                    other if is_text(other) => with_zone(TimeUnit::Nanosecond),
                    DataType::Date32 | DataType::Date64 => with_zone(TimeUnit::Second),
                    other => return Err(misuse(format!("{other} is no time: use {USAGE}"))),
                },
            ]),
            _ => Err(misuse(format!("use {USAGE}"))),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, DataType::Timestamp(unit, None)] => Ok(with_zone(*unit)),
            [_, DataType::Timestamp(unit, Some(_))] => Ok(DataType::Timestamp(*unit, None)),
            _ => Err(misuse(format!("use {USAGE}"))),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [zones, times] = args.args.as_slice() else { return Err(misuse(format!("use {USAGE}"))) };
        let is_constant = are_constant(&args.args);
        let rows = if is_constant { 1 } else { args.number_rows };
        let moved = moved(&zones.to_array(rows)?, &times.to_array(rows)?)?;
        let moved = cast(&moved, args.return_field.data_type())?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&moved, 0)?),
            false => ColumnarValue::Array(moved),
        })
    }
}

pub(super) fn with_zone(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some(ColumnType::UTC.into()))
}

/// The local times of instants in their zones, or the instants of local times.
fn moved(zones: &ArrayRef, times: &ArrayRef) -> Result<ArrayRef> {
    let unit_ns = per_second(times.data_type()).map(|per_second| NS_PER_SECOND / i128::from(per_second));
    let unit_ns = unit_ns.ok_or_else(|| misuse(format!("use {USAGE}")))?;
    let is_instant = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
    let (zones, counts) = (zones.as_string::<i32>(), cast(times, &DataType::Int64)?);
    let mut known: Option<(&str, Zone)> = None;
    let mut zone_of = |name| match known {
        Some((of, zone)) if of == name => Ok(zone),
        _ => Zone::named(name).inspect(|&zone| known = Some((name, zone))).map_err(misuse),
    };
    let moved = counts.as_primitive::<Int64Type>().iter().zip(zones).map(|row| {
        let (Some(count), Some(name)) = row else { return Ok(None) };
        let (zone, ns) = (zone_of(name)?, i128::from(count) * unit_ns);
        let moved_ns = if is_instant { zone.local(ns) } else { zone.instant(ns) };
        // Offsets from UTC are whole seconds.
        let count = moved_ns.and_then(|ns| i64::try_from(ns.div_euclid(unit_ns)).ok());
        count.map(Some).ok_or_else(|| misuse(format!("a time in {name} is outside of what a timestamp can hold")))
    });
    Ok(Arc::new(moved.collect::<Result<Int64Array>>()?))
}
