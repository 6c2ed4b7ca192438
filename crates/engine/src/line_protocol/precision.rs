//! The unit of timestamps in line protocol.

use crate::column_type::Unit;
use crate::error::{Code, Error, Result};
use std::str::FromStr;

/// The unit that timestamps count in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Nanoseconds.
    Nanosecond,
    /// Microseconds.
    Microsecond,
    /// Milliseconds.
    Millisecond,
    /// Seconds.
    Second,
    /// Minutes.
    Minute,
    /// Hours.
    Hour,
}

impl Precision {
    fn nanoseconds(self) -> i64 {
        match self {
            Self::Nanosecond => 1,
            Self::Microsecond => 1_000,
            Self::Millisecond => 1_000_000,
            Self::Second => 1_000_000_000,
            Self::Minute => 60_000_000_000,
            Self::Hour => 3_600_000_000_000,
        }
    }

    /// Converts a timestamp to a column's unit, rounding down; `None` if it is out of range.
    pub(super) fn convert(self, time: i64, unit: Unit) -> Option<i64> {
        let nanoseconds = i128::from(time) * i128::from(self.nanoseconds());
        i64::try_from(nanoseconds.div_euclid(1_000_000_000 / i128::from(unit.per_second()))).ok()
    }
}

impl FromStr for Precision {
    type Err = Error;

    /// Reads `ns`, `us`, `ms`, `s`, `m` or `h`.
    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "ns" => Self::Nanosecond,
            "us" => Self::Microsecond,
            "ms" => Self::Millisecond,
            "s" => Self::Second,
            "m" => Self::Minute,
            "h" => Self::Hour,
            other => {
                let message = format!("unknown precision '{other}': use ns, us, ms, s, m or h");
                return Err(Error::new(Code::InvalidParameter, message));
            }
        })
    }
}

impl From<Unit> for Precision {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Nanosecond => Self::Nanosecond,
            Unit::Microsecond => Self::Microsecond,
            Unit::Millisecond => Self::Millisecond,
            Unit::Second => Self::Second,
        }
    }
}
