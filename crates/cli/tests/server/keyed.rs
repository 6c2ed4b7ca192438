//! Writes by primary keys over the PostgreSQL protocol: prepared, in pipelines, by several clients at
//! once, and on a server that is killed.

use crate::answers::connect;
use crate::process::{Server, count};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

const ADD: &str =
    "INSERT INTO counters (id, n) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = counters.n + excluded.n";

async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn prepared_writes_know_their_types_and_counts() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let client = connect(server.port("postgres")).await;
    client
        .batch_execute(
            "CREATE TABLE counters (id BIGINT, n BIGINT, note TEXT, PRIMARY KEY (id)); \
             CREATE TABLE reads (id INT, ts TIMESTAMP, v DOUBLE, PRIMARY KEY (id, ts)); \
             INSERT INTO reads SELECT i, timestamp '2026-01-01' + j * interval '1 hour', j \
             FROM generate_series(1, 2) AS a(i), generate_series(0, 9) AS b(j)",
        )
        .await
        .unwrap();
    let add = client.prepare(ADD).await.unwrap();
    assert_eq!(add.params(), [Type::INT8, Type::INT8]);
    assert_eq!(client.execute(&add, &[&1i64, &5i64]).await.unwrap(), 1);
    assert_eq!(client.execute(&add, &[&1i64, &7i64]).await.unwrap(), 1);
    let ignore = client.prepare("INSERT INTO counters VALUES ($1, $2) ON CONFLICT DO NOTHING").await.unwrap();
    assert_eq!(client.execute(&ignore, &[&1i64, &0i64]).await.unwrap(), 0);
    assert_eq!(client.execute(&ignore, &[&2i64, &0i64]).await.unwrap(), 1);
    let update = client.prepare("UPDATE counters SET n = n * $1, note = $2 WHERE id = $3").await.unwrap();
    assert_eq!(update.params(), [Type::INT8, Type::TEXT, Type::INT8]);
    assert_eq!(client.execute(&update, &[&2i64, &"twice", &1i64]).await.unwrap(), 1);
    assert_eq!(client.execute(&update, &[&2i64, &"twice", &3i64]).await.unwrap(), 0);
    assert_eq!(number(&client, "SELECT n FROM counters WHERE id = 1 AND note = 'twice'").await, 24);
    let overflow = client.execute(&add, &[&1i64, &i64::MAX]).await.unwrap_err();
    assert_eq!(overflow.code().unwrap().code(), "22003", "{overflow:?}");
    let null = client.execute(&add, &[&None::<i64>, &1i64]).await.unwrap_err();
    assert_eq!(null.code().unwrap().code(), "23502");
    let hour = std::time::Duration::from_secs(3600);
    let first = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_767_225_600);
    let delete = client.prepare("DELETE FROM reads WHERE id = $1 AND ts >= $2 AND ts < $3").await.unwrap();
    assert_eq!(delete.params(), [Type::INT4, Type::TIMESTAMP, Type::TIMESTAMP]);
    assert_eq!(client.execute(&delete, &[&1i32, &(first + hour), &(first + 4 * hour)]).await.unwrap(), 3);
    assert_eq!(number(&client, "SELECT count(*) FROM reads").await, 17);
    // The table changes under the prepared statement.
    client.batch_execute("ALTER TABLE counters ADD COLUMN extra DOUBLE").await.unwrap();
    assert_eq!(client.execute(&add, &[&1i64, &1i64]).await.unwrap(), 1);
    assert_eq!(number(&client, "SELECT n FROM counters WHERE id = 1").await, 25);
    // In a transaction, rolled back and committed.
    for (end, total) in [("ROLLBACK", 25), ("COMMIT", 36)] {
        client.batch_execute("BEGIN").await.unwrap();
        client.execute(&add, &[&1i64, &10i64]).await.unwrap();
        client.execute(&add, &[&1i64, &1i64]).await.unwrap();
        assert_eq!(number(&client, "SELECT n FROM counters WHERE id = 1").await, 36);
        client.batch_execute(end).await.unwrap();
        assert_eq!(number(&client, "SELECT n FROM counters WHERE id = 1").await, total);
    }
}

#[test]
fn counts_of_many_clients_add_up_when_the_server_is_killed() {
    let data = tempfile::tempdir().unwrap();
    let mut before = 0;
    for _ in 0..3 {
        let server = Server::start(data.path(), &[]);
        let port = server.port("postgres").to_owned();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (tried, acknowledged) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        runtime.block_on(async {
            let create = "CREATE TABLE IF NOT EXISTS counters (id BIGINT, n BIGINT, PRIMARY KEY (id))";
            connect(&port).await.batch_execute(create).await.unwrap();
            for _ in 0..8 {
                let (client, tried, acknowledged) =
                    (connect(&port).await, Arc::clone(&tried), Arc::clone(&acknowledged));
                tokio::spawn(async move {
                    let add = client.prepare(ADD).await.unwrap();
                    loop {
                        tried.fetch_add(1, Ordering::SeqCst);
                        if client.execute(&add, &[&1i64, &1i64]).await.is_err() {
                            return;
                        }
                        acknowledged.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            while acknowledged.load(Ordering::SeqCst) < 200 {
                tokio::task::yield_now().await;
            }
        });
        server.kill();
        drop(runtime);
        let (acknowledged, tried) = (acknowledged.load(Ordering::SeqCst), tried.load(Ordering::SeqCst));
        let there = count(data.path(), "SELECT n FROM counters");
        let added = there - before;
        assert!((acknowledged..=tried).contains(&added), "{acknowledged} of {tried} acknowledged, {added} are there");
        before = there;
    }
}
