//! What is asked, in no database's words.

use crate::table::{Column, ColumnType};
use crate::workload::cpu::{FIELDS, cpu_columns};
use crate::workload::series::Series;

/// A query. Times are nanoseconds since 1970; a window is from its first to before its second.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// How many rows a table has.
    Count(&'static str),
    /// E1: a meter's usage in a window, summed.
    Bill {
        /// The meter.
        meter: i64,
        /// The window.
        window_ns: (i64, i64),
    },
    /// E2's FIVE_MINUTE_1: whole rows of one host, in order.
    HostRows {
        /// The host.
        host: String,
        /// The window.
        window_ns: (i64, i64),
    },
    /// E2's CPU_MAX_ALL: each hour's maximum of all ten fields over some hosts together, in order.
    HourlyMaxima {
        /// The hosts.
        hosts: Vec<String>,
        /// The window.
        window_ns: (i64, i64),
    },
    /// E2's SINGLE_GROUP_BY_1_1_1: each minute's maximum of one field of one host, in order.
    MinuteMaxima {
        /// The host.
        host: String,
        /// The window.
        window_ns: (i64, i64),
    },
    /// E2's LAST_POINT_ALL: the newest whole row of every host, in any order.
    LastOfAll,
    /// E2's LAST_POINT_ONE: the newest whole row of one host.
    LastOf(String),
    /// E3 and E4: whole rows of one key, in order.
    Series {
        /// Of which table.
        of: Series,
        /// The key.
        key: i64,
        /// The window.
        window_ns: (i64, i64),
    },
}

impl Query {
    /// The columns of its answer.
    pub fn columns(&self) -> Vec<Column> {
        match self {
            Self::Count(_) => vec![("count", ColumnType::Int)],
            Self::Bill { .. } => vec![("sum", ColumnType::Float)],
            Self::HostRows { .. } | Self::LastOfAll | Self::LastOf(_) => cpu_columns(),
            Self::Series { of, .. } => of.columns().to_vec(),
            Self::HourlyMaxima { .. } => {
                let maxima = FIELDS.iter().map(|field| (*field, ColumnType::Int));
                std::iter::once(("hour", ColumnType::Time)).chain(maxima).collect()
            }
            Self::MinuteMaxima { .. } => vec![("minute", ColumnType::Time), (FIELDS[0], ColumnType::Int)],
        }
    }

    /// Whether the order of the rows is part of the answer.
    pub fn is_ordered(&self) -> bool {
        *self != Self::LastOfAll
    }
}
