//! What the queries of cpu rows ask about, at random.

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

const SECOND_NS: i64 = 1_000_000_000;

/// A number of hosts, spread over all of them.
pub(super) fn hosts(random: &mut Xoshiro256PlusPlus, all: usize, count: usize) -> Vec<String> {
    let first = random.random_range(0..all);
    (0..count).map(|place| format!("host_{}", (first + place * all / count) % all)).collect()
}

/// A window of this width within the data, or all of the data if it is shorter. It starts at a whole
/// second, for targets that store less precise times.
pub(super) fn window(random: &mut Xoshiro256PlusPlus, (start_ns, end_ns): (i64, i64), width_ns: i64) -> (i64, i64) {
    let latest_s = ((end_ns - width_ns - start_ns) / SECOND_NS).max(0);
    let from_ns = start_ns + random.random_range(0..=latest_s) * SECOND_NS;
    (from_ns, (from_ns + width_ns).min(end_ns))
}
