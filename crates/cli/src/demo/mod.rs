//! `fleetdb demo`: loads a year of a meter fleet and computes the bills of a month.
//!
//! 1. [`generate`] produces the fleet's readings. A seed gives the same readings on every machine.
//! 2. For each hour, readings and the meters' new state are committed together and durably, in an
//!    atomic batch for up to 5,000 meters.
//! 3. One SQL statement, which is printed, computes the bills; [`plot`] draws one meter's month.

mod generate;
mod plot;

use crate::progress::{bar, thousands};
use crate::sql::output::{self, Format};
use crate::stdout::print_line;
use crate::{close, io_error, is_database, open};
use chrono::{DateTime, Utc};
use fleetdb_engine::io::Io;
use fleetdb_engine::{
    ColumnType, Database, Decimal, Durability, Error, Result, Rows, TableDefinition, Unit, Value, View,
};
use fleetdb_postgres::Postgres;
use fleetdb_query::Session;
use generate::Fleet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The simulated year. Its December is billed.
const YEAR: i32 = 2025;
/// The digits of a price after the decimal point.
const PRICE_SCALE: u8 = 4;

#[derive(clap::Args)]
pub struct Args {
    /// Number of meters
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    meters: u32,
    /// Seed of the simulation; the same seed gives the same bills
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The database directory
    #[arg(long, default_value = "fleetdb-demo")]
    data: PathBuf,
    /// Time zone of the fleet, an IANA name
    #[arg(long, default_value = "Europe/Berlin")]
    tz: chrono_tz::Tz,
    /// Keep the readings of an earlier demo in the directory and print their bills
    #[arg(long, conflicts_with = "replace")]
    keep: bool,
    /// Delete the database in the directory first
    #[arg(long)]
    replace: bool,
}

pub fn run(args: &Args) -> Result<()> {
    if is_database(&args.data) {
        if args.replace {
            remove_database(&args.data)?;
        } else if !args.keep {
            return Err(Error::invalid(format!(
                "{dir} already contains a database: 'fleetdb demo --data {dir} --keep' prints its bills again, \
                 '--replace' deletes it and starts over, '--data OTHER' uses another directory",
                dir = args.data.display()
            )));
        }
    }
    let fill = !is_database(&args.data);
    let db = open(&args.data, fill)?;
    if fill {
        ingest(&db, args)?;
    }
    let session = Session::new(Arc::clone(&db), Postgres::new())?;
    let outcome = bills(&session, args);
    drop(session);
    outcome.and(close(db))?;
    print_line!("Next steps:");
    print_line!("  fleetdb sql --data {}", args.data.display());
    print_line!("  fleetdb sql --data {} -c 'SELECT count(*) FROM meter_reads'", args.data.display());
    print_line!("  fleetdb check --data {}", args.data.display());
    Ok(())
}

/// Removes the parts of a database, and nothing else that may be in the directory.
fn remove_database(data: &Path) -> Result<()> {
    // Fails if a process has the database open.
    let lock = Io::files(data).storage.lock()?;
    for part in ["manifest", "wal", "segments"] {
        let part = data.join(part);
        if part.exists() {
            std::fs::remove_dir_all(&part)
                .map_err(|e| io_error(format_args!("could not remove {}", part.display()), &e))?;
        }
    }
    drop(lock);
    Ok(())
}

fn create_tables(db: &Database) -> Result<()> {
    let meters = ["contact_name", "email", "phone_number", "description", "address", "city", "state_province"];
    let meters = meters.into_iter().fold(TableDefinition::new("meters").key("id", ColumnType::Int64), |table, name| {
        table.field(name, ColumnType::Utf8)
    });
    let meters = meters
        .field("last_reading", ColumnType::Timestamp(Unit::Nanosecond))
        .field("latitude", ColumnType::Float64)
        .field("longitude", ColumnType::Float64);
    db.create_table(&meters)?;
    let reads = generate::USAGE_COLUMNS.into_iter().fold(
        TableDefinition::new("meter_reads").key("meter_id", ColumnType::Int64).time("ts", Unit::Nanosecond),
        |table, name| table.field(name, ColumnType::Float64),
    );
    let reads = reads.field("error_code_1", ColumnType::Int64).field("error_code_2", ColumnType::Int64);
    db.create_table(&reads)?;
    let tariffs = TableDefinition::new("tariffs")
        .key("day_kind", ColumnType::Utf8)
        .key("hour", ColumnType::Int32)
        .field("band", ColumnType::Utf8)
        .field("euro_per_kwh", ColumnType::Decimal { precision: 6, scale: PRICE_SCALE });
    let mut rows = Rows::new(&db.create_table(&tariffs)?);
    for kind in ["workday", "weekend"] {
        for hour in 0..24 {
            // In hundredths of a cent.
            let (band, price) = match (kind, hour) {
                (_, 22..=23 | 0..=5) => ("night", 2_390),
                ("workday", 17..=20) => ("peak", 3_890),
                _ => ("day", 3_150),
            };
            let price = Decimal { unscaled: price, scale: PRICE_SCALE };
            rows.push(&[kind.into(), Value::Int(hour), band.into(), Value::Decimal(price)])?;
        }
    }
    db.commit(fleetdb_engine::Batch::new().with_rows(rows))?;
    Ok(())
}

fn ingest(db: &Database, args: &Args) -> Result<()> {
    print_line!(
        "Simulating {} meters in {YEAR} ({}); every batch is acknowledged at {} ({}).",
        thousands(u64::from(args.meters)),
        args.tz,
        Durability::Sync,
        Durability::Sync.tier()
    );
    create_tables(db)?;
    let hours = generate::hours_of_year(YEAR, args.tz)?;
    let mut fleet = Fleet::new(args.meters, args.seed);
    let progress = bar(hours.len() as u64 * u64::from(args.meters), "ingesting", "readings");
    let start = Instant::now();
    for hour in &hours {
        for batch in fleet.read(hour)? {
            db.commit(batch.with_durability(Durability::Sync))?;
        }
        progress.inc(u64::from(args.meters));
    }
    db.flush()?;
    progress.finish_and_clear();
    let seconds = start.elapsed().as_secs_f64();
    let readings = hours.len() as u64 * u64::from(args.meters);
    let status = db.status();
    let raw = readings * generate::RAW_READING_BYTES + u64::from(args.meters) * generate::RAW_METER_BYTES;
    print_line!(
        "{} readings and as many meter updates in {seconds:.1} s: {} readings/s, flushed to Parquet.",
        thousands(readings),
        thousands((readings as f64 / seconds) as u64),
    );
    print_line!(
        "Size on disk: {:.1} MB in {} segments; raw: {:.1} MB, {:.1} times as much.",
        status.segment_bytes as f64 / 1e6,
        status.segments,
        raw as f64 / 1e6,
        raw as f64 / status.segment_bytes.max(1) as f64
    );
    Ok(())
}

/// The SQL statement that computes the month's bills, largest first.
fn bills_sql(from: DateTime<Utc>, to: DateTime<Utc>, tz: chrono_tz::Tz) -> String {
    let (from, to) = (from.format("%Y-%m-%dT%H:%M:%SZ"), to.format("%Y-%m-%dT%H:%M:%SZ"));
    format!(
        "WITH reads AS (
  SELECT meter_id, usage_since_read AS kwh, ts AT TIME ZONE 'UTC' AT TIME ZONE '{tz}' AS local
  FROM meter_reads
  WHERE ts >= '{from}' AND ts < '{to}'
), hours AS (
  SELECT meter_id, kwh, CAST(date_part('hour', local) AS INTEGER) AS hour,
         CASE WHEN date_part('dow', local) IN (0, 6) THEN 'weekend' ELSE 'workday' END AS day_kind
  FROM reads
)
SELECT h.meter_id, m.contact_name, m.city, count(*) AS hours, round(sum(h.kwh), 1) AS kwh,
       round(sum(CASE WHEN t.band = 'peak' THEN h.kwh ELSE 0 END), 1) AS peak_kwh,
       round(sum(h.kwh::numeric(10, 3) * t.euro_per_kwh), 2) AS euro
FROM hours h
JOIN tariffs t ON t.day_kind = h.day_kind AND t.hour = h.hour
JOIN meters m ON m.id = h.meter_id
GROUP BY h.meter_id, m.contact_name, m.city
ORDER BY euro DESC, h.meter_id"
    )
}

fn bills(session: &Session, args: &Args) -> Result<()> {
    let (from, to) = generate::month(YEAR, 12, args.tz)?;
    let sql = bills_sql(from, to, args.tz);
    print_line!("\nDecember's bills:\n\n{sql};\n");
    let start = Instant::now();
    let batches = session.sql(&sql)?.collect()?;
    let seconds = start.elapsed().as_secs_f64();
    let count: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    let mut out = crate::stdout::output();
    print_line!("The ten largest of {} bills:", thousands(count as u64));
    output::show(session.sql(&format!("{sql} LIMIT 10"))?, Format::Table, &mut out)?;
    print_line!("Total:");
    let totals =
        format!("SELECT count(*) AS bills, round(sum(kwh), 1) AS kwh, round(sum(euro), 2) AS euro FROM ({sql})");
    output::show(session.sql(&totals)?, Format::Table, &mut out)?;
    out.flush().map_err(|e| io_error("could not write to standard output", &e))?;
    print_line!("Computed all bills in {:.0} ms.", seconds * 1e3);
    let plot = args.data.join("meter-1-december.svg");
    draw(&session.view(), from, to, args.tz, &plot)?;
    print_line!("Chart of meter 1 in December: {}\n", plot.display());
    Ok(())
}

fn draw(view: &View, from: DateTime<Utc>, to: DateTime<Utc>, tz: chrono_tz::Tz, path: &Path) -> Result<()> {
    use arrow::array::AsArray;
    use arrow::datatypes::{Float64Type, TimestampNanosecondType};
    let table = view.table("meter_reads")?;
    let projection = fleetdb_engine::Projection::Names(vec!["ts".to_owned(), "usage_since_read".to_owned()]);
    let mut points = Vec::new();
    for batch in table.container(&[Value::Int(1)])?.range(nanoseconds(from), nanoseconds(to) - 1, projection)? {
        let batch = batch?;
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        let usages = batch.column(1).as_primitive::<Float64Type>();
        points.extend(times.values().iter().copied().zip(usages.values().iter().copied()));
    }
    plot::draw(&points, tz, path)
}

/// An instant as stored in the tables.
fn nanoseconds(instant: DateTime<Utc>) -> i64 {
    // The demo's years are well within the range of 64-bit nanoseconds.
    instant.timestamp_nanos_opt().unwrap_or(i64::MAX)
}
