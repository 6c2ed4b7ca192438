//! Files in FROM.

use super::session;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use fleetdb_engine::Code;
use fleetdb_postgres::Postgres;
use fleetdb_query::{Access, Files, Session};

/// The number in the first row and column of an answer.
fn number(session: &Session, sql: &str) -> i64 {
    let rows = session.sql(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).collect().unwrap();
    rows[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[test]
fn parquet_and_csv_files_are_read_where_a_table_stands() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (_, session) = session();
    let rows = "SELECT value AS id, 'n' || value AS name, CAST(value AS DOUBLE) / 2 AS v FROM generate_series(1, 20000) AS s(value)";
    for name in ["rows.parquet", "rows.csv"] {
        session.sql(&format!("COPY ({rows}) TO '{}'", path(name))).unwrap();
        let file = path(name);
        assert_eq!(number(&session, &format!("SELECT count(*) FROM '{file}' WHERE name = 'n7' AND v = 3.5")), 1);
        assert_eq!(number(&session, &format!("SELECT sum(rows.id) FROM '{file}' WHERE v > 9999")), 39_999);
        assert_eq!(
            number(&session, &format!("SELECT id FROM (SELECT v, name, id FROM '{file}' LIMIT 3) ORDER BY v DESC")),
            3
        );
        session.sql(&format!("CREATE VIEW of_file AS SELECT id FROM '{file}' WHERE id <= 5")).unwrap();
        assert_eq!(number(&session, "SELECT count(*) FROM of_file"), 5);
        session.sql("DROP VIEW of_file").unwrap();
        session.sql(&format!("CREATE TABLE t (PRIMARY KEY (id)) AS SELECT * FROM '{file}'")).unwrap();
        assert_eq!(number(&session, &format!("SELECT count(*) FROM t JOIN '{file}' AS f ON f.id = t.id")), 20_000);
        session.sql("DROP TABLE t").unwrap();
    }
    std::fs::write(path("semicolons.csv"), "id;t\n1;2026-01-01 12:00:00\n2;\n").unwrap();
    let semicolons = format!("SELECT count(t) FROM read_csv('{}', ';') WHERE id < 3", path("semicolons.csv"));
    assert_eq!(number(&session, &semicolons), 1);
    std::fs::write(path("torn.parquet"), "PAR1 and no more").unwrap();
    std::fs::write(path("types.csv"), format!("id\n{}x\n", "1\n".repeat(20_000))).unwrap();
    for (sql, says) in [
        (format!("SELECT * FROM '{}'", path("nothing.csv")), "nothing.csv"),
        (format!("SELECT * FROM '{}'", path("torn.parquet")), "torn.parquet"),
        (format!("SELECT sum(id) FROM '{}'", path("types.csv")), "types.csv"),
        ("SELECT * FROM read_csv(7)".to_owned(), "use read_csv('file' [, 'delimiter'])"),
        ("SELECT * FROM read_parquet('a', 'b')".to_owned(), "use read_parquet('file')"),
    ] {
        let error = session.sql(&sql).and_then(|answer| answer.collect()).unwrap_err();
        assert!(error.to_string().contains(says), "{sql}: {error}");
    }
}

#[test]
fn files_that_may_not_be_read_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.csv");
    std::fs::write(&file, "id\n1\n").unwrap();
    let sql = format!("SELECT id FROM '{}'", file.display());
    let with_files = |files| {
        let db = fleetdb_engine::Database::open(directory.path().join("db")).unwrap();
        Session::new(db.into(), Postgres::new()).unwrap().with_files(files)
    };
    assert_eq!(with_files(Files::below(Vec::new())).sql(&sql).map(|_| ()).unwrap_err().code(), Code::Denied);
    let session = with_files(Files::below(vec![directory.path().to_owned()]));
    assert_eq!(number(&session, &sql), 1);
    for sql in [
        &sql,
        "SELECT (SELECT count(*) FROM read_csv('x'))",
        "WITH a AS (SELECT * FROM \"read_csv\"('x')) SELECT 1",
        "INSERT INTO t SELECT * FROM 'x.csv'",
        "INSERT INTO t VALUES ((SELECT max(id) FROM read_parquet('x')))",
        "EXPLAIN ANALYZE SELECT * FROM 'x.parquet'",
        "COPY (SELECT * FROM 'x.parquet') TO STDOUT",
        "UPDATE t SET v = 1 WHERE id IN (SELECT id FROM 'x.csv')",
    ] {
        assert_eq!(session.parse_one(sql).unwrap().command().access, Access::Admin, "{sql}");
    }
}
