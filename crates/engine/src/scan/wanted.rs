//! Which rows a scan wants: containers by key, rows by time.

use crate::error::Result;
use crate::key;
use crate::schema::ColumnType;
use std::ops::Bound;

/// A test of one key column, on its encoded bytes.
#[derive(Clone, Debug)]
pub(crate) struct KeyTest {
    /// The column's place in the key.
    pub(crate) part: usize,
    /// Sorted; `None` for any value.
    pub(crate) any_of: Option<Vec<Vec<u8>>>,
    pub(crate) from: Bound<Vec<u8>>,
    pub(crate) to: Bound<Vec<u8>>,
}

impl KeyTest {
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

/// Which containers and times are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// The types of the key's columns.
    pub(crate) key_types: Vec<ColumnType>,
    /// What the key's columns must pass.
    pub(crate) tests: Vec<KeyTest>,
    /// Every wanted key begins with these bytes.
    pub(crate) prefix: Vec<u8>,
    /// Sorted keys, each once; `None` for all containers.
    pub(crate) keys: Option<Vec<Vec<u8>>>,
    /// From this time on.
    pub(crate) from: Option<i64>,
    /// Up to and with this time.
    pub(crate) to: Option<i64>,
    /// Whether older rows of a primary key are wanted, for their fields.
    pub(crate) merges_fields: bool,
}

impl Wanted {
    /// Whether a span of times has anything in common with what is wanted.
    pub(crate) fn touches(&self, times: (i64, i64)) -> bool {
        self.from.is_none_or(|from| times.1 >= from) && self.to.is_none_or(|to| times.0 <= to)
    }

    pub(crate) fn passes(&self, key: &[u8]) -> Result<bool> {
        if self.tests.is_empty() {
            return Ok(true);
        }
        let parts = key::parts(key, &self.key_types)?;
        Ok(self.tests.iter().all(|test| parts.get(test.part).is_some_and(|part| test.passes(part))))
    }
}
