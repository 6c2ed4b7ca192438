//! A single HTML file that needs no network: charts and tables, readable on a phone and in print.

use super::chart::{Line, bars, latencies, legend, lines};
use super::{Table, circumstances, is_throughput, of, published, tables};
use crate::Outcome;
use crate::results::{Phase, Results};
use crate::statistics::median;

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; color: #222; background: #fff }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.2rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: .8rem; width: 100% }
th, td { padding: .25rem .4rem; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top }
th { border-bottom-color: #888; vertical-align: bottom } td { white-space: nowrap } td.text { white-space: normal }
td small { display: block; color: #666 }
th.text, td.text { text-align: left } th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff }
td.bad { color: #b00020; font-weight: 600 } .note { font-size: .85rem; color: #555; margin: .3rem 0 }
svg { width: 100%; max-width: 60rem; min-width: 34rem; height: auto } .legend span { white-space: nowrap }
.legend i { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 .8em }
.bars div { display: flex; align-items: center; gap: .5rem; margin: .2rem 0 } .bars b { height: 1.1em }
.bars span:first-child { width: 11rem; flex: none } .bars span { font-size: .85rem }
@media (max-width: 40rem) { body { font-size: 15px; padding: .6rem } .bars span:first-child { width: 7rem } }
@media print { body { max-width: none } table { font-size: 7pt } h2 { break-after: avoid } .wide { overflow: visible } }
";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Renders the report.
///
/// # Errors
/// A chart cannot be drawn.
pub fn html(results: &Results) -> Outcome<String> {
    let mut html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width,\
         initial-scale=1\"><title>{0}</title><style>{STYLE}</style><h1>{0}</h1>",
        escaped(&format!("{}: {}", results.experiment, results.targets().join(", ")))
    );
    for sentence in circumstances(results) {
        html += &format!("<p class=note>{}</p>", escaped(&sentence));
    }
    let phases = results.phases();
    for table in tables(results) {
        html += &section(&table);
        if phases.contains(&table.title.as_str()) {
            html += &throughput(results, &table.title)?;
        }
    }
    for phase in phases {
        html += &query(results, phase);
    }
    html += &published::table_for(&results.experiment).as_ref().map(section).unwrap_or_default();
    Ok(html)
}

/// A container that scrolls on a narrow screen.
fn wide(html: &str) -> String {
    format!("<div class=wide>{html}</div>")
}

fn section(table: &Table) -> String {
    let line = |cells: &[String], kind: &str| {
        let cells = cells.iter().zip(&table.head).map(|(cell, head)| {
            let class = match cell.as_str() {
                "WRONG" | "cannot" | "no" => " class=bad",
                _ if matches!(head.as_str(), "version" | "settings" | "first" | "best other") => " class=text",
                _ => "",
            };
            // The smallest and the largest below the median.
            let text = match cell.split_once(" (") {
                Some((middle, range)) if range.contains('-') => {
                    format!("{}<small>({}</small>", escaped(middle), escaped(range))
                }
                _ => escaped(cell),
            };
            format!("<{kind}{class}>{text}</{kind}>")
        });
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let mut html = format!("<h2>{}</h2><div class=wide><table>{}", escaped(&table.title), line(&table.head, "th"));
    html.extend(table.rows.iter().map(|row| line(row, "td")));
    html += "</table></div>";
    html.extend(table.notes.iter().map(|note| format!("<p class=note>{}</p>", escaped(note))));
    html
}

/// The repetitions of each target whose numbers are valid.
fn valid<'a>(results: &'a Results, phase: &str) -> Vec<(String, Vec<&'a Phase>)> {
    let targets = results.targets().into_iter().map(|target| (escaped(target), results.valid(target, phase)));
    targets.filter(|(_, phases)| !phases.is_empty()).collect()
}

/// Rates as bars; rows over time and latencies as lines, from the first repetition.
fn throughput(results: &Results, phase: &str) -> Outcome<String> {
    let valid = valid(results, phase);
    if valid.is_empty() {
        return Ok(String::new());
    }
    let rates = valid.iter().map(|(name, phases)| (name.clone(), median(of(phases, Phase::row_rate))));
    let mut html = bars("rows/s", &rates.collect::<Vec<_>>());
    let names: Vec<String> = valid.iter().map(|(name, _)| name.clone()).collect();
    html += &legend(&names);
    let of_first = |points: &dyn Fn(&Phase) -> Vec<(f64, f64)>| {
        valid.iter().map(|(_, phases)| points(phases[0])).collect::<Vec<Line>>()
    };
    let over_time = of_first(&|phase| {
        // The last second is incomplete.
        let whole = phase.driven.rows_by_second.len().saturating_sub(1).max(1);
        phase.driven.rows_by_second.iter().take(whole).enumerate().map(|(s, rows)| (s as f64, *rows as f64)).collect()
    });
    if over_time.iter().any(|line| line.len() > 1) {
        html += &wide(&lines("second", "rows", &over_time)?);
    }
    html += &wide(&latencies(&of_first(&|phase| {
        let latency = phase.driven.latency;
        let us = [latency.p50_us, latency.p90_us, latency.p99_us, latency.p999_us, latency.max_us];
        us.iter().enumerate().map(|(place, us)| (place as f64, us / 1e3)).collect()
    }))?);
    let processor = of_first(&|phase| {
        let samples = phase.metered.samples.iter();
        samples.map(|s| (s.second, s.server.processor_s + s.client.processor_s)).collect()
    });
    html += &wide(&lines("second", "processor seconds", &processor)?);
    Ok(html)
}

/// The medians of a query as bars.
fn query(results: &Results, phase: &str) -> String {
    let valid = valid(results, phase);
    let Some((_, first)) = valid.first() else { return String::new() };
    if is_throughput(first) {
        return String::new();
    }
    let times: Vec<(String, f64)> = valid
        .iter()
        .map(|(name, phases)| (name.clone(), median(of(phases, |phase| phase.driven.latency.p50_us))))
        .collect();
    format!("<h2>{}, median</h2>{}", escaped(phase), bars("us", &times))
}
