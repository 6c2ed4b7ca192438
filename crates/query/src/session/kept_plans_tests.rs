use crate::Session;
use arrow::util::pretty::pretty_format_batches;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use std::sync::Arc;

const FORMS: [&str; 9] = [
    "SELECT * FROM t WHERE id = {1}",
    "SELECT v + 1 FROM t WHERE id = {1} AND ts >= '2026-01-01' ORDER BY ts LIMIT 2",
    "SELECT count(*), sum(v) FROM t WHERE ts < '2026-01-0{2}'",
    "SELECT id FROM t WHERE name = 'n{1}' OR v > {2}",
    "SELECT id, max(v) FROM t GROUP BY id HAVING max(v) > {1} ORDER BY id",
    "SELECT id, v FROM t WHERE id IN ({1}, {2}) AND v BETWEEN 0 AND {2} ORDER BY id, ts",
    "SELECT v / (v - {1}) AS q FROM t WHERE id = 1 ORDER BY ts",
    "SELECT a.id FROM t a JOIN t b ON a.id = b.id AND b.v > {2} WHERE a.id = {1} ORDER BY 1",
    "SELECT name FROM t WHERE id = {1} AND v > (SELECT avg(v) FROM t WHERE id < {2})",
];

fn database() -> Arc<Database> {
    let db = Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap());
    let session = session(&db);
    session
        .sql("CREATE TABLE t (id BIGINT, ts TIMESTAMP, name TEXT, v BIGINT, PRIMARY KEY (id, ts))")
        .and_then(|_| {
            session.sql(
                "INSERT INTO t SELECT g % 5, to_timestamp(1767225600 + g * 3600), 'n' || g % 3, g % 4 \
                 FROM generate_series(0, 99) AS s(g)",
            )
        })
        .unwrap();
    db
}

fn session(db: &Arc<Database>) -> Session {
    Session::new(Arc::clone(db), crate::Plain::new()).unwrap()
}

/// The answer as a table, or the error.
fn answer(session: &Session, text: &str) -> String {
    match session.sql(text).and_then(crate::Answer::collect) {
        Ok(rows) => pretty_format_batches(&rows).unwrap().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_text_that_comes_again_is_answered_as_the_first_time() {
    let db = database();
    let lasting = session(&db);
    for form in FORMS {
        for numbers in [(0, 3), (1, 2), (4, 1), (2, 9), (1, 2)] {
            let text = form.replace("{1}", &numbers.0.to_string()).replace("{2}", &numbers.1.to_string());
            assert_eq!(answer(&lasting, &text), answer(&session(&db), &text), "{text}");
        }
        assert_eq!(lasting.kept().kept().count(), 1, "{form}");
        lasting.kept().clear();
    }
}

#[test]
fn a_kept_plan_follows_definitions_settings_and_transactions() {
    let db = database();
    let lasting = session(&db);
    let text = "SELECT * FROM t WHERE id = 1 AND ts >= '2026-01-03' ORDER BY ts LIMIT 3";
    let changes = [
        "ALTER TABLE t ADD COLUMN w DOUBLE",
        "INSERT INTO t VALUES (1, '2026-01-03 00:00:01', 'late', 7, 1.5)",
        "SET TIME ZONE 'Asia/Tokyo'",
        "BEGIN",
        "DELETE FROM t WHERE id = 1",
        "ROLLBACK",
        "DROP TABLE t",
        "CREATE TABLE t (id BIGINT, ts TIMESTAMP, x DOUBLE, PRIMARY KEY (id, ts))",
    ];
    let all_rows = answer(&lasting, text);
    assert_eq!((answer(&lasting, text), answer(&lasting, text)), (all_rows.clone(), all_rows));
    for change in changes {
        lasting.sql(change).unwrap();
        let again = [(); 3].map(|()| answer(&lasting, text));
        // A text that differs by a space is planned.
        let planned = answer(&lasting, &text.replace("WHERE", " WHERE"));
        assert!(again.iter().all(|again| *again == planned), "{change}:\n{}\n{planned}", again.join("\n"));
    }
}

#[test]
fn an_error_in_a_kept_plan_says_what_one_in_a_new_plan_says() {
    let db = database();
    let lasting = session(&db);
    let text = |divisor: i32| format!("SELECT sum(1 / (v - v)) FROM t WHERE id = {divisor}");
    let errors = [1, 2, 3].map(|divisor| answer(&lasting, &text(divisor)));
    assert!(errors.iter().all(|error| *error == answer(&session(&db), &text(1))), "{errors:?}");
    assert!(errors[0].contains("division by zero") || errors[0].contains("Divide by zero"), "{errors:?}");
    for text in ["SELECT 1 FROM t WHERE id = 'x'", "SELECT 1 FROM t WHERE ts = 'never'", "SELECT no FROM t"] {
        let errors = [(); 3].map(|()| answer(&lasting, text));
        assert_eq!(errors, [(); 3].map(|()| answer(&session(&db), text)), "{text}");
    }
}

#[test]
fn a_kept_plan_is_refused_in_a_failed_transaction() {
    let db = database();
    let lasting = session(&db);
    let text = "SELECT v FROM t WHERE id = 1";
    (0..3).for_each(|_| assert!(lasting.sql(text).is_ok()));
    assert_eq!(lasting.kept().kept().count(), 1);
    lasting.sql("BEGIN").unwrap();
    assert!(lasting.sql("SELECT no FROM t").is_err());
    assert_eq!(answer(&lasting, text), answer(&lasting, "SELECT v  FROM t WHERE id = 1"));
    assert!(lasting.sql(text).is_err());
    lasting.sql("ROLLBACK").unwrap();
    assert!(lasting.sql(text).is_ok());
}
