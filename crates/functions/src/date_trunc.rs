//! `date_trunc(unit, time, zone)`, as in PostgreSQL: the start of the hour, day or other unit in a
//! time zone.
//! (<https://www.postgresql.org/docs/current/functions-datetime.html#FUNCTIONS-DATETIME-TRUNC>)
//!
//! 1. The zone's local time is truncated to the unit.
//! 2. Units of up to an hour use the UTC offset of the instant itself, so each of the two repeated
//!    hours in autumn has its own start. Days and longer units start when the local clock shows
//!    their start ([`Zone::instant`]).
//!
//! `fleetdb-postgres` rewrites calls to this function before planning (its `rewrite/calls.rs`),
//! because DataFusion's `date_trunc` takes no zone.

use super::at_time_zone::with_zone;
use super::calendar::{NS_PER_DAY, NS_PER_SECOND, Zone, naive, to_ns};
use crate::arguments::{is_text, misuse};
use crate::expressions::{are_constant, per_second};
use crate::usages::DATE_TRUNC as USAGE;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use chrono::{Datelike, NaiveDate, NaiveTime};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// The function's name, which no statement of a user calls.
pub const NAME: &str = "date_trunc_in_zone";

/// The unit to truncate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// At most an hour, in nanoseconds.
    Short(i128),
    Day,
    Week,
    Month,
    Quarter,
    /// A number of years, and the first year of one such unit.
    Years(i32, i32),
}

impl Unit {
    /// Finds a unit by name; an error if there is none.
    fn of(name: &str) -> Result<Self> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "microsecond" | "microseconds" => Self::Short(NS_PER_SECOND / 1_000_000),
            "millisecond" | "milliseconds" => Self::Short(NS_PER_SECOND / 1_000),
            "second" | "seconds" => Self::Short(NS_PER_SECOND),
            "minute" | "minutes" => Self::Short(60 * NS_PER_SECOND),
            "hour" | "hours" => Self::Short(3_600 * NS_PER_SECOND),
            "day" | "days" => Self::Day,
            "week" | "weeks" => Self::Week,
            "month" | "months" => Self::Month,
            "quarter" => Self::Quarter,
            "year" | "years" => Self::Years(1, 0),
            "decade" | "decades" => Self::Years(10, 0),
            "century" | "centuries" => Self::Years(100, 1),
            "millennium" | "millennia" => Self::Years(1_000, 1),
            _ => {
                return Err(misuse(format!(
                    "there is no unit '{name}' of time: date_trunc takes microseconds, milliseconds, second, minute, \
                     hour, day, week, month, quarter, year, decade, century or millennium"
                )));
            }
        })
    }

    /// The start of the unit that contains an instant; `None` outside the calendar's range.
    fn begin(self, instant_ns: i128, zone: Zone) -> Option<i128> {
        let local_ns = zone.local(instant_ns)?;
        if let Self::Short(unit_ns) = self {
            return Some(instant_ns - local_ns.rem_euclid(unit_ns));
        }
        let date = naive(local_ns)?.date();
        let (year, month) = (date.year(), date.month());
        let first = match self {
            Self::Short(_) | Self::Day => return zone.instant(local_ns - local_ns.rem_euclid(NS_PER_DAY)),
            Self::Week => date.week(chrono::Weekday::Mon).checked_first_day(),
            Self::Month => date.with_day(1),
            Self::Quarter => NaiveDate::from_ymd_opt(year, (month - 1) / 3 * 3 + 1, 1),
            Self::Years(count, first) => {
                NaiveDate::from_ymd_opt((year - first).div_euclid(count) * count + first, 1, 1)
            }
        };
        zone.instant(to_ns(first?.and_time(NaiveTime::MIN)))
    }
}

/// The truncation function. See the module documentation.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct DateTrunc {
    signature: Signature,
}

impl Default for DateTrunc {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [unit, time, zone] if is_text(unit) && is_text(zone) => {
                let time = match time {
                    DataType::Timestamp(unit, _) => with_zone(*unit),
                    DataType::Date32 | DataType::Date64 => with_zone(TimeUnit::Second),
                    other if is_text(other) => with_zone(TimeUnit::Nanosecond),
                    other => return Err(misuse(format!("{other} is no time: use {USAGE}"))),
                };
                Ok(vec![DataType::Utf8, time, DataType::Utf8])
            }
            _ => Err(misuse(format!("use {USAGE}"))),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.get(1).cloned().ok_or_else(|| misuse(format!("use {USAGE}")))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [units, times, zones] = args.args.as_slice() else { return Err(misuse(format!("use {USAGE}"))) };
        let is_constant = are_constant(&args.args);
        let rows = if is_constant { 1 } else { args.number_rows };
        let begins = begins(&units.to_array(rows)?, &times.to_array(rows)?, &zones.to_array(rows)?)?;
        let begins = cast(&begins, args.return_field.data_type())?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&begins, 0)?),
            false => ColumnarValue::Array(begins),
        })
    }
}

/// The names of a row's unit and zone.
type Names<'a> = (&'a str, &'a str);

/// The starts of the units that contain these times.
fn begins(units: &ArrayRef, times: &ArrayRef, zones: &ArrayRef) -> Result<ArrayRef> {
    let unit_ns = per_second(times.data_type()).map(|per_second| NS_PER_SECOND / i128::from(per_second));
    let unit_ns = unit_ns.ok_or_else(|| misuse(format!("use {USAGE}")))?;
    let counts = cast(times, &DataType::Int64)?;
    // Unit and zone are mostly the same for all rows.
    let mut known: Option<(Names<'_>, (Unit, Zone))> = None;
    let mut meant = |names| -> Result<(Unit, Zone)> {
        match known {
            Some((of, meant)) if of == names => Ok(meant),
            _ => {
                let meant = (Unit::of(names.0)?, Zone::named(names.1).map_err(misuse)?);
                known = Some((names, meant));
                Ok(meant)
            }
        }
    };
    let rows = counts.as_primitive::<Int64Type>().iter().zip(units.as_string::<i32>()).zip(zones.as_string::<i32>());
    let begins = rows.map(|row| {
        let ((Some(count), Some(unit)), Some(name)) = row else { return Ok(None) };
        let (unit, zone) = meant((unit, name))?;
        let begin_ns = unit.begin(i128::from(count) * unit_ns, zone);
        let count = begin_ns.and_then(|ns| i64::try_from(ns.div_euclid(unit_ns)).ok());
        count.map(Some).ok_or_else(|| misuse(format!("a time in {name} is outside of what a timestamp can hold")))
    });
    Ok(Arc::new(begins.collect::<Result<Int64Array>>()?))
}

#[cfg(test)]
#[path = "date_trunc_tests.rs"]
mod tests;
