//! Figures that are neither rates nor latencies, and whether they meet their goals.

use super::{Table, interval, number};
use crate::results::{Figure, Results};
use crate::statistics::median;

/// One row per figure, one column per target. `None` if there are no figures.
pub(super) fn table(results: &Results) -> Option<Table> {
    let mut names: Vec<&Figure> = Vec::new();
    for figure in results.runs.iter().flat_map(|run| &run.figures) {
        if names.iter().all(|known| known.name != figure.name) {
            names.push(figure);
        }
    }
    let targets = results.targets();
    let mut head = vec!["figure".to_owned(), "unit".to_owned()];
    head.extend(targets.iter().map(|target| (*target).to_owned()));
    head.extend(["goal", "met?"].map(str::to_owned));
    let rows: Vec<Vec<String>> = names.into_iter().map(|figure| row(results, &targets, figure)).collect();
    (!rows.is_empty()).then(|| Table { title: "Figures".to_owned(), head, rows, notes: Vec::new() })
}

fn row(results: &Results, targets: &[&str], figure: &Figure) -> Vec<String> {
    let values: Vec<Vec<f64>> = targets.iter().map(|target| values(results, target, &figure.name)).collect();
    let mut row = vec![figure.name.clone(), figure.unit.clone()];
    row.extend(values.iter().map(|values| interval(values)));
    row.extend(match figure.at_most {
        None => [String::new(), String::new()],
        Some(goal) => {
            let medians: Vec<f64> = values.into_iter().filter(|values| !values.is_empty()).map(median).collect();
            let is_met = match medians.as_slice() {
                [] => "-",
                medians if medians.iter().all(|median| *median <= goal) => "yes",
                _ => "no",
            };
            [format!("at most {}", number(goal)), is_met.to_owned()]
        }
    });
    row
}

/// The values of a figure in a target's complete repetitions.
fn values(results: &Results, target: &str, name: &str) -> Vec<f64> {
    let runs = results.runs.iter().filter(|run| run.target == target && run.is_complete);
    runs.flat_map(|run| &run.figures).filter(|figure| figure.name == name).map(|figure| figure.value).collect()
}
