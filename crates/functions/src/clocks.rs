//! Functions that convert between instants and local time in a session's zone. They implement
//! casts, texts and interval arithmetic of timestamps with a zone. `fleetdb-postgres` inserts the
//! calls (its `types/zones.rs`). Called with an array, a function converts each element.

use crate::errors::query_error;
use crate::expressions::{on_arrays, per_second};
use crate::values::texts::text_form_in;
use crate::values::times::read_texts;
use crate::values::zone::{NS_PER_DAY, NS_PER_SECOND, Zone, naive, to_ns};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use chrono::Months;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use fleetdb_engine::{Code, ColumnType, Error};
use std::sync::Arc;

/// The name of the function that [`text`] calls.
pub const TEXTS: &str = "text_by_clocks";

/// What a function computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    /// The local time of an instant, without a zone.
    Shown,
    /// The instant of a local time.
    Instant,
    /// The text of an instant.
    Text,
    /// A text parsed as a time.
    Read,
    /// An instant plus an interval, with months and days in local time.
    Plus,
    /// An instant minus an interval.
    Minus,
}

/// A function of this module.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ByClocks {
    what: What,
    zone: Zone,
    gives: DataType,
    signature: Signature,
}

fn call(what: What, zone: Zone, gives: DataType, args: Vec<Expr>) -> Expr {
    let signature = Signature::any(args.len(), Volatility::Immutable);
    let function = ScalarUDF::new_from_impl(ByClocks { what, zone, gives, signature });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), args))
}

/// The local time of an instant of this unit.
pub fn shown(instant: Expr, unit: TimeUnit, zone: Zone) -> Expr {
    call(What::Shown, zone, DataType::Timestamp(unit, None), vec![instant])
}

/// The instant of a local time of this unit.
pub fn instant(time: Expr, unit: TimeUnit, zone: Zone) -> Expr {
    call(What::Instant, zone, with_zone(unit), vec![time])
}

/// The text of an instant.
pub fn text(instant: Expr, zone: Zone) -> Expr {
    call(What::Text, zone, DataType::Utf8, vec![instant])
}

/// A text parsed as a time of this type.
pub fn read(text: Expr, gives: DataType, zone: Zone) -> Expr {
    call(What::Read, zone, gives, vec![text])
}

/// An instant of this unit plus an interval.
pub fn plus(instant: Expr, interval: Expr, unit: TimeUnit, zone: Zone) -> Expr {
    call(What::Plus, zone, with_zone(unit), vec![instant, interval])
}

/// An instant of this unit minus an interval.
pub fn minus(instant: Expr, interval: Expr, unit: TimeUnit, zone: Zone) -> Expr {
    call(What::Minus, zone, with_zone(unit), vec![instant, interval])
}

/// The type of instants of this unit.
pub fn with_zone(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some(ColumnType::UTC.into()))
}

impl ScalarUDFImpl for ByClocks {
    fn name(&self) -> &'static str {
        match self.what {
            What::Shown => "shown_by_clocks",
            What::Instant => "instant_by_clocks",
            What::Text => TEXTS,
            What::Read => "read_by_clocks",
            What::Plus => "plus_by_clocks",
            What::Minus => "minus_by_clocks",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().map_or_else(|| self.gives.clone(), |of| self.given_for(of)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        on_arrays(&args, |columns| self.of(columns))
    }
}

impl ByClocks {
    /// The result's type for an argument of this type.
    fn given_for(&self, of: &DataType) -> DataType {
        match of {
            DataType::List(element) => DataType::new_list(self.given_for(element.data_type()), true),
            _ => self.gives.clone(),
        }
    }

    fn of(&self, columns: &[ArrayRef]) -> Result<ArrayRef> {
        if let [arrays] = columns
            && let Some(arrays) = arrays.as_list_opt::<i32>()
        {
            let elements = self.of(&[Arc::clone(arrays.values())])?;
            let field = Arc::new(Field::new_list_field(elements.data_type().clone(), true));
            let (offsets, nulls) = (arrays.offsets().clone(), arrays.nulls().cloned());
            return Ok(Arc::new(ListArray::try_new(field, offsets, elements, nulls)?));
        }
        let (values, intervals) = match columns {
            [values] => (values, None),
            [values, intervals] => (values, Some(intervals)),
            _ => return Err(DataFusionError::Internal(format!("{} takes one value or two", self.name()))),
        };
        if self.what == What::Text {
            return Ok(text_form_in(values, self.zone)?.unwrap_or_else(|| Arc::clone(values)));
        }
        if self.what == What::Read {
            let texts = cast(values, &DataType::Utf8)?;
            return read_texts(&texts, &self.gives, self.zone).map_err(query_error);
        }
        let (DataType::Timestamp(unit, _), Some(units)) = (&self.gives, per_second(&self.gives)) else {
            return Err(DataFusionError::Internal(format!("{} gives times", self.name())));
        };
        let (unit, unit_ns) = (*unit, NS_PER_SECOND / i128::from(units));
        let counts = cast(&cast(values, &DataType::Timestamp(unit, None))?, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        let intervals = match intervals {
            Some(intervals) => Some(cast(intervals, &DataType::Interval(IntervalUnit::MonthDayNano))?),
            None => None,
        };
        let intervals = intervals.as_ref().map(|intervals| intervals.as_primitive::<IntervalMonthDayNanoType>());
        let moved = (0..counts.len()).map(|row| {
            if counts.is_null(row) || intervals.is_some_and(|intervals| intervals.is_null(row)) {
                return Ok(None);
            }
            let ns = i128::from(counts.value(row)) * unit_ns;
            let moved_ns = match (self.what, intervals) {
                (What::Shown, _) => self.zone.local(ns),
                (What::Plus, Some(intervals)) => later(ns, intervals.value(row), 1, self.zone),
                (What::Minus, Some(intervals)) => later(ns, intervals.value(row), -1, self.zone),
                _ => self.zone.instant(ns),
            };
            let count = moved_ns.and_then(|ns| i64::try_from(ns.div_euclid(unit_ns)).ok());
            count.map(Some).ok_or_else(|| query_error(Error::new(Code::TimeOutOfRange, "timestamp out of range")))
        });
        let moved: ArrayRef = Arc::new(moved.collect::<Result<Int64Array>>()?);
        Ok(cast(&moved, &self.gives)?)
    }
}

/// Adds an interval to an instant, or subtracts it if `sign` is -1. As in PostgreSQL, months and
/// days count in local time, and the rest is elapsed time (`timestamptz_pl_interval` in its
/// `timestamp.c`).
fn later(instant_ns: i128, interval: IntervalMonthDayNano, sign: i32, zone: Zone) -> Option<i128> {
    let mut ns = instant_ns;
    if interval.months != 0 {
        let months = interval.months.checked_mul(sign)?;
        let (local, count) = (naive(zone.local(ns)?)?, Months::new(months.unsigned_abs()));
        let moved = if months < 0 { local.checked_sub_months(count) } else { local.checked_add_months(count) };
        ns = zone.instant(to_ns(moved?))?;
    }
    if interval.days != 0 {
        ns = zone.instant(zone.local(ns)? + i128::from(interval.days) * i128::from(sign) * NS_PER_DAY)?;
    }
    Some(ns + i128::from(interval.nanoseconds) * i128::from(sign))
}
