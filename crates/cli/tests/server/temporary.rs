//! Temporary tables over the PostgreSQL protocol: prepared statements, COPY and roles.

use crate::access::{add_user, ask};
use crate::answers::connect;
use crate::http::sql;
use crate::process::Server;
use crate::wrong::{message, startup};
use std::io::{Read, Write};
use std::net::TcpStream;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn statements_prepared_before_a_temporary_table_write_to_it() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let client = connect(server.port("postgres")).await;
    client.batch_execute("CREATE TABLE t (id BIGINT PRIMARY KEY, v INT)").await.unwrap();
    let insert = client.prepare("INSERT INTO t VALUES ($1, $2)").await.unwrap();
    let update = client.prepare("UPDATE t SET v = $1 WHERE id = $2").await.unwrap();
    let count = client.prepare("SELECT count(*) FROM t WHERE v = $1").await.unwrap();
    client.execute(&insert, &[&1i64, &1i32]).await.unwrap();
    client.batch_execute("CREATE TEMP TABLE t (id BIGINT, v INT)").await.unwrap();
    for _ in 0..2 {
        client.execute(&insert, &[&1i64, &5i32]).await.unwrap();
    }
    assert_eq!(client.execute(&update, &[&7i32, &1i64]).await.unwrap(), 2);
    assert_eq!(client.query_one(&count, &[&7i32]).await.unwrap().get::<_, i64>(0), 2);
    let added = client.prepare("INSERT INTO t (v) VALUES ($1) RETURNING v").await.unwrap();
    assert_eq!(client.query_one(&added, &[&9i32]).await.unwrap().get::<_, i32>(0), 9);
    for _ in 0..3 {
        assert_eq!(number(&client, "SELECT count(*) FROM t").await, 3);
        assert_eq!(number(&client, "SELECT sum(v) FROM public.t").await, 1);
    }
    client.batch_execute("INSERT INTO t VALUES (2, 2); DELETE FROM t WHERE id = 1").await.unwrap();
    assert_eq!(number(&client, "SELECT count(*) FROM t").await, 2);
    let other = connect(server.port("postgres")).await;
    assert_eq!(number(&other, "SELECT sum(v) FROM t").await, 1);
    client.batch_execute("DROP TABLE t").await.unwrap();
    assert_eq!(client.execute(&update, &[&3i32, &1i64]).await.unwrap(), 1);
    for _ in 0..3 {
        assert_eq!(number(&client, "SELECT sum(v) FROM t").await, 3);
    }
    client.batch_execute("CREATE TEMP TABLE t (v INT); DISCARD ALL").await.unwrap();
    assert_eq!(number(&client, "SELECT sum(v) FROM t").await, 3);
}

#[test]
fn rows_are_copied_into_a_temporary_table_and_merged() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let query = |text: &str| message(b'Q', format!("{text}\0").as_bytes());
    let copy = |rows: &str| {
        [query("COPY stage FROM STDIN WITH (FORMAT csv)"), message(b'd', rows.as_bytes()), message(b'c', b"")].concat()
    };
    let messages = [
        startup(),
        query(
            "CREATE TABLE stock (id BIGINT PRIMARY KEY, n BIGINT); INSERT INTO stock VALUES (1, 10); \
             CREATE TEMP TABLE stage (id BIGINT NOT NULL, n BIGINT CHECK (n > 0))",
        ),
        copy("1,5\n2,6\n3,7\n"),
        copy("4,0\n"),
        copy(",1\n"),
        query(
            "MERGE INTO stock t USING stage s ON s.id = t.id WHEN MATCHED THEN UPDATE SET n = t.n + s.n \
             WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.n)",
        ),
        message(b'X', b""),
    ];
    let mut stream = TcpStream::connect(server.address("postgres")).unwrap();
    stream.write_all(&messages.concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    for part in ["COPY 3", "C23514", "C23502", "MERGE 3"] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    let rows = sql(server.address("http"), "SELECT id, n FROM stock ORDER BY id", "csv");
    assert_eq!(rows, "id,n\n1,15\n2,6\n3,7\n");
}

#[tokio::test]
async fn a_prepared_merge_takes_parameters() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let client = connect(server.port("postgres")).await;
    let made = "CREATE TABLE stock (id BIGINT PRIMARY KEY, n INT); INSERT INTO stock VALUES (1, 10)";
    client.batch_execute(made).await.unwrap();
    let merge = client
        .prepare(
            "MERGE INTO stock t USING generate_series(1, 3) AS s (id) ON s.id = t.id \
             WHEN MATCHED THEN UPDATE SET n = $1 WHEN NOT MATCHED AND s.id > $2 THEN INSERT VALUES (s.id, $3)",
        )
        .await
        .unwrap();
    assert_eq!(merge.params(), [Type::INT4, Type::INT8, Type::INT4]);
    assert_eq!(client.execute(&merge, &[&100i32, &2i64, &7i32]).await.unwrap(), 2);
    assert_eq!(number(&client, "SELECT sum(n * id) FROM stock").await, 121);
}

#[test]
fn a_role_that_writes_may_have_temporary_tables() {
    let data = tempfile::tempdir().unwrap();
    add_user(data.path(), "ann", "secret", "admin");
    add_user(data.path(), "wim", "writer", "write");
    add_user(data.path(), "ray", "readonly", "read");
    let server = Server::start(data.path(), &[]);
    let sql = "CREATE TEMP TABLE t (v INT); INSERT INTO t VALUES (1); DROP TABLE pg_temp.t; DISCARD TEMP";
    assert_eq!(ask(&server, "wim", "writer", sql), Ok(()));
    assert_eq!(ask(&server, "ray", "readonly", sql), Err("42501".to_owned()));
    assert_eq!(ask(&server, "wim", "writer", "CREATE TABLE t (v INT PRIMARY KEY)"), Err("42501".to_owned()));
}
