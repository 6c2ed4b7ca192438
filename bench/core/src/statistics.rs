//! Statistics over repetitions.

use serde::{Deserialize, Serialize};

/// The middle value, or the mean of the two middle values; NaN if there are none.
///
/// ```
/// assert_eq!(fleetdb_bench_core::statistics::median(vec![3.0, 1.0, 2.0]), 2.0);
/// ```
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// The median of repetitions, with the minimum and maximum.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Interval {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Interval {
    /// The interval of these values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let low = values.iter().copied().min_by(f64::total_cmp)?;
        let high = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Self { low, median: median(values.to_vec()), high })
    }
}

/// The probability that two samples from the same distribution differ at least this much: the exact
/// two-sided test of Mann and Whitney (1947), with ties counted as half.
///
/// With five repetitions each, samples that do not overlap give 0.008; with three each they give
/// 0.1, so three repetitions can never show a difference at the 0.05 level.
///
/// ```
/// let p = fleetdb_bench_core::statistics::mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
/// assert!((p - 2.0 / 252.0).abs() < 1e-9);
/// ```
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let doubled = a.iter().flat_map(|x| b.iter().map(move |y| 1 + i64::from(x > y) - i64::from(x < y))).sum::<i64>();
    let doubled = doubled.min((2 * a.len() * b.len()) as i64 - doubled);
    // The number of ways in which `n` of one sample and `m` of the other give each U.
    let (n, m) = (a.len(), b.len());
    let most = n * m;
    let mut ways = vec![vec![vec![0.0; most + 1]; m + 1]; n + 1];
    for i in 0..=n {
        for j in 0..=m {
            for u in 0..=most {
                ways[i][j][u] = match (i, j) {
                    (0, _) | (_, 0) => f64::from(u8::from(u == 0)),
                    _ => ways[i][j - 1][u] + if u >= j { ways[i - 1][j][u - j] } else { 0.0 },
                };
            }
        }
    }
    let all: f64 = ways[n][m].iter().sum();
    let extreme: f64 = ways[n][m].iter().enumerate().filter(|(u, _)| 2 * *u as i64 <= doubled).map(|(_, w)| w).sum();
    (2.0 * extreme / all).min(1.0)
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
