//! A DELETE of many rows by any condition: uses bounded memory, and is complete or absent after the
//! server is killed.

use crate::process::{Server, count};
use std::time::Duration;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

async fn connect(server: &Server) -> Client {
    let config = format!("host=127.0.0.1 port={} user=me", server.port("postgres"));
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// The number of rows that a statement affected; an error if it did not finish.
async fn run(client: &Client, sql: &str) -> Result<u64, tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    let counts = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::CommandComplete(count) => Some(*count),
        _ => None,
    });
    Ok(counts.sum())
}

/// Adds rows of twelve devices with increasing values.
async fn fill(client: &Client, first: u64, rows: u64) {
    let step = 500_000;
    for first in (first..first + rows).step_by(step as usize) {
        let last = first + step.min(rows) - 1;
        let insert = format!(
            "INSERT INTO reads SELECT value % 12, to_timestamp(value / 12), value, value * 0.5 \
             FROM generate_series({first}, {last}) AS s(value)"
        );
        run(client, &insert).await.unwrap();
    }
}

const TABLE: &str =
    "CREATE TABLE reads (id BIGINT, ts TIMESTAMP(3), v BIGINT, kwh DOUBLE PRECISION, PRIMARY KEY (id, ts))";

/// The peak resident memory of a process.
fn peak_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn three_of_four_million_rows_are_deleted_by_any_condition_within_the_memory_limit() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--memory-limit", "64MiB"]);
    block_on(async {
        let client = connect(&server).await;
        run(&client, TABLE).await.unwrap();
        fill(&client, 0, 4_000_000).await;
        let before = peak_bytes(server.process.id());
        assert_eq!(run(&client, "DELETE FROM reads WHERE v % 4 <> 0").await.unwrap(), 3_000_000);
        let peak = peak_bytes(server.process.id());
        println!("peak {} MiB, {} MiB before the DELETE", peak >> 20, before >> 20);
        // The limit, plus the memory of an idle server and of its planner.
        assert!(peak < 264 << 20, "{} MiB", peak >> 20);
    });
    server.kill();
    let left = "SELECT count(*) AS n FROM reads WHERE v % 4 = 0 AND kwh = v * 0.5";
    assert_eq!(count(data.path(), left), 1_000_000);
    assert_eq!(count(data.path(), "SELECT count(*) AS n FROM reads"), 1_000_000);
}

#[test]
fn a_delete_of_many_rows_is_whole_or_not_at_all_when_the_server_is_killed() {
    const ROWS: u64 = 400_000;
    let kills = std::env::var("FLEETDB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(3);
    for round in 0..kills {
        let data = tempfile::tempdir().unwrap();
        let server = Server::start(data.path(), &[]);
        let acknowledged = block_on(async {
            let client = connect(&server).await;
            run(&client, TABLE).await.unwrap();
            fill(&client, 0, ROWS).await;
            let delete = run(&client, "DELETE FROM reads WHERE v % 4 <> 0");
            // Kill the server at a random moment during the DELETE, or after it.
            let moment = Duration::from_millis(rand::random_range(0..600));
            tokio::time::timeout(moment, delete).await.is_ok_and(|done| done.is_ok())
        });
        server.kill();
        let rows = count(data.path(), "SELECT count(*) AS n FROM reads");
        let of_four = count(data.path(), "SELECT count(*) AS n FROM reads WHERE v % 4 = 0");
        assert_eq!(of_four, ROWS as i64 / 4, "round {round}");
        let whole = rows == ROWS as i64 / 4;
        assert!(whole || (rows == ROWS as i64 && !acknowledged), "round {round}: {rows} rows, {acknowledged}");
        println!("round {round}: acknowledged {acknowledged}, deleted {whole}");
    }
}
