//! What the accumulators of aggregates have in common. A groups accumulator holds the state of all
//! groups of a GROUP BY; [`OneGroup`] adapts it to a single group, for aggregates without GROUP BY
//! and for windows.

use arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// Whether a row passes the aggregate's FILTER clause.
pub(super) fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

/// The states of rows that are a group each, for
/// [`convert_to_state`](GroupsAccumulator::convert_to_state). `groups` has no groups yet.
pub(super) fn state_of_each_row(
    mut groups: impl GroupsAccumulator,
    values: &[ArrayRef],
    filter: Option<&BooleanArray>,
) -> Result<Vec<ArrayRef>> {
    let rows = values.first().map_or(0, |values| values.len());
    groups.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
    groups.state(EmitTo::All)
}

/// A groups accumulator whose first group can be evaluated while it grows, as windows need.
pub(super) trait Peek: GroupsAccumulator + Sync {
    /// Creates the first group if no row has arrived yet.
    fn begin(&mut self);

    /// The current result of the first group.
    fn peek(&self) -> Result<ScalarValue>;
}

/// A single-group accumulator over `G`.
pub(super) struct OneGroup<G>(pub(super) G);

impl<G> std::fmt::Debug for OneGroup<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OneGroup")
    }
}

impl<G: Peek> Accumulator for OneGroup<G> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let groups = vec![0; values[0].len()];
        self.0.update_batch(values, &groups, None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.peek()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.begin();
        let state = self.0.state(EmitTo::All)?;
        state.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let groups = vec![0; states[0].len()];
        self.0.merge_batch(states, &groups, 1)
    }
}
