//! A query that is sent again and again with other literals gives what it gives the first time.

use crate::answers::connect;
use crate::process::Server;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

/// The names and rows of an answer, or the error.
async fn answer(client: &Client, sql: &str) -> Vec<String> {
    match client.simple_query(sql).await {
        Ok(messages) => messages.iter().map(shown).collect(),
        Err(error) => vec![format!(
            "{:?}",
            error.as_db_error().map(|e| (e.code().clone(), e.message().to_owned(), e.position().cloned()))
        )],
    }
}

fn shown(message: &SimpleQueryMessage) -> String {
    match message {
        SimpleQueryMessage::Row(row) => {
            (0..row.len()).map(|place| row.get(place).unwrap_or("NULL")).collect::<Vec<_>>().join("|")
        }
        SimpleQueryMessage::RowDescription(columns) => {
            columns.iter().map(|column| column.name()).collect::<Vec<_>>().join("|")
        }
        SimpleQueryMessage::CommandComplete(rows) => format!("{rows} rows"),
        other => format!("{other:?}"),
    }
}

/// Queries in which `#` and `@` stand for a number and a time.
const QUERIES: [&str; 19] = [
    "SELECT * FROM meters WHERE id = #",
    "SELECT id, n + 1, 'a' FROM meters WHERE n >= # AND site = 'b' ORDER BY id LIMIT 3",
    "SELECT count(*) FROM meters WHERE small = # OR f < #",
    "SELECT id = 3 FROM meters WHERE id = #",
    "SELECT sum(v), max(ts) FROM reads WHERE id = # AND ts >= @ AND ts < '2026-02-01'",
    "SELECT id, date_trunc('day', ts), sum(v) FROM reads WHERE id BETWEEN # AND 5 GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT m.site, r.v FROM meters m JOIN reads r ON r.id = m.id WHERE m.id = # AND r.ts = @ ORDER BY r.v",
    "SELECT m.id FROM meters m WHERE EXISTS (SELECT 1 FROM reads r WHERE r.id = m.id AND r.ts > @) AND m.n < # ORDER BY 1",
    "SELECT id FROM meters WHERE site = '#'",
    "SELECT id FROM meters WHERE site = #",
    "SELECT id FROM meters WHERE id = '#'",
    "SELECT id FROM meters WHERE small = 3000000000 OR id = #",
    "SELECT 10 / (id - #) FROM meters WHERE id = # ORDER BY 1",
    "SELECT ts FROM reads WHERE ts >= @ AND ts < now() AND id = # ORDER BY ts LIMIT 2",
    "SELECT v FROM reads WHERE ts = 'never' AND id = #",
    "SELECT nope FROM meters WHERE id = #",
    "SELECT id, site FROM meters WHERE id IN (#, 8, 3000000000) ORDER BY id",
    "SELECT id FROM meters WHERE small NOT IN (#, 1) AND site IN ('b', '#') ORDER BY id",
    "SELECT id FROM meters WHERE cost > # AND cost < 7.5 ORDER BY id",
];

#[tokio::test]
async fn a_kept_plan_gives_what_planning_gives() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let kept = connect(server.port("postgres")).await;
    kept.batch_execute(
        "CREATE TABLE meters (id BIGINT, site TEXT, n BIGINT, small INT, f REAL, cost NUMERIC(6, 1), PRIMARY KEY (id)); \
         CREATE TABLE reads (id BIGINT, ts TIMESTAMP(0), v DOUBLE, PRIMARY KEY (id, ts)); \
         INSERT INTO meters SELECT i, 'b', i * 2, i % 3, i / 2.0, i * 1.5 FROM generate_series(0, 9) AS s(i); \
         INSERT INTO reads SELECT i, timestamp '2026-01-01' + h * interval '1 hour', h + i \
         FROM generate_series(0, 9) AS a(i), generate_series(0, 99) AS b(h)",
    )
    .await
    .unwrap();
    let literals =
        [("3", "'2026-01-02 03:00'"), ("4", "'2026-01-02'"), ("7", "'2026-01-01 05:00:00.5'"), ("4", "'9999-12-31'")];
    for state in
        ["", "BEGIN; INSERT INTO meters VALUES (4, 'b', 8, 2, 2), (77, 'c', 0, 0, 0)", "SET timezone = 'Asia/Tokyo'"]
    {
        kept.batch_execute(state).await.unwrap();
        for query in QUERIES {
            for (number, time) in literals {
                let sql = query.replace('#', number).replace('@', time);
                // A client that has sent nothing before plans each query.
                let planned = connect(server.port("postgres")).await;
                planned.batch_execute(state).await.unwrap();
                let (by_plan, again) = (answer(&planned, &sql).await, answer(&kept, &sql).await);
                assert_eq!(again, by_plan, "after {state:?}: {sql}");
                if state.starts_with("BEGIN") && by_plan.len() == 1 && by_plan[0].starts_with("Some") {
                    // The error has ended the transaction.
                    kept.batch_execute("ROLLBACK").await.unwrap();
                    kept.batch_execute(state).await.unwrap();
                }
            }
        }
        kept.batch_execute("ROLLBACK").await.unwrap();
    }
    // The columns of a kept plan change.
    kept.batch_execute("ALTER TABLE meters ADD COLUMN extra DOUBLE; ALTER TABLE meters DROP COLUMN f").await.unwrap();
    let answers = answer(&kept, "SELECT * FROM meters WHERE id = 3").await;
    assert_eq!(answers[0], "id|site|n|small|cost|extra");
}

#[tokio::test]
async fn an_unnamed_statement_follows_its_table() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let client = connect(server.port("postgres")).await;
    let columns = async |id: i64| {
        let rows = client.query_typed("SELECT * FROM t WHERE id = $1", &[(&id, Type::INT8)]).await.unwrap();
        (rows.len(), rows.first().map_or(0, |row| row.columns().len()))
    };
    client.batch_execute("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)").await.unwrap();
    for id in 0..4i64 {
        let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 1] = [(&id, Type::INT8)];
        client.query_typed("INSERT INTO t VALUES ($1, 5)", &values).await.unwrap();
        client.query_typed("UPDATE t SET n = n + 1 WHERE id = $1", &values).await.unwrap();
        assert_eq!(columns(id).await, (1, 2));
    }
    client.batch_execute("ALTER TABLE t ADD COLUMN note TEXT").await.unwrap();
    assert_eq!(columns(3).await, (1, 3));
    client.batch_execute("DROP TABLE t; CREATE TABLE t (n INT, id BIGINT PRIMARY KEY)").await.unwrap();
    for id in 0..4i64 {
        let insert = client.query_typed("INSERT INTO t VALUES ($1, 5)", &[(&id, Type::INT8)]).await;
        insert.unwrap();
        assert_eq!(columns(id).await, (0, 0));
    }
    assert_eq!(columns(5).await, (1, 2));
}
