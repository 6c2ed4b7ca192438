//! The weighted score of E4 and the cost of E3.

use super::{Table, number, of};
use crate::results::{Phase, Results};
use crate::statistics::median;

/// The name of a column, its weight, and its source.
type Weight = (&'static str, f64, fn(&Phase) -> f64);

/// The published weights. Difficulty, with a weight of 0.2 out of 9.7, was a matter of opinion and
/// is left out.
const WEIGHTS: [Weight; 7] = [
    ("server CPU %", 2.0, |phase| share(phase.metered.server.processor_s, phase)),
    ("server MB", 0.25, |phase| phase.metered.server.peak_bytes as f64 / 1e6),
    ("client CPU %", 2.5, |phase| share(phase.metered.client.processor_s, phase)),
    ("client MB", 0.25, |phase| phase.metered.client.peak_bytes as f64 / 1e6),
    ("disk kB/s", 2.5, |phase| phase.metered.written_bytes() as f64 / 1e3 / phase.driven.seconds),
    ("disk MB", 0.5, |phase| phase.disk_bytes as f64 / 1e6),
    ("Mbit/s", 1.5, |phase| phase.metered.network_bytes as f64 * 8.0 / 1e6 / phase.driven.seconds),
];

fn share(processor_s: f64, phase: &Phase) -> f64 {
    processor_s / phase.driven.seconds * 100.0
}

/// The additional table of an experiment, if it has one.
pub(super) fn table(results: &Results) -> Option<Table> {
    match results.experiment.as_str() {
        "acquisition" => Some(score(results)),
        "scale" => results.price_per_hour.map(|price| cost(results, price)),
        _ => None,
    }
}

/// One way of writing to one target.
struct Measured {
    name: String,
    /// The figures in the order of [`WEIGHTS`].
    figures: [f64; 7],
    lost: f64,
    /// Bytes written to disk per byte stored there.
    write_amplification: f64,
}

/// The score: each figure relative to the largest in its column, weighted and summed; then how far
/// that is below the worst.
fn score(results: &Results) -> Table {
    let mut measured = Vec::new();
    for target in results.targets() {
        for phase in ["single", "batched", "bulk"] {
            let phases = results.valid(target, phase);
            // Of a target at a URL, neither the server nor its disk is measured.
            if phases.iter().any(|phase| phase.disk_bytes > 0) {
                measured.push(Measured {
                    name: format!("{target}, {phase}"),
                    figures: WEIGHTS.map(|(_, _, figure)| median(of(&phases, figure))),
                    lost: median(of(&phases, |phase| phase.lost.unwrap_or(0) as f64)),
                    write_amplification: median(of(&phases, |phase| {
                        phase.metered.written_bytes() as f64 / phase.disk_bytes as f64
                    })),
                });
            }
        }
    }
    let largest: [f64; 7] = std::array::from_fn(|place| {
        measured.iter().map(|target| target.figures[place]).fold(f64::MIN_POSITIVE, f64::max)
    });
    let points = |figures: &[f64; 7]| -> f64 {
        let relative = figures.iter().zip(&largest).zip(WEIGHTS);
        relative.map(|((figure, largest), (_, weight, _))| figure / largest * weight).sum()
    };
    let worst: f64 = WEIGHTS.iter().map(|(_, weight, _)| weight).sum();
    let score = |target: &Measured| (worst - points(&target.figures)) / worst * 100.0;
    measured.sort_by(|a, b| score(b).total_cmp(&score(a)));
    let mut head = vec!["target".to_owned(), "score".to_owned()];
    head.extend(WEIGHTS.map(|(name, weight, _)| format!("{name} ({weight})")));
    head.extend(["lost", "write amplification"].map(str::to_owned));
    let rows = measured.iter().map(|target| {
        let mut row = vec![target.name.clone(), number(score(target))];
        row.extend(target.figures.map(number));
        row.extend([target.lost, target.write_amplification].map(number));
        row
    });
    let notes = vec![
        "Each figure is relative to the largest of its column, times the weight in parentheses; 100 means that nothing \
         was used at all. Losses do not count, as in the publication. The published difficulty (0.2) is omitted. \
         Embedded targets are in the client's columns, whose memory includes the suite's own. Disk is what a way \
         added, and write amplification what was written for it. Targets at a URL, whose servers are not measured, have \
         no score."
            .to_owned(),
    ];
    Table { title: "Score".to_owned(), head, rows: rows.collect(), notes }
}

/// The cost of 100 M operations, given the price of the machine that client and server share.
fn cost(results: &Results, price_per_hour: f64) -> Table {
    let phases: Vec<&str> = results.phases();
    let mut rows = Vec::new();
    for target in results.targets() {
        let mut row = vec![target.to_owned()];
        for phase in &phases {
            let rate = median(of(&results.valid(target, phase), Phase::row_rate));
            row.push(number(price_per_hour / 3_600.0 / rate * 1e8));
        }
        rows.push(row);
    }
    let mut head = vec!["$ for 100 M records".to_owned()];
    head.extend(phases.iter().map(|phase| (*phase).to_owned()));
    let notes = vec![format!("At ${price_per_hour} per hour for the machine that client and server share.")];
    Table { title: "Cost".to_owned(), head, rows, notes }
}
