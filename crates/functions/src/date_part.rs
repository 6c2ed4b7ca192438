//! Date parts that differ between PostgreSQL and DataFusion: seconds and smaller units include
//! their fraction, so `extract(second FROM ts)` may be 15.25; the epoch; centuries; and all parts
//! of intervals, where DataFusion returns integers and lets hours exceed a day.
//! (<https://www.postgresql.org/docs/current/functions-datetime.html#FUNCTIONS-DATETIME-EXTRACT>)

use crate::arguments::misuse;
use crate::expressions::per_second;
use crate::values::texts::split_days;
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use chrono::{DateTime, Datelike};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ScalarUDF, Signature, SimpleScalarUDF, Volatility};
use std::sync::{Arc, LazyLock};

const DAY_SECONDS: f64 = 86_400.0;

/// `date_part(field, value)` for the fields and types that [`is_for`] accepts.
pub static DATE_PART: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(2, Volatility::Immutable);
    let function = make_scalar_function(parts, Vec::new());
    Arc::new(SimpleScalarUDF::new_with_signature("date_part", signature, DataType::Float64, Arc::new(function)).into())
});

/// Whether [`DATE_PART`] handles this field and type; DataFusion handles the others.
pub fn is_for(field: &str, data_type: &DataType) -> bool {
    let Some(field) = Part::of(field) else { return false };
    match data_type {
        DataType::Duration(_) | DataType::Interval(_) => true,
        DataType::Timestamp(..) => field.is_of_second() || field.is_of_years() || matches!(field, Part::Epoch),
        DataType::Time32(_) | DataType::Time64(_) => field.is_of_second() || matches!(field, Part::Epoch),
        DataType::Date32 | DataType::Date64 => field.is_of_years(),
        _ => false,
    }
}

#[derive(Clone, Copy)]
enum Part {
    Epoch,
    Millennium,
    Century,
    Decade,
    Year,
    Quarter,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
}

impl Part {
    fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "epoch" => Self::Epoch,
            "millennium" | "millenniums" | "millennia" => Self::Millennium,
            "century" | "centuries" => Self::Century,
            "decade" | "decades" => Self::Decade,
            "year" | "years" => Self::Year,
            "quarter" => Self::Quarter,
            "month" | "months" | "mon" | "mons" => Self::Month,
            "day" | "days" => Self::Day,
            "hour" | "hours" => Self::Hour,
            "minute" | "minutes" | "min" | "mins" => Self::Minute,
            "second" | "seconds" | "sec" | "secs" => Self::Second,
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Self::Millisecond,
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Self::Microsecond,
            _ => return None,
        })
    }

    fn is_of_second(self) -> bool {
        matches!(self, Self::Second | Self::Millisecond | Self::Microsecond)
    }

    fn is_of_years(self) -> bool {
        matches!(self, Self::Millennium | Self::Century | Self::Decade)
    }

    /// The part of a time given as a count of `per_second` units; `None` if the year is outside the
    /// calendar's range.
    fn of_time(self, count: i64, per_second: i64) -> Option<f64> {
        let (seconds, fraction) = (count.div_euclid(per_second), count.rem_euclid(per_second));
        let with_fraction = |seconds: i64| seconds as f64 + fraction as f64 / per_second as f64;
        let in_minute = seconds.rem_euclid(60);
        // Integer arithmetic up to here keeps every digit of the fraction.
        let smaller = |units: i64| (in_minute * per_second + fraction) as f64 / per_second as f64 * units as f64;
        if self.is_of_years() {
            let year = i64::from(DateTime::from_timestamp(seconds, 0)?.year());
            return Some(self.of_year(year));
        }
        Some(match self {
            Self::Epoch => with_fraction(seconds),
            Self::Millisecond if per_second > 1_000 => {
                (in_minute * per_second + fraction) as f64 / (per_second / 1_000) as f64
            }
            Self::Microsecond if per_second > 1_000_000 => {
                (in_minute * per_second + fraction) as f64 / (per_second / 1_000_000) as f64
            }
            Self::Millisecond => smaller(1_000),
            Self::Microsecond => smaller(1_000_000),
            _ => with_fraction(in_minute),
        })
    }

    /// The first century is the years 1 to 100; there is no year 0.
    fn of_year(self, year: i64) -> f64 {
        let counted = |years: i64| if year > 0 { (year + years - 1) / years } else { -((years - year) / years) };
        let part = match self {
            Self::Millennium => counted(1_000),
            Self::Century => counted(100),
            _ => year.div_euclid(10),
        };
        part as f64
    }

    fn of_interval(self, interval: IntervalMonthDayNano) -> f64 {
        let (years, months) = (interval.months / 12, interval.months % 12);
        let ns = interval.nanoseconds;
        let seconds = ns / 1_000_000_000;
        match self {
            // A year counts as 365.25 days, a month as 30.
            Self::Epoch => {
                let days = f64::from(years) * 365.25 + f64::from(months) * 30.0 + f64::from(interval.days);
                days * DAY_SECONDS + seconds as f64 + (ns % 1_000_000_000) as f64 / 1e9
            }
            Self::Millennium => f64::from(years / 1_000),
            Self::Century => f64::from(years / 100),
            Self::Decade => f64::from(years / 10),
            Self::Year => f64::from(years),
            Self::Quarter => f64::from(months / 3 + 1),
            Self::Month => f64::from(months),
            Self::Day => f64::from(interval.days),
            Self::Hour => (seconds / 3_600) as f64,
            Self::Minute => (seconds / 60 % 60) as f64,
            Self::Second => (ns % 60_000_000_000) as f64 / 1e9,
            Self::Millisecond => (ns % 60_000_000_000) as f64 / 1e6,
            Self::Microsecond => (ns % 60_000_000_000) as f64 / 1e3,
        }
    }
}

fn parts(args: &[ArrayRef]) -> Result<ArrayRef> {
    let [fields, values] = args else { return Err(misuse("use date_part(field, time)".to_owned())) };
    let fields = cast(fields, &DataType::Utf8)?;
    // The field is the same for all rows. There may be no rows.
    let Some(field) = fields.as_string::<i32>().iter().next() else {
        return Ok(Arc::new(Float64Array::from(Vec::<f64>::new())));
    };
    let field = field.and_then(Part::of).ok_or_else(|| misuse(format!("date_part has no field {field:?}")))?;
    let parts: PrimitiveArray<Float64Type> = match values.data_type() {
        DataType::Duration(_) | DataType::Interval(_) => {
            let intervals = cast(&split_days(values)?, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            intervals.as_primitive::<IntervalMonthDayNanoType>().unary(|interval| field.of_interval(interval))
        }
        other => {
            let as_counted = match other {
                DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Nanosecond),
                DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Second, None),
                other => other.clone(),
            };
            let per_second = per_second(&as_counted).unwrap_or(1_000_000_000);
            let counts = cast(&cast(values, &as_counted)?, &DataType::Int64)?;
            counts.as_primitive::<Int64Type>().unary_opt(|count| field.of_time(count, per_second))
        }
    };
    Ok(Arc::new(parts))
}

#[cfg(test)]
#[path = "date_part_tests.rs"]
mod tests;
