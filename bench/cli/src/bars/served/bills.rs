//! E1's bill as a prepared statement.

use super::ingest::TABLES;
use super::mariadb::MariaDb;
use super::{START, Served};
use fleetdb_bench_core::Outcome;
use std::time::{Duration, Instant, SystemTime};

const HOUR: Duration = Duration::from_secs(3_600);
/// Hours of a bill.
pub(super) const HOURS: u32 = 744;
/// Bills that are asked, and those of them that fill caches first.
const BILLS: i64 = 2_000;
const WARM_UP: i64 = 200;

pub(super) const HEADER: &str = "server           devices     p50 us     p99 us";

/// FleetDB, whose rows rest in segments.
pub(super) async fn fleetdb(server: &Served, devices: i64) -> Outcome<()> {
    let client = server.connect().await?;
    client.batch_execute(TABLES[1]).await?;
    // Some devices' month at a time, made by the server itself.
    for first in (0..devices).step_by(400) {
        let last = (first + 400).min(devices);
        let fill = format!(
            "INSERT INTO meter_reads SELECT d, to_timestamp({} + h * 3600), (d + h) % 100 * 0.25, 1, 2, 3, 4, 5, 6 \
             FROM generate_series({first}, {}) AS devices(d), generate_series(0, {}) AS hours(h)",
            START.as_secs(),
            last - 1,
            HOURS - 1
        );
        client.batch_execute(&fill).await?;
    }
    client.batch_execute("VACUUM FULL").await?;
    let bill = "SELECT sum(usage_since_read), count(*) FROM meter_reads WHERE meter_id = $1 AND ts >= $2 AND ts < $3";
    let bill = client.prepare(bill).await?;
    let (from, to) = (SystemTime::UNIX_EPOCH + START, SystemTime::UNIX_EPOCH + START + HOUR * HOURS);
    let ask = async |device: i64| {
        let row = client.query_one(&bill, &[&device, &from, &to]).await?;
        Ok((row.get(0), row.get(1)))
    };
    measure("FleetDB", devices, ask).await
}

/// MariaDB, whose rows have the key that the bill asks by.
pub(super) async fn mariadb(server: &MariaDb, devices: i64) -> Outcome<()> {
    use mysql_async::prelude::Queryable;
    let (mut connection, bill) = server.bills(devices, HOURS, START.as_secs()).await?;
    let (from, to) = (START.as_secs(), START.as_secs() + 3_600 * u64::from(HOURS));
    let ask = async |device: i64| {
        let row = connection.exec_first(&bill, (device, from, to)).await?;
        Ok(row.ok_or("a bill has no row")?)
    };
    measure("MariaDB", devices, ask).await
}

/// Asks for one bill after the other, checks each, and prints what it took.
async fn measure(server: &str, devices: i64, mut ask: impl AsyncFnMut(i64) -> Outcome<(f64, i64)>) -> Outcome<()> {
    let mut times_us = Vec::new();
    for number in 0..BILLS {
        let device = number * 7_919 % devices;
        let start = Instant::now();
        let (sum, rows) = ask(device).await?;
        let took_us = start.elapsed().as_secs_f64() * 1e6;
        let expected: i64 = (0..i64::from(HOURS)).map(|hour| (device + hour) % 100).sum();
        if sum != expected as f64 * 0.25 || rows != i64::from(HOURS) {
            return Err(format!("{server}: the bill of device {device} is {sum} over {rows} rows").into());
        }
        if number >= WARM_UP {
            times_us.push(took_us);
        }
    }
    times_us.sort_by(f64::total_cmp);
    let at = |share: usize| times_us[times_us.len() * share / 100];
    println!("{server:<10} {devices:>13} {:>10.1} {:>10.1}", at(50), at(99));
    Ok(())
}
