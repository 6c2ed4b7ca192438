//! The rows that a scan requests: containers by key, rows by time.

use crate::column_type::ColumnType;
use crate::error::Result;
use crate::key::{self, KeyRange};
use std::ops::Bound;

/// A test of one key column's encoded bytes.
#[derive(Clone, Debug)]
pub(crate) struct KeyTest {
    /// The column's position in the key.
    pub(crate) part: usize,
    /// The allowed values, sorted; `None` if any value is allowed.
    pub(crate) any_of: Option<Vec<Vec<u8>>>,
    pub(crate) from: Bound<Vec<u8>>,
    pub(crate) to: Bound<Vec<u8>>,
}

impl KeyTest {
    /// The lowest value that may pass.
    fn least(&self) -> Option<&[u8]> {
        self.any_of.as_ref().and_then(|list| list.first()).or_else(|| value_of(&self.from)).map(Vec::as_slice)
    }

    /// The highest value that may pass.
    fn most(&self) -> Option<&[u8]> {
        self.any_of.as_ref().and_then(|list| list.last()).or_else(|| value_of(&self.to)).map(Vec::as_slice)
    }

    fn passes(&self, part: &[u8]) -> bool {
        let listed = |list: &Vec<Vec<u8>>| list.binary_search_by(|item| item.as_slice().cmp(part)).is_ok();
        self.any_of.as_ref().is_none_or(listed)
            && match &self.from {
                Bound::Included(bound) => part >= bound.as_slice(),
                Bound::Excluded(bound) => part > bound.as_slice(),
                Bound::Unbounded => true,
            }
            && match &self.to {
                Bound::Included(bound) => part <= bound.as_slice(),
                Bound::Excluded(bound) => part < bound.as_slice(),
                Bound::Unbounded => true,
            }
    }
}

fn value_of(bound: &Bound<Vec<u8>>) -> Option<&Vec<u8>> {
    match bound {
        Bound::Included(value) | Bound::Excluded(value) => Some(value),
        Bound::Unbounded => None,
    }
}

/// The range that holds all keys that pass these tests.
pub(crate) fn range_of(tests: &[KeyTest], columns: usize) -> KeyRange {
    let mut range = KeyRange::default();
    for part in 0..columns {
        let of_part = || tests.iter().filter(|test| test.part == part);
        let least = of_part().filter_map(KeyTest::least).max();
        let most = of_part().filter_map(KeyTest::most).min();
        // At the end of a key, NULL may have been left out.
        let least = least.filter(|least| *least != [0]);
        range.first.extend_from_slice(least.unwrap_or_default());
        range.last.extend_from_slice(most.unwrap_or_default());
        // Only behind one value is the next column in order.
        if least.is_none() || least != most {
            break;
        }
    }
    range
}

/// The requested containers and times.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScanBounds {
    /// The types of the key columns.
    pub(crate) key_types: Vec<ColumnType>,
    /// Tests for the key columns.
    pub(crate) tests: Vec<KeyTest>,
    /// The range of every matching key, if no keys are listed.
    pub(crate) range: KeyRange,
    /// Sorted distinct keys; `None` for all containers.
    pub(crate) keys: Option<Vec<Vec<u8>>>,
    /// First time, inclusive.
    pub(crate) from: Option<i64>,
    /// Last time, inclusive.
    pub(crate) to: Option<i64>,
    /// The number of newest rows that are wanted of each container; `None` means all rows.
    pub(crate) newest: Option<usize>,
    /// The number of first rows that are wanted, in the order of the containers' keys; `None` means all.
    pub(crate) limit: Option<usize>,
    /// Whether older rows of a primary key are needed for their fields.
    pub(crate) merges_fields: bool,
}

impl ScanBounds {
    /// Whether a time span overlaps the requested times.
    pub(crate) fn touches(&self, times: (i64, i64)) -> bool {
        self.from.is_none_or(|from| times.1 >= from) && self.to.is_none_or(|to| times.0 <= to)
    }

    /// Whether all rows of a time span are requested, of all containers.
    pub(crate) fn takes_all_of(&self, times: (i64, i64)) -> bool {
        let is_inside = self.from.is_none_or(|from| from <= times.0) && self.to.is_none_or(|to| times.1 <= to);
        is_inside && self.newest.is_none() && self.keys.is_none() && self.tests.is_empty()
    }

    /// Whether a key passes the tests.
    pub(crate) fn passes(&self, key: &[u8]) -> Result<bool> {
        if self.tests.is_empty() {
            return Ok(true);
        }
        for (number, part) in key::parts(key, &self.key_types).enumerate() {
            let part = part?;
            if !self.tests.iter().filter(|test| test.part == number).all(|test| test.passes(part)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
