//! TSBS' queries as data, and their right answers. E2's seven queries are in
//! [`Query`](crate::query::Query) itself.
//!
//! 1. A [`Question`] is a query with its hosts, trucks and windows; every kind has TSBS' name in its
//!    comment. Windows are as in [`Query`](crate::query::Query).
//! 2. An oracle ([`hosts::HostOracle`], [`truck_oracle::TruckOracle`]) reads the rows that were written
//!    and computes the answers without any database.
//!
//! Conditions of the queries of trucks that contradict the names of the queries are corrected:
//! low-fuel and high-load look at the newest row; driving hours and activity use fractional
//! division; activity counts buckets; a bucket is broken when half of its rows have status 0.

pub mod hosts;
pub mod truck_oracle;
pub mod trucks;

use crate::table::Column;
use hosts::HostQuestion;
use trucks::TruckQuestion;

/// A query of TSBS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// Of the use case cpu-only.
    Hosts(HostQuestion),
    /// Of the use case iot.
    Trucks(TruckQuestion),
}

impl Question {
    /// The columns of the answer.
    pub fn columns(&self) -> Vec<Column> {
        match self {
            Self::Hosts(question) => question.columns(),
            Self::Trucks(question) => question.columns(),
        }
    }

    /// Whether the order of the rows is part of the answer.
    pub fn is_ordered(&self) -> bool {
        !matches!(self, Self::Hosts(HostQuestion::Busy { .. }))
    }
}
