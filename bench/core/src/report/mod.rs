//! Reports: tables and charts of results, as text, Markdown and a single HTML file, and the
//! comparison of two results.

mod chart;
mod compare;
mod figures;
mod html;
mod leaders;
mod published;
mod score;

pub use compare::compare;
pub use html::html;

use crate::meters::{Metered, Usage};
use crate::results::{Phase, Results};
use crate::statistics::{Interval, median};
use std::fmt::Write;

/// A table; its first column is text, the others are figures.
pub struct Table {
    /// Its title.
    pub title: String,
    /// The column headings.
    pub head: Vec<String>,
    /// The rows, each with as many cells as there are headings.
    pub rows: Vec<Vec<String>>,
    /// Notes below the table.
    pub notes: Vec<String>,
}

/// Formats a number with digits in groups of three, and only as many decimals as are significant.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{}", rest.map(|rest| format!(".{rest}")).unwrap_or_default())
}

/// The median with the minimum and maximum.
fn interval(values: &[f64]) -> String {
    match Interval::of(values) {
        None => "-".to_owned(),
        Some(interval) if values.len() == 1 => number(interval.median),
        Some(Interval { low, median, high }) => format!("{} ({}-{})", number(median), number(low), number(high)),
    }
}

fn of(phases: &[&Phase], figure: impl Fn(&Phase) -> f64) -> Vec<f64> {
    phases.iter().map(|phase| figure(phase)).collect()
}

/// Whether a phase measures throughput rather than the latency of answers.
fn is_throughput(phases: &[&Phase]) -> bool {
    phases.first().is_some_and(|phase| phase.operation != "query")
}

/// The report's tables: the leaders, the targets, each phase that writes, all queries, and other
/// figures.
pub fn tables(results: &Results) -> Vec<Table> {
    let mut tables: Vec<Table> = leaders::table(results).into_iter().collect();
    tables.push(targets(results));
    let mut queries = Vec::new();
    for phase in results.phases() {
        let all: Vec<&Phase> = results.targets().iter().flat_map(|target| results.repetitions(target, phase)).collect();
        if is_throughput(&all) {
            tables.push(throughput(results, phase));
        } else if !all.is_empty() {
            queries.push(phase);
        }
    }
    if !queries.is_empty() {
        tables.push(times(results, &queries));
    }
    tables.extend(figures::table(results));
    tables.extend(score::table(results));
    tables
}

/// The targets and their settings.
fn targets(results: &Results) -> Table {
    let head = ["target", "version", "tier", "repetitions", "idle server, CPU %", "its MB", "settings"];
    let head = head.map(str::to_owned).to_vec();
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for target in results.targets() {
        let runs: Vec<_> = results.runs.iter().filter(|run| run.target == target).collect();
        let info = results.info(target);
        let idle = |figure: fn(&Usage, f64) -> f64| {
            // A target inside the client has no processes.
            let idle = runs.iter().filter_map(|run| run.idle.as_ref()).filter(|idle| idle.server.resident_bytes > 0);
            let seconds = |idle: &Metered| idle.samples.last().map_or(f64::NAN, |last| last.second);
            number(median(idle.map(|idle| figure(&idle.server, seconds(idle))).collect()))
        };
        rows.push(vec![
            target.to_owned(),
            info.map_or_else(|| "-".to_owned(), |info| info.version.clone()),
            tier(results, target),
            runs.iter().filter(|run| run.is_complete).count().to_string(),
            idle(|usage, seconds| usage.processor_s / seconds * 100.0),
            idle(|usage, _| usage.resident_bytes as f64 / 1e6),
            info.map_or_else(String::new, |info| info.settings.join(", ")),
        ]);
        for run in runs {
            if let Some(error) = &run.error {
                notes.push(format!("{target}, repetition {}: {error}", run.repetition + 1));
            } else if !run.is_complete {
                notes.push(format!("{target}, repetition {}: aborted; its numbers are omitted", run.repetition + 1));
            }
        }
    }
    Table { title: "Targets".to_owned(), head, rows, notes }
}

fn throughput(results: &Results, phase: &str) -> Table {
    let head = [
        "target",
        "tier",
        "rows/s",
        "operations/s",
        "p50 us",
        "p99 us",
        "settle s",
        "generating s",
        "server us/op",
        "client us/op",
        "server peak MB",
        "client median MB",
        "client peak MB",
        "written MB",
        "disk MB",
        "network MB",
        "lost",
        "answers",
    ];
    let mut notes = Vec::new();
    let mut rows = Vec::new();
    let mut operation = String::new();
    for target in results.targets() {
        let phases = results.repetitions(target, phase);
        if phases.is_empty() {
            continue;
        }
        let valid = results.valid(target, phase);
        if let Some(measured) = valid.first() {
            operation.clone_from(&measured.operation);
        }
        let middle = |figure: &dyn Fn(&Phase) -> f64| number(median(of(&valid, figure)));
        // Some phases do not time operations, or generate no rows.
        let timed = |time: f64| if time > 0.0 { time } else { f64::NAN };
        let served = |figure: &dyn Fn(&Phase) -> f64| {
            if valid.iter().all(|phase| phase.metered.server.peak_bytes == 0) { "-".to_owned() } else { middle(figure) }
        };
        rows.push(vec![
            target.to_owned(),
            tier(results, target),
            interval(&of(&valid, Phase::row_rate)),
            interval(&of(&valid, Phase::rate)),
            middle(&|p| timed(p.driven.latency.p50_us)),
            middle(&|p| timed(p.driven.latency.p99_us)),
            middle(&|p| p.settle_s),
            middle(&|p| timed(p.driven.preparing_s)),
            served(&|p| p.metered.server.processor_s * 1e6 / p.driven.operations as f64),
            middle(&|p| p.metered.client.processor_s * 1e6 / p.driven.operations as f64),
            served(&|p| p.metered.server.peak_bytes as f64 / 1e6),
            middle(&|p| p.metered.client_median_bytes() / 1e6),
            middle(&|p| p.metered.client.peak_bytes as f64 / 1e6),
            middle(&|p| p.metered.written_bytes() as f64 / 1e6),
            middle(&|p| if p.disk_bytes > 0 { p.disk_bytes as f64 / 1e6 } else { f64::NAN }),
            middle(&|p| p.metered.network_bytes as f64 / 1e6),
            middle(&|p| p.lost.map_or(f64::NAN, |lost| lost as f64)),
            verdict(results, &phases, target, &mut notes),
        ]);
    }
    notes.insert(
        0,
        format!(
            "Operation: {operation}. Rates include the time until everything is flushed and merged. Embedded targets \
             run inside the client. If one connection writes as fast as it can, the time to generate rows is \
             subtracted."
        ),
    );
    Table { title: phase.to_owned(), head: head.map(str::to_owned).to_vec(), rows, notes }
}

/// The median latency of each query.
fn times(results: &Results, queries: &[&str]) -> Table {
    let mut head = vec!["query, median us".to_owned()];
    head.extend(results.targets().iter().map(|target| (*target).to_owned()));
    let mut notes = Vec::new();
    let mut rows = Vec::new();
    for query in queries {
        let mut row = vec![(*query).to_owned()];
        for target in results.targets() {
            let phases = results.repetitions(target, query);
            let said = verdict(results, &phases, target, &mut notes);
            let valid = results.valid(target, query);
            row.push(if valid.is_empty() { said } else { interval(&of(&valid, |p| p.driven.latency.p50_us)) });
        }
        rows.push(row);
    }
    notes.push(match results.experiment.as_str() {
        crate::experiment::statements::NAME => crate::experiment::statements::COMPARISON.to_owned(),
        _ => "Every timed answer is compared with the oracle's.".to_owned(),
    });
    Table { title: "Queries".to_owned(), head, rows, notes }
}

fn tier(results: &Results, target: &str) -> String {
    results.info(target).map_or_else(|| "-".to_owned(), |info| info.tier.to_string())
}

/// The oracle's verdict.
fn verdict(results: &Results, phases: &[&Phase], target: &str, notes: &mut Vec<String>) -> String {
    if results.is_floor(target) {
        return "floor".to_owned();
    }
    if let Some(lacking) = phases.iter().find_map(|phase| phase.lacking.as_ref()) {
        let note = format!("{target}: unsupported query: {lacking}");
        if !notes.contains(&note) {
            notes.push(note);
        }
        return "cannot".to_owned();
    }
    if let Some(wrong) = phases.iter().find_map(|phase| phase.wrong.as_ref()) {
        notes.push(format!("{target} is wrong: {wrong}"));
        return "WRONG".to_owned();
    }
    match phases.iter().map(|phase| phase.verified).sum::<usize>() {
        0 => "-".to_owned(),
        verified => format!("{verified} right"),
    }
}

/// Where and how the experiment ran, in sentences.
fn circumstances(results: &Results) -> Vec<String> {
    let machine = &results.machine;
    let began = chrono::DateTime::from_timestamp(results.began_s as i64, 0).unwrap_or_default();
    let scale = results.scale.as_object().into_iter().flatten().map(|(name, value)| format!("{name} {value}"));
    vec![
        format!(
            "Profile {}, seed {}, {}; started {}.",
            results.profile,
            results.seed,
            scale.collect::<Vec<_>>().join(", "),
            began.format("%Y-%m-%d %H:%M UTC")
        ),
        format!(
            "{} cores of {}, {} GB of memory, Linux {}; fdatasync of 4 KiB {} us. Client and servers share them.",
            machine.cores,
            machine.processor,
            number(machine.memory_bytes as f64 / 1e9),
            machine.kernel,
            number(machine.fsync_us)
        ),
        "T3: synced before the acknowledgement; T2: synced on a timer; T1: in the page cache; T0: in memory."
            .to_owned(),
    ]
}

/// Renders the results as aligned text.
pub fn text(results: &Results) -> String {
    let mut text = format!("{}\n", circumstances(results).join("\n"));
    for table in tables(results) {
        text += &aligned(&table);
    }
    text
}

pub(crate) fn aligned(table: &Table) -> String {
    let mut text = format!("\n{}\n", table.title);
    let lines = std::iter::once(&table.head).chain(&table.rows);
    let width = |place: usize| lines.clone().map(|line| line[place].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    for line in lines.clone() {
        for (place, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Writing to a string does not fail.
            match place {
                0 => write!(text, "{cell:<width$}").ok(),
                _ => write!(text, "  {cell:>width$}").ok(),
            };
        }
        text.push('\n');
    }
    for note in &table.notes {
        text += &format!("{note}\n");
    }
    text
}

/// Renders the results as Markdown.
pub fn markdown(results: &Results) -> String {
    let mut text = format!("# {}\n\n{}\n", results.experiment, circumstances(results).join("\n"));
    for table in tables(results).into_iter().chain(published::table_for(&results.experiment)) {
        text +=
            &format!("\n## {}\n\n| {} |\n|{}\n", table.title, table.head.join(" | "), "---|".repeat(table.head.len()));
        for row in &table.rows {
            text += &format!("| {} |\n", row.join(" | "));
        }
        for note in &table.notes {
            text += &format!("\n{note}\n");
        }
    }
    text
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
