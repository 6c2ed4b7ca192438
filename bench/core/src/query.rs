//! What is asked, in no database's words.

use crate::answer::Cell;
use crate::table::{Column, ColumnType, Table};
use crate::workload::cpu::{FIELDS, cpu_columns};
use std::sync::Arc;

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
    /// Whole rows of one key, in order: E2's FIVE_MINUTE_1, and what E3 and E4 read back.
    Rows {
        /// Of which table; its key is a column and `ts`.
        of: Arc<Table>,
        /// The key.
        key: Key,
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
    /// The newest whole row of one key, as in E2's LAST_POINT_ONE.
    Last {
        /// As in [`Rows`](Self::Rows).
        of: Arc<Table>,
        /// The key.
        key: Key,
    },
}

/// The key of a series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A number, as of a meter.
    Int(i64),
    /// A name, as of a host.
    Text(String),
}

impl Key {
    /// As a cell.
    pub fn cell(&self) -> Cell<'_> {
        match self {
            Self::Int(number) => Cell::Int(*number),
            Self::Text(name) => Cell::Text(name),
        }
    }
}

impl Query {
    /// The columns of its answer.
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
        }
    }

    /// Whether the order of the rows is part of the answer.
    pub fn is_ordered(&self) -> bool {
        *self != Self::LastOfAll
    }
}
