//! The totals of numbers: count, minimum, maximum and sum.

use crate::column_type::{ColumnType, widen};
use crate::sums::{sum_of_floats, sum_of_integers};

/// The totals of a container's values in one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Amounts {
    /// Number of non-NULL values.
    pub(crate) count: u64,
    /// The minimum, as a raw value; meaningless if there are no values.
    pub(crate) least: u64,
    /// The maximum, as a raw value.
    pub(crate) most: u64,
    pub(crate) sum: Sum,
}

/// A sum, exact for integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sum {
    Integer(i128),
    Float(f64),
}

impl Amounts {
    pub(crate) fn none(column_type: ColumnType) -> Self {
        let sum = if column_type.is_float() { Sum::Float(0.0) } else { Sum::Integer(0) };
        Self { count: 0, least: 0, most: 0, sum }
    }

    /// Adds one value.
    pub(crate) fn add(&mut self, raw: u64, column_type: ColumnType) {
        if self.count == 0 || is_less(raw, self.least, column_type) {
            self.least = raw;
        }
        if self.count == 0 || is_less(self.most, raw, column_type) {
            self.most = raw;
        }
        self.count += 1;
        match &mut self.sum {
            Sum::Float(sum) => *sum += as_float(raw, column_type),
            Sum::Integer(sum) => *sum += as_integer(raw, column_type),
        }
    }

    /// Adds values. `nulls` counts the NULLs among them, whose raw value is 0. Without `extremes`,
    /// the minimum and maximum stay as they are; with them, no value may be NULL.
    pub(crate) fn add_all(&mut self, raws: &[u64], nulls: usize, extremes: bool, column_type: ColumnType) {
        let sum = sum_of(raws, column_type);
        if !extremes {
            self.count += (raws.len() - nulls) as u64;
            self.sum.add(sum);
            return;
        }
        let Some(&first) = raws.first() else { return };
        let (mut least, mut most) = (first, first);
        if column_type.is_float() && matches!(sum, Sum::Float(sum) if sum.is_finite()) {
            // None is NaN.
            let value = |raw| as_float(raw, column_type);
            for &raw in raws {
                least = if value(raw) < value(least) { raw } else { least };
                most = if value(raw) > value(most) { raw } else { most };
            }
        } else if column_type.is_float() || column_type == ColumnType::UInt64 {
            for &raw in raws {
                least = if is_less(raw, least, column_type) { raw } else { least };
                most = if is_less(most, raw, column_type) { raw } else { most };
            }
        } else {
            let extremes = raws
                .iter()
                .map(|&raw| raw as i64)
                .fold((i64::MAX, i64::MIN), |(least, most), value| (least.min(value), most.max(value)));
            (least, most) = (extremes.0 as u64, extremes.1 as u64);
        }
        self.merge(&Self { count: raws.len() as u64, least, most, sum }, column_type);
    }

    /// The same totals for a column that has been widened.
    #[must_use]
    pub(crate) fn widened(self, from: ColumnType, to: ColumnType) -> Self {
        if from == to {
            return self;
        }
        let sum = match self.sum {
            Sum::Integer(sum) if to.is_float() => Sum::Float(sum as f64),
            sum => sum,
        };
        Self { least: widen(self.least, from, to), most: widen(self.most, from, to), sum, ..self }
    }

    /// Adds the totals of other values of the same column.
    pub(crate) fn merge(&mut self, other: &Self, column_type: ColumnType) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 || is_less(other.least, self.least, column_type) {
            self.least = other.least;
        }
        if self.count == 0 || is_less(self.most, other.most, column_type) {
            self.most = other.most;
        }
        self.count += other.count;
        self.sum.add(other.sum);
    }
}

impl Sum {
    /// Adds the sum of other values of the same column.
    fn add(&mut self, other: Self) {
        match (self, other) {
            (Self::Float(sum), Self::Float(other)) => *sum += other,
            (Self::Integer(sum), Self::Integer(other)) => *sum += other,
            // Both have the same column type.
            _ => debug_assert!(false, "sums of two kinds"),
        }
    }
}

/// The sum of raw values.
fn sum_of(raws: &[u64], column_type: ColumnType) -> Sum {
    match column_type.is_float() {
        true => Sum::Float(sum_of_floats(raws, |raw| as_float(raw, column_type))),
        false => Sum::Integer(sum_of_integers(raws, column_type != ColumnType::UInt64)),
    }
}

pub(crate) fn as_float(raw: u64, column_type: ColumnType) -> f64 {
    match column_type {
        ColumnType::Float32 => f64::from(f32::from_bits(raw as u32)),
        _ => f64::from_bits(raw),
    }
}

pub(crate) fn as_integer(raw: u64, column_type: ColumnType) -> i128 {
    match column_type {
        ColumnType::UInt64 => i128::from(raw),
        _ => i128::from(raw as i64),
    }
}

/// The order of values; NaN is the largest float.
fn is_less(a: u64, b: u64, column_type: ColumnType) -> bool {
    if column_type.is_float() {
        let (a, b) = (as_float(a, column_type), as_float(b, column_type));
        a < b || (b.is_nan() && !a.is_nan())
    } else {
        as_integer(a, column_type) < as_integer(b, column_type)
    }
}

#[cfg(test)]
#[path = "amounts_tests.rs"]
mod tests;
