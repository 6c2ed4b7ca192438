//! The columns of a series with gaps, and how its gaps are filled.

/// How a missing value is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fill {
    /// With the last known value.
    Carry,
    /// By linear interpolation between the last known value and the next one.
    Line,
}

/// The roles of the input columns. All but [`before`](Self::before), the last one, are also output.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    /// The columns that identify a series.
    pub(super) series: Vec<usize>,
    /// The bucket's start.
    pub(super) time: usize,
    pub(super) fills: Vec<(usize, Fill)>,
    /// Marks rows before the window. They are used for filling but are not output.
    pub(super) before: Option<usize>,
}

impl Shape {
    /// The shape of an aggregate's columns. The first `groups` columns are its keys, and one of them
    /// is the bucket.
    pub(super) fn new(groups: usize, time: usize) -> Self {
        Self { series: (0..groups).filter(|&place| place != time).collect(), time, fills: Vec::new(), before: None }
    }

    /// Whether a column has a value in every bucket.
    pub(super) fn is_given(&self, place: usize) -> bool {
        place == self.time || self.series.contains(&place)
    }
}
