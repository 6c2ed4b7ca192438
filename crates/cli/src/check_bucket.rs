//! `fleetdb check-bucket`: tries whether an object store keeps the promises that FleetDB needs, and how
//! long its writes take.

use crate::io_error;
use crate::progress::bar;
use crate::sql::output::Format;
use crate::stdout::output;
use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::util::pretty::pretty_format_batches;
use fleetdb_cluster::bucket::Bucket;
use fleetdb_cluster::check::{Effort, Promise, Report, STEPS, WriteTimes, check};
use fleetdb_engine::{Code, Error, Result};
use fleetdb_query::{csv_header, csv_rows};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    /// The bucket: s3://BUCKET/PREFIX, or file:///DIRECTORY for development. Credentials, region and
    /// endpoint are those of the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION,
    /// AWS_ENDPOINT_URL
    url: String,
    /// Clients that write at the same time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=100))]
    clients: u64,
    /// How often they race for one object
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rounds: u64,
    /// How long writes of each size are timed, in milliseconds
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(..=600_000))]
    milliseconds: u64,
    /// The price of a million writes, in dollars; 5 is that of S3 Standard
    #[arg(long, default_value_t = 5.0)]
    put_price: f64,
    /// How to show the result; CSV has only the times of writes
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

pub fn run(args: &Args) -> Result<()> {
    let bucket = Bucket::open(&args.url)?;
    let effort = Effort {
        clients: args.clients as usize,
        rounds: args.rounds as usize,
        time_per_size: Duration::from_millis(args.milliseconds),
        price_per_million: args.put_price,
    };
    let progress = bar(STEPS as u64, "checking", "steps");
    let report = check(&bucket, &effort, || progress.inc(1));
    progress.finish_and_clear();
    let report = report?;
    show(&report, args.format)?;
    let broken: Vec<_> = report.broken().collect();
    if broken.is_empty() {
        return Ok(());
    }
    for Promise { name, otherwise, broken } in broken {
        eprintln!("{name}: no, {}; {otherwise}", broken.as_deref().unwrap_or_default());
    }
    Err(Error::new(Code::NotSupported, format!("{} lacks what FleetDB needs of a store", args.url)))
}

fn show(report: &Report, format: Format) -> Result<()> {
    let failed = |e: &dyn std::fmt::Display| Error::bug(format!("the report: {e}"));
    let mut out = output();
    let text = match format {
        Format::Json => serde_json::to_string_pretty(report).map_err(|e| failed(&e))? + "\n",
        Format::Csv => {
            let (rows, mut lines) = (times(&report.writes)?, Vec::new());
            csv_header(&rows.schema(), &mut lines);
            csv_rows(&rows, &mut lines).map_err(|e| failed(&e))?;
            String::from_utf8(lines).map_err(|e| failed(&e))?
        }
        Format::Table => {
            let mut text = String::new();
            for promise in &report.promises {
                let kept = if promise.broken.is_none() { "yes" } else { "NO" };
                text += &format!("{:<46} {kept}\n", promise.name);
            }
            let times = pretty_format_batches(&[times(&report.writes)?]).map_err(|e| failed(&e))?;
            format!("{text}{times}\n")
        }
    };
    out.write_all(text.as_bytes()).map_err(|e| io_error("could not write the output", &e))
}

/// The times of writes as a table.
fn times(writes: &[WriteTimes]) -> Result<RecordBatch> {
    fn numbers(writes: &[WriteTimes], of: impl Fn(&WriteTimes) -> usize) -> ArrayRef {
        Arc::new(writes.iter().map(|times| Some(of(times) as u64)).collect::<UInt64Array>())
    }
    fn figures(writes: &[WriteTimes], of: impl Fn(&WriteTimes) -> f64) -> ArrayRef {
        Arc::new(writes.iter().map(|times| Some(figure(of(times)))).collect::<StringArray>())
    }
    let columns = [
        ("bytes", numbers(writes, |times| times.bytes)),
        ("clients", numbers(writes, |times| times.clients)),
        ("writes", numbers(writes, |times| times.writes)),
        ("p50_ms", figures(writes, |times| times.p50_ms)),
        ("p99_ms", figures(writes, |times| times.p99_ms)),
        ("writes_per_second", figures(writes, |times| times.writes_per_second)),
        ("mb_per_second", figures(writes, |times| times.mb_per_second)),
        ("dollars_per_gb", figures(writes, |times| times.dollars_per_gb)),
    ];
    RecordBatch::try_from_iter(columns).map_err(|e| Error::bug(format!("the times of writes: {e}")))
}

/// A figure with three digits: two runs do not have more in common.
fn figure(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.2e}").parse::<f64>().map_or_else(|_| value.to_string(), |rounded| rounded.to_string()),
    }
}
