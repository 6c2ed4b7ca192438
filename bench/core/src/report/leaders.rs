//! The leading target of each phase, and the size of its lead.

use super::{Table, is_throughput, number, of};
use crate::results::{Phase, Results};
use crate::statistics::median;
use std::cmp::Ordering;

/// One row per phase: the best target, the best target of another database, and the factor between
/// them. `None` if there is only one database.
pub(super) fn table(results: &Results) -> Option<Table> {
    let rows: Vec<Vec<String>> = results.phases().into_iter().filter_map(|phase| row(results, phase)).collect();
    let head = ["", "first", "its figure", "best other", "its figure", "factor"].map(str::to_owned).to_vec();
    let notes = vec![
        "Medians of all repetitions. Rates include the time until everything is flushed and merged. Each name is \
         followed by its durability tier: a target of a lower tier promises less."
            .to_owned(),
    ];
    (!rows.is_empty()).then(|| Table { title: "Leaders".to_owned(), head, rows, notes })
}

fn row(results: &Results, phase: &str) -> Option<Vec<String>> {
    let targets = results.targets().into_iter().filter(|target| !results.is_floor(target));
    let mut measured: Vec<(&str, Vec<&Phase>)> = targets.map(|target| (target, results.valid(target, phase))).collect();
    measured.retain(|(_, phases)| !phases.is_empty());
    let is_rate = is_throughput(&measured.first()?.1);
    let (what, figure): (_, fn(&Phase) -> f64) = match is_rate {
        true => ("rows/s", Phase::row_rate),
        false => ("median us", |phase| phase.driven.latency.p50_us),
    };
    let mut ranked: Vec<(&str, f64)> =
        measured.iter().map(|(target, phases)| (*target, median(of(phases, figure)))).collect();
    let best_first = |a: f64, b: f64| -> Ordering { if is_rate { b.total_cmp(&a) } else { a.total_cmp(&b) } };
    ranked.sort_by(|a, b| best_first(a.1, b.1));
    let &(first, best) = ranked.first()?;
    let &(second, next) = ranked.iter().find(|(target, _)| database(target) != database(first))?;
    let named = |target: &str| format!("{target} ({})", super::tier(results, target));
    let factor = if is_rate { best / next } else { next / best };
    Some(vec![format!("{phase}, {what}"), named(first), number(best), named(second), number(next), number(factor)])
}

/// The database of a target: `fleetdb` and `fleetdb-server` are both FleetDB.
fn database(target: &str) -> &str {
    target.split('-').next().unwrap_or(target)
}
