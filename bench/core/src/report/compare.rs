//! Compares two result files: what differs, and whether the difference is more than chance.

use super::{Table, aligned, is_throughput, number, of};
use crate::results::{Phase, Results};
use crate::statistics::{mann_whitney, median};

/// A difference with a smaller probability is called significant.
const SIGNIFICANT: f64 = 0.05;

/// A table of the phases in both files, with the ratio of the medians and the probability that the
/// difference is chance.
pub fn compare(a: &Results, b: &Results) -> String {
    let mut table = Table {
        title: format!("{} ({}) against {} ({})", a.experiment, a.profile, b.experiment, b.profile),
        head: ["target, phase", "unit", "A", "B", "B / A", "p", ""].map(str::to_owned).to_vec(),
        rows: Vec::new(),
        notes: Vec::new(),
    };
    for target in a.targets() {
        for phase in a.phases() {
            let (ours, theirs) = (a.valid(target, phase), b.valid(target, phase));
            if ours.is_empty() || theirs.is_empty() {
                continue;
            }
            let throughput = is_throughput(&ours);
            let figure = |phase: &Phase| if throughput { phase.row_rate() } else { phase.driven.latency.p50_us };
            let (x, y) = (of(&ours, figure), of(&theirs, figure));
            let p = mann_whitney(&x, &y);
            let (x, y) = (median(x), median(y));
            let said = match (p < SIGNIFICANT, (y > x) == throughput) {
                (false, _) => "~",
                (true, true) => "better",
                (true, false) => "worse",
            };
            table.rows.push(vec![
                format!("{target}, {phase}"),
                if throughput { "rows/s" } else { "us" }.to_owned(),
                number(x),
                number(y),
                number(y / x),
                format!("{p:.3}"),
                said.to_owned(),
            ]);
        }
    }
    table.notes.push(format!(
        "p: exact Mann-Whitney test over the repetitions; ~ where it is not below {SIGNIFICANT}. It takes at least \
         four repetitions each to show a difference."
    ));
    if a.machine.processor != b.machine.processor || a.machine.cores != b.machine.cores {
        table.notes.push("The machines differ: compare ratios between targets, not these numbers.".to_owned());
    }
    if a.scale != b.scale || a.profile != b.profile || a.experiment != b.experiment {
        table.notes.push("The experiments, profiles or sizes differ.".to_owned());
    }
    aligned(&table)
}
