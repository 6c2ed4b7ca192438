//! E2's queries on data at rest, warm, one core: prepared SQL and the container API beside SQLite and DuckDB.
//!
//! 1. The same rows go into FleetDB (merged at the end), into SQLite (key (hostname, ts), integer times) and, from FleetDB's
//!    own Parquet files, into a native table of DuckDB sorted by key and time (`queries_duckdb.py`).
//! 2. Each target runs in a process of its own on one core, prints each query's median time and a checksum of its answer;
//!    the checksums must be equal.
//!
//! Hosts and windows are the same for all, inside the data: the windows end at the newest row.

use crate::measure::median;
use crate::process::{Scratch, pinned};
use crate::sqlite::{Mode, Sqlite};
use crate::workload::{BATCH_ROWS, Cpu, FIELDS, HOSTS, START_NS};
use crate::{Outcome, fleetdb};
use ::fleetdb_query::Session;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Database, Projection, Settings, TableView, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// Rows
    #[arg(long, default_value_t = 10_000_000)]
    rows: usize,
    /// Where databases are made and removed
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Run one part in this process (used by the command itself)
    #[arg(long, hide = true)]
    part: Option<String>,
}

/// The parts, in the order of the table's columns.
const PARTS: [(&str, &str); 4] =
    [("sql", "prepared SQL"), ("container", "container API"), ("sqlite", "SQLite"), ("duckdb", "DuckDB")];
/// A query is repeated for so long, and at least so often.
const REPEAT: Duration = Duration::from_millis(500);
const LEAST_REPEATS: usize = 5;
const SECOND_NS: i64 = 1_000_000_000;
const STEP_NS: i64 = 10 * SECOND_NS;

/// Median microseconds and a checksum of each query.
type Results = BTreeMap<String, (f64, u64)>;

pub fn run(args: &Args) -> Outcome<()> {
    match args.part.as_deref() {
        Some("load") => return load(args.rows, &args.directory),
        Some(part) => {
            let results = match part {
                "sql" => sql(args.rows, &args.directory)?,
                "container" => container(args.rows, &args.directory)?,
                _ => sqlite(args.rows, &args.directory)?,
            };
            println!("{}", serde_json::to_string(&results)?);
            return Ok(());
        }
        None => {}
    }
    println!("E2's queries, {} rows of {HOSTS} hosts at rest, warm, one core; medians in microseconds", args.rows);
    let scratch = Scratch::new(&args.directory)?;
    let rows = args.rows.to_string();
    crate::process::run_pinned(&["queries", "--part", "load", "--rows", &rows], scratch.path())?;
    let mut columns: Vec<Option<Results>> = Vec::new();
    for (part, name) in PARTS {
        let output = if part == "duckdb" {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/queries_duckdb.py");
            let mut command = std::process::Command::new("taskset");
            command
                .args(["-c", "0", "python3"])
                .arg(script)
                .arg(scratch.path().join("fleetdb"))
                .args(texts(args.rows, part).iter().flat_map(|(name, text)| [(*name).to_owned(), text.clone()]));
            command.output()?
        } else {
            pinned(&["queries", "--part", part, "--rows", &rows], scratch.path())?.output()?
        };
        let error = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            columns.push(Some(serde_json::from_slice(&output.stdout).map_err(|e| format!("{name}: {e}"))?));
        } else if part == "duckdb" && error.contains("No module named") {
            println!("DuckDB is not measured: its Python package is not installed");
            columns.push(None);
        } else {
            return Err(format!("{name}: {error}").into());
        }
    }
    println!("{:<24} {:>14} {:>14} {:>14} {:>14}", "query", PARTS[0].1, PARTS[1].1, PARTS[2].1, PARTS[3].1);
    let mut differ = Vec::new();
    for (query, _) in texts(args.rows, "sql") {
        let results: Vec<Option<&(f64, u64)>> =
            columns.iter().map(|column| column.as_ref().and_then(|results| results.get(query))).collect();
        let shown =
            results.iter().map(|result| result.map_or_else(|| format!("{:>14}", "-"), |(us, _)| format!("{us:>14.1}")));
        println!("{query:<24} {}", shown.collect::<Vec<_>>().join(" "));
        let mut sums: Vec<u64> = results.iter().flatten().map(|(_, sum)| *sum).collect();
        sums.dedup();
        if sums.len() > 1 {
            differ.push(query);
        }
    }
    if differ.is_empty() {
        println!("the answers are equal");
        Ok(())
    } else {
        Err(format!("the answers differ: {}", differ.join(", ")).into())
    }
}

/// Times of the queries' windows: the newest row's, and its distance in hours.
fn window(rows: usize, hours: i64) -> (i64, i64) {
    let end = START_NS + (rows / HOSTS) as i64 * STEP_NS;
    ((end - hours * 3600 * SECOND_NS).max(START_NS), end)
}

/// The queries as a target writes them. Times are integers of nanoseconds but for FleetDB.
fn texts(rows: usize, target: &str) -> Vec<(&'static str, String)> {
    let ((from_1, end), (from_6, _)) = (window(rows, 1), window(rows, 6));
    let from_5m = (end - 300 * SECOND_NS).max(START_NS);
    let maxima = FIELDS.map(|field| format!("max({field})")).join(", ");
    let hosts = [1, 2, 3, 5, 8, 13, 21, 34].map(|host| format!("'host_{host}'")).join(", ");
    let time = |ns: i64| match target {
        "sql" => format!("to_timestamp_nanos({ns})"),
        "duckdb" => format!("make_timestamp_ns({ns})"),
        _ => ns.to_string(),
    };
    let bucket = |seconds: i64| match target {
        "sql" => format!("time_bucket('{seconds} seconds', ts)"),
        "duckdb" => format!("epoch_ns(ts) // {0} * {0}", seconds * SECOND_NS),
        _ => format!("ts / {0} * {0}", seconds * SECOND_NS),
    };
    let within = |from: i64| format!("ts >= {} AND ts < {}", time(from), time(end));
    let newest_all = match target {
        // SQLite's documented extension: bare columns are those of the row with the maximum.
        "sqlite" => "SELECT *, max(ts) FROM cpu GROUP BY hostname ORDER BY hostname".to_owned(),
        _ => "SELECT DISTINCT ON (hostname) * FROM cpu ORDER BY hostname, ts DESC".to_owned(),
    };
    vec![
        ("FIVE_MINUTE_1", format!("SELECT * FROM cpu WHERE hostname = 'host_7' AND {} ORDER BY ts", within(from_5m))),
        ("COUNT", "SELECT count(*) FROM cpu".to_owned()),
        (
            "CPU_MAX_ALL_1",
            format!(
                "SELECT {} AS hour, {maxima} FROM cpu WHERE hostname = 'host_7' AND {} GROUP BY hour ORDER BY hour",
                bucket(3600),
                within(from_6)
            ),
        ),
        (
            "CPU_MAX_ALL_8",
            format!(
                "SELECT {} AS hour, {maxima} FROM cpu WHERE hostname IN ({hosts}) AND {} GROUP BY hour ORDER BY hour",
                bucket(3600),
                within(from_6)
            ),
        ),
        (
            "SINGLE_GROUP_BY_1_1_1",
            format!(
                "SELECT {} AS minute, max(usage_user) FROM cpu WHERE hostname = 'host_7' AND {} GROUP BY minute ORDER BY minute",
                bucket(60),
                within(from_1)
            ),
        ),
        ("LAST_POINT_ALL", newest_all),
        ("LAST_POINT_ONE", "SELECT * FROM cpu WHERE hostname = 'host_7' ORDER BY ts DESC LIMIT 1".to_owned()),
    ]
}

fn load(rows: usize, directory: &Path) -> Outcome<()> {
    std::fs::create_dir(directory.join("fleetdb"))?;
    std::fs::create_dir(directory.join("sqlite"))?;
    let db = fleetdb::open(&directory.join("fleetdb"))?;
    let mut sqlite = Sqlite::open(&directory.join("sqlite"), Mode::Queries)?;
    let mut workload = Cpu::edge()?;
    for _ in 0..rows / BATCH_ROWS {
        let batch = workload.next()?;
        sqlite.write(&batch)?;
        fleetdb::write(&db, batch)?;
    }
    sqlite.finish()?;
    db.compact()?;
    println!("{} segments", db.status().segments);
    db.close()?;
    Ok(())
}

/// Repeats a query; the median microseconds.
fn repeated(mut query: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    query()?;
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < LEAST_REPEATS || start.elapsed() < REPEAT {
        let start = Instant::now();
        query()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times))
}

/// Numbers and texts in order, as FNV-1a: the same in `queries_duckdb.py`.
#[derive(Clone, Copy)]
struct Checksum(u64);

impl Checksum {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn add_batches(&mut self, batches: &[RecordBatch]) -> Outcome<()> {
        for batch in batches {
            let columns: Vec<ArrayRef> = batch
                .columns()
                .iter()
                .map(|column| match column.data_type() {
                    DataType::Utf8 => Ok(Arc::clone(column)),
                    _ => cast(column, &DataType::Int64),
                })
                .collect::<Result<_, _>>()?;
            for row in 0..batch.num_rows() {
                for column in &columns {
                    match column.as_string_opt::<i32>() {
                        Some(text) => self.add(text.value(row)),
                        None => self.add(&column.as_primitive::<Int64Type>().value(row).to_string()),
                    }
                }
            }
        }
        Ok(())
    }
}

fn open(directory: &Path) -> Outcome<Database> {
    Ok(Database::open(Io::files(directory.join("fleetdb")), Settings::default())?)
}

fn sql(rows: usize, directory: &Path) -> Outcome<Results> {
    let session = Session::new(Arc::new(open(directory)?))?;
    let ((from_1, end), (from_6, _)) = (window(rows, 1), window(rows, 6));
    let mut results = Results::new();
    for (name, text) in texts(rows, "sql") {
        // Host and times as parameters, as a program would.
        let mut values = vec![Value::Text("host_7".to_owned()), Value::Int(end)];
        let mut text = text.replace("'host_7'", "$1").replace(&format!("to_timestamp_nanos({end})"), "$2");
        for from in [from_1, from_6, (end - 300 * SECOND_NS).max(START_NS)] {
            let literal = format!("to_timestamp_nanos({from})");
            if text.contains(&literal) {
                text = text.replace(&literal, "$3");
                values.push(Value::Int(from));
            }
        }
        let parameters = (1..=3).filter(|number| text.contains(&format!("${number}"))).collect::<Vec<_>>();
        if parameters == [2, 3] {
            // Several hosts, which stay as they are.
            text = text.replace("$2", "$1").replace("$3", "$2");
            values.remove(0);
        }
        values.truncate(parameters.len());
        let prepared = session.prepare(&text)?;
        let mut sum = Checksum::new();
        sum.add_batches(&prepared.query(&values)?)?;
        let us = repeated(|| Ok(prepared.query(&values).map(|_| ())?))?;
        results.insert(name.to_owned(), (us, sum.0));
    }
    Ok(results)
}

/// The queries that the container API has a call for.
fn container(rows: usize, directory: &Path) -> Outcome<Results> {
    let db = open(directory)?;
    let (_, end) = window(rows, 1);
    let from = (end - 300 * SECOND_NS).max(START_NS);
    type Query = Box<dyn Fn(&TableView) -> Outcome<Vec<RecordBatch>>>;
    let host = || [Value::Text("host_7".to_owned())];
    let queries: [(&str, Query); 3] = [
        (
            "FIVE_MINUTE_1",
            Box::new(move |table| {
                let range = table.container(&host())?.range(from, end - 1, Projection::All)?;
                Ok(range.collect::<Result<Vec<_>, _>>()?)
            }),
        ),
        (
            "LAST_POINT_ALL",
            Box::new(|table| {
                Ok(table.last_rows(&fleetdb_engine::ScanRequest::all())?.collect::<Result<Vec<_>, _>>()?)
            }),
        ),
        ("LAST_POINT_ONE", Box::new(move |table| Ok(table.container(&host())?.last()?.into_iter().collect()))),
    ];
    let mut results = Results::new();
    for (name, query) in queries {
        let mut sum = Checksum::new();
        sum.add_batches(&query(db.view().table("cpu")?)?)?;
        let us = repeated(|| query(db.view().table("cpu")?).map(|_| ()))?;
        results.insert(name.to_owned(), (us, sum.0));
    }
    let count = || Ok::<_, Box<dyn std::error::Error>>(db.view().table("cpu")?.count()?);
    let mut sum = Checksum::new();
    sum.add(&count()?.to_string());
    let us = repeated(|| count().map(|_| ()))?;
    results.insert("COUNT".to_owned(), (us, sum.0));
    Ok(results)
}

fn sqlite(rows: usize, directory: &Path) -> Outcome<Results> {
    let sqlite = Sqlite::reopen(&directory.join("sqlite"))?;
    let mut results = Results::new();
    for (name, text) in texts(rows, "sqlite") {
        let mut sum = Checksum::new();
        // SQLite's newest row has the time once more.
        let columns = if name == "LAST_POINT_ALL" { 21 } else { usize::MAX };
        sqlite.each(&text, columns, |value| sum.add(value))?;
        let us = repeated(|| sqlite.each(&text, 0, |_| ()))?;
        results.insert(name.to_owned(), (us, sum.0));
    }
    Ok(results)
}
