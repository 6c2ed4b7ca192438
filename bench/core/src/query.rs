//! Queries, described independently of any database.

use crate::answer::Cell;
use crate::table::{Column, ColumnType, Table};
use crate::tsbs::Question;
use crate::workload::cpu::{FIELDS, cpu_columns};
use std::sync::Arc;

/// A query. Times are nanoseconds since 1970; a window includes its first time and excludes its
/// second.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Query {
    /// The number of rows of a table.
    Count(&'static str),
    /// E1: the sum of a meter's usage in a window.
    Bill {
        /// The meter.
        meter: i64,
        /// The window.
        window_ns: (i64, i64),
    },
    /// Whole rows of one key, in order: E2's FIVE_MINUTE_1, and the rows read back in E3 and E4.
    Rows {
        /// The table; its key is a column and `ts`.
        of: Arc<Table>,
        /// The key.
        key: Key,
        /// The window.
        window_ns: (i64, i64),
    },
    /// E2's CPU_MAX_ALL: for each hour, the maximum of all ten fields over a set of hosts, in
    /// order.
    HourlyMaxima {
        /// The hosts.
        hosts: Vec<String>,
        /// The window.
        window_ns: (i64, i64),
    },
    /// E2's SINGLE_GROUP_BY_1_1_1: for each minute, the maximum of one field of one host, in order.
    MinuteMaxima {
        /// The host.
        host: String,
        /// The window.
        window_ns: (i64, i64),
    },
    /// E2's LAST_POINT_ALL: the newest row of every host, in any order.
    LastOfAll,
    /// The newest row of one key, as in E2's LAST_POINT_ONE.
    Last {
        /// See [`Rows`](Self::Rows).
        of: Arc<Table>,
        /// The key.
        key: Key,
    },
    /// A query of TSBS that E2 does not ask.
    Tsbs(Question),
}

/// The key of a series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A number, such as that of a meter.
    Int(i64),
    /// A name, such as that of a host.
    Text(String),
}

impl Key {
    /// The key as a cell.
    pub fn cell(&self) -> Cell<'_> {
        match self {
            Self::Int(number) => Cell::Int(*number),
            Self::Text(name) => Cell::Text(name),
        }
    }
}

impl Query {
    /// The columns of the answer.
    pub fn columns(&self) -> Vec<Column> {
        match self {
            Self::Count(_) => vec![("count", ColumnType::Int)],
            Self::Bill { .. } => vec![("sum", ColumnType::Float)],
            Self::Rows { of, .. } | Self::Last { of, .. } => of.columns.clone(),
            Self::LastOfAll => cpu_columns(),
            Self::HourlyMaxima { .. } => {
                let maxima = FIELDS.iter().map(|field| (*field, ColumnType::Int));
                std::iter::once(("hour", ColumnType::Time)).chain(maxima).collect()
            }
            Self::MinuteMaxima { .. } => vec![("minute", ColumnType::Time), (FIELDS[0], ColumnType::Int)],
            Self::Tsbs(question) => question.columns(),
        }
    }

    /// Whether the order of the rows is part of the answer.
    pub fn is_ordered(&self) -> bool {
        match self {
            Self::LastOfAll => false,
            Self::Tsbs(question) => question.is_ordered(),
            _ => true,
        }
    }
}
