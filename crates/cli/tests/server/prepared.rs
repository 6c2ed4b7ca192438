//! Answers to prepared queries: long ones, those that end in an error, several at once.

use crate::answers::connect;
use crate::process::Server;
use futures::TryStreamExt;
use std::pin::pin;
use tokio_postgres::{Client, Statement};

const ROWS: i64 = 60_000;

async fn keys(client: &Client, statement: &Statement, above: i64) -> Result<Vec<i64>, (usize, String)> {
    let mut rows = pin!(client.query_raw(statement, [above]).await.unwrap());
    let mut keys = Vec::new();
    loop {
        match rows.try_next().await {
            Ok(Some(row)) => keys.push(row.get(0)),
            Ok(None) => return Ok(keys),
            Err(error) => return Err((keys.len(), error.as_db_error().unwrap().code().code().to_owned())),
        }
    }
}

#[tokio::test]
async fn answers_to_prepared_queries_are_whole_or_end_in_an_error() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let client = connect(server.port("postgres")).await;
    client
        .batch_execute(&format!(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, d NUMERIC(9, 2), s TEXT); \
             INSERT INTO t SELECT k, k / 4.0, repeat('x', 40) FROM generate_series(0, {}) AS g(k)",
            ROWS - 1
        ))
        .await
        .unwrap();
    // Numbers, texts and times have a way of their own to the wire; decimal numbers have not.
    for columns in ["k, s", "k, d, s"] {
        let all = client.prepare(&format!("SELECT {columns} FROM t WHERE k > $1 ORDER BY k")).await.unwrap();
        let failing = format!("SELECT {columns}, 100 / (50000 - k) FROM t WHERE k > $1 ORDER BY k");
        let failing = client.prepare(&failing).await.unwrap();
        for _ in 0..3 {
            for above in [-1, ROWS - 3, ROWS] {
                let expected: Vec<i64> = (above + 1..ROWS).collect();
                assert_eq!(keys(&client, &all, above).await.unwrap(), expected, "{columns}");
            }
            let (sent, code) = keys(&client, &failing, -1).await.unwrap_err();
            assert!(sent <= 50_000 && code == "22012", "{columns}: {sent} rows, then {code}");
            assert_eq!(keys(&client, &failing, 59_997).await.unwrap(), [59_998, 59_999], "{columns}");
        }
        // In a pipeline, an error ends only the statement that it is of.
        let (first, second, third) =
            tokio::join!(keys(&client, &all, 59_990), keys(&client, &failing, -1), keys(&client, &all, 59_995));
        assert_eq!(first.unwrap().len(), 9);
        assert_eq!(second.unwrap_err().1, "22012");
        assert_eq!(third.unwrap().len(), 4);
        // In a transaction, nothing works after it.
        client.batch_execute("BEGIN").await.unwrap();
        assert_eq!(keys(&client, &failing, -1).await.unwrap_err().1, "22012");
        assert_eq!(client.query(&all, &[&1_i64]).await.unwrap_err().code().unwrap().code(), "25P02");
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(keys(&client, &all, 59_990).await.unwrap().len(), 9);
    }
    // A client that leaves in the middle of an answer harms nobody.
    let leaving = connect(server.port("postgres")).await;
    let all = leaving.prepare("SELECT k, s FROM t WHERE k > $1 ORDER BY k").await.unwrap();
    let mut rows = Box::pin(leaving.query_raw(&all, [-1_i64]).await.unwrap());
    assert!(rows.try_next().await.unwrap().is_some());
    drop((rows, leaving));
    let count: i64 = client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0);
    assert_eq!(count, ROWS);
}
