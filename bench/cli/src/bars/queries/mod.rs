//! Queries on data at rest, with warm caches, on one core: prepared SQL and the container API next
//! to SQLite and DuckDB.
//!
//! 1. The queries are E2's seven, and the other TSBS queries on cpu rows and on trucks ([`texts`]).
//! 2. The same rows are loaded into FleetDB (merged at the end), into SQLite (key (hostname or
//!    name, ts), integer times) and, from FleetDB's own Parquet files, into native tables of DuckDB
//!    sorted by key and time (`ask_duckdb.py`).
//! 3. Each target runs in its own process on one core ([`targets`]) and prints the median time of
//!    each query and a checksum of its answer ([`checksum`]). The checksums must be equal.

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
    /// Rows of cpu usage, over 4,000 hosts
    #[arg(long, default_value_t = 10_000_000)]
    rows: usize,
    /// Rows of readings and diagnostics of 50 trucks, before some are left out
    #[arg(long, default_value_t = 1_000_000)]
    iot_rows: usize,
    /// Directory in which databases are created and removed
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Run one part in this process (used by the command itself)
    #[arg(long, hide = true)]
    part: Option<String>,
}

/// The numbers of rows.
#[derive(Clone, Copy)]
struct Sizes {
    rows: usize,
    iot_rows: usize,
}

/// The parts, in the order of the table's columns.
const PARTS: [(&str, &str); 4] =
    [("sql", "prepared SQL"), ("container", "container API"), ("sqlite", "SQLite"), ("duckdb", "DuckDB")];

/// For each query, the median in microseconds and a checksum.
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
            println!("skipping DuckDB: its Python package is not installed");
            columns.push(None);
        } else {
            return Err(format!("{name}: {error}").into());
        }
    }
    print_table(&targets::names(sizes), &columns)
}

/// Prints the table of times.
///
/// # Errors
/// Two answers to a query differ.
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
