//! Queries on data at rest, warm, one core: prepared SQL and the container API beside SQLite and DuckDB.
//!
//! 1. E2's seven, TSBS' others over cpu rows, and TSBS' over trucks ([`texts`]).
//! 2. The same rows go into FleetDB (merged at the end), into SQLite (key (hostname or name, ts), integer times) and, from
//!    FleetDB's own Parquet files, into native tables of DuckDB sorted by key and time (`ask_duckdb.py`).
//! 3. Each target runs in a process of its own on one core ([`targets`]), prints each query's median time and a checksum of
//!    its answer ([`checksum`]); the checksums must be equal.

mod checksum;
mod targets;
mod texts;

use crate::bars::process::{pinned, run_pinned};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::scratch::Scratch;
use fleetdb_bench_core::workload::cpu::HOSTS;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// Rows of 4,000 hosts' cpu
    #[arg(long, default_value_t = 10_000_000)]
    rows: usize,
    /// Rows of 50 trucks' readings and diagnostics, before any is missing
    #[arg(long, default_value_t = 1_000_000)]
    iot_rows: usize,
    /// Where databases are made and removed
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Run one part in this process (used by the command itself)
    #[arg(long, hide = true)]
    part: Option<String>,
}

/// How many rows there are.
#[derive(Clone, Copy)]
struct Sizes {
    rows: usize,
    iot_rows: usize,
}

/// The parts, in the order of the table's columns.
const PARTS: [(&str, &str); 4] =
    [("sql", "prepared SQL"), ("container", "container API"), ("sqlite", "SQLite"), ("duckdb", "DuckDB")];

/// Median microseconds and a checksum of each query.
type Results = BTreeMap<String, (f64, u64)>;

pub fn run(args: &Args) -> Outcome<()> {
    let sizes = Sizes { rows: args.rows, iot_rows: args.iot_rows };
    match args.part.as_deref() {
        Some("load") => return targets::load(sizes, &args.directory),
        Some(part) => {
            let results = match part {
                "sql" => targets::sql(sizes, &args.directory)?,
                "container" => targets::container(sizes, &args.directory)?,
                _ => targets::sqlite(sizes, &args.directory)?,
            };
            println!("{}", serde_json::to_string(&results)?);
            return Ok(());
        }
        None => {}
    }
    println!(
        "{} cpu rows of {HOSTS} hosts and {} rows of trucks at rest, warm, one core; medians in microseconds",
        args.rows, args.iot_rows
    );
    let scratch = Scratch::new(&args.directory)?;
    let (rows, iot_rows) = (args.rows.to_string(), args.iot_rows.to_string());
    let part = |part| ["queries", "--part", part, "--rows", rows.as_str(), "--iot-rows", iot_rows.as_str()];
    run_pinned(&part("load"), Some(scratch.path()))?;
    let mut columns: Vec<Option<Results>> = Vec::new();
    for (target, name) in PARTS {
        let output = if target == "duckdb" {
            let mut command = std::process::Command::new("taskset");
            command
                .args(["-c", "0", "python3", "-c", include_str!("ask_duckdb.py")])
                .arg(scratch.path().join("fleetdb"));
            command.args(targets::for_duckdb(sizes)).output()?
        } else {
            pinned(&part(target), Some(scratch.path()))?.output()?
        };
        let error = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            columns.push(Some(serde_json::from_slice(&output.stdout).map_err(|e| format!("{name}: {e}"))?));
        } else if target == "duckdb" && error.contains("No module named") {
            println!("DuckDB is not measured: its Python package is not installed");
            columns.push(None);
        } else {
            return Err(format!("{name}: {error}").into());
        }
    }
    print_table(&targets::names(sizes), &columns)
}

/// The table of times.
///
/// # Errors
/// The answers to a query differ.
fn print_table(names: &[&str], columns: &[Option<Results>]) -> Outcome<()> {
    println!("{:<34} {:>14} {:>14} {:>14} {:>14}", "query", PARTS[0].1, PARTS[1].1, PARTS[2].1, PARTS[3].1);
    let mut differ = Vec::new();
    for query in names {
        let results: Vec<Option<&(f64, u64)>> =
            columns.iter().map(|column| column.as_ref().and_then(|results| results.get(*query))).collect();
        let shown =
            results.iter().map(|result| result.map_or_else(|| format!("{:>14}", "-"), |(us, _)| format!("{us:>14.1}")));
        println!("{query:<34} {}", shown.collect::<Vec<_>>().join(" "));
        let mut sums: Vec<u64> = results.iter().flatten().map(|(_, sum)| *sum).collect();
        sums.dedup();
        if sums.len() > 1 {
            differ.push(*query);
        }
    }
    if differ.is_empty() {
        println!("the answers are equal");
        Ok(())
    } else {
        Err(format!("the answers differ: {}", differ.join(", ")).into())
    }
}
