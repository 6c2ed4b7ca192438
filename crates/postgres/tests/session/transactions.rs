//! Transactions of embedded sessions.

use crate::{session, text};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use fleetdb_engine::{Code, ErrorKind, Value};
use fleetdb_query::Session;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;

#[test]
fn a_transaction_sees_itself_and_others_do_not() {
    let (db, session) = session();
    let other = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    let sum = "SELECT sum(usage), count(*) FROM cpu WHERE host = $1";
    let (own, of_other) = (session.prepare(sum).unwrap(), other.prepare(sum).unwrap());
    let run = |prepared: &fleetdb_query::Prepared<&Session>| {
        let rows = prepared.query(&["new".into()]).unwrap();
        let (sum, count) = (rows[0].column(0), rows[0].column(1));
        let [sum, count] = [sum, count].map(|column| column.as_primitive::<Int64Type>().iter().next().unwrap());
        (sum, count.unwrap())
    };
    session.sql("BEGIN").unwrap();
    assert_eq!(run(&own), (None, 0));
    for second in 0..100 {
        session
            .sql(&format!("INSERT INTO cpu (host, ts, usage) VALUES ('new', to_timestamp_seconds({second}), 3)"))
            .unwrap();
        assert_eq!(run(&own), (Some(3 * (second + 1)), second + 1));
    }
    // After a flush, and a change of the table by another session.
    db.flush().unwrap();
    assert_eq!(run(&own), (Some(300), 100));
    other.sql("ALTER TABLE cpu ADD COLUMN note TEXT").unwrap();
    other.sql("INSERT INTO cpu (host, ts, usage, note) VALUES ('new', to_timestamp_seconds(1000), 4, 'x')").unwrap();
    assert_eq!((run(&own), run(&of_other)), ((Some(304), 101), (Some(4), 1)));
    session.sql("INSERT INTO cpu (host, ts, usage) VALUES ('new', to_timestamp_seconds(1000), 5)").unwrap();
    assert_eq!((run(&own), run(&of_other)), ((Some(305), 101), (Some(4), 1)));
    let all = "SELECT count(*) FROM cpu WHERE note IS NULL AND host = 'new'";
    assert!(text(&session.sql(all).unwrap().collect().unwrap()).contains("101"));
    session.sql("COMMIT").unwrap();
    assert_eq!((run(&own), run(&of_other)), ((Some(305), 101), (Some(305), 101)));
}

#[test]
fn a_transaction_fails_if_rows_that_it_has_read_are_others_at_its_commit() {
    let (db, session) = session();
    let other = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    session.sql("CREATE TABLE stock (id BIGINT, ts TIMESTAMP(0), n BIGINT, PRIMARY KEY (id, ts))").unwrap();
    let insert = |id: i64, n: i64| format!("INSERT INTO stock VALUES ({id}, '2026-01-01', {n})");
    let amounts = || text(&session.sql("SELECT n FROM stock ORDER BY id").unwrap().collect().unwrap());
    session.sql(&insert(1, 1)).unwrap();
    session.sql(&insert(2, 2)).unwrap();
    let new = "INSERT INTO stock VALUES (3, '2026-01-01', 3) ON CONFLICT";
    let reads = [
        "UPDATE stock SET n = n + 10 WHERE id = 1".to_owned(),
        format!("{} ON CONFLICT (id, ts) DO UPDATE SET n = stock.n + excluded.n", insert(1, 5)),
        format!("{new} DO NOTHING"),
        format!("{new} (id, ts) DO UPDATE SET n = stock.n"),
        "DELETE FROM stock WHERE n = 1".to_owned(),
        "DELETE FROM stock WHERE id = 1 AND ts = '2026-01-01' AND n = 1".to_owned(),
        "DELETE FROM stock WHERE id = 1 AND ts < '2026-01-02' AND n = 1".to_owned(),
        "MERGE INTO stock USING (VALUES (1)) AS s (id) ON s.id = stock.id WHEN MATCHED THEN UPDATE SET n = stock.n + 10"
            .to_owned(),
        "MERGE INTO stock USING (VALUES (1)) AS s (id) ON s.id = stock.id WHEN MATCHED AND n = 1 THEN DELETE".to_owned(),
    ];
    for read in &reads {
        for changes in [insert(1, 7), insert(3, 7), "DELETE FROM stock WHERE id = 1".to_owned()] {
            let before = amounts();
            session.begin().unwrap();
            session.sql(read).unwrap();
            other.sql(&changes).unwrap();
            let concerns = changes.contains("(3") == read.contains("(3");
            let done = session.sql("COMMIT");
            assert_eq!(done.is_err(), concerns, "{read}; {changes}: {:?}", done.map(|_| ()));
            if let Err(error) = done {
                assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
                assert!(error.to_string().contains("run it again"), "{error}");
            }
            assert!(!session.is_in_transaction());
            session.sql("DELETE FROM stock WHERE id IN (1, 3)").unwrap();
            session.sql(&insert(1, 1)).unwrap();
            assert_eq!(amounts(), before);
        }
        // Other rows of the table do not conflict, nor do changes rolled back to a savepoint.
        session.begin().unwrap();
        session.sql("SAVEPOINT s").unwrap();
        session.sql(read).unwrap();
        session.sql("ROLLBACK TO s").unwrap();
        session.sql("UPDATE stock SET n = n + 1 WHERE id = 2").unwrap();
        other.sql(&insert(1, 1)).unwrap();
        session.sql("COMMIT").unwrap();
        session.sql(&insert(2, 2)).unwrap();
    }
}

#[test]
fn a_repeatable_transaction_sees_one_moment_and_itself() {
    let (db, session) = session();
    let other = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    session.sql("CREATE TABLE stock (id BIGINT PRIMARY KEY, n BIGINT)").unwrap();
    session.sql("INSERT INTO stock VALUES (1, 1), (2, 2)").unwrap();
    let all = session.prepare("SELECT sum(n) FROM stock WHERE id < $1").unwrap();
    let sums = || {
        let planned = text(&session.sql("SELECT sum(n) FROM stock").unwrap().collect().unwrap());
        let kept = text(&all.query(&[Value::Int(100)]).unwrap());
        let sum = |rows: &str| rows.split_whitespace().filter_map(|word| word.parse::<i64>().ok()).next_back().unwrap();
        assert_eq!(sum(&planned), sum(&kept));
        sum(&kept)
    };
    for (begin, sees_one_moment) in [
        ("BEGIN", false),
        ("BEGIN ISOLATION LEVEL REPEATABLE READ", true),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE", true),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN", true),
        ("SET default_transaction_isolation = 'read committed'; BEGIN", false),
    ] {
        session.parse(begin).unwrap().into_iter().for_each(|one| drop(session.execute(one).unwrap()));
        other.sql("UPDATE stock SET n = 1 WHERE id = 1").unwrap();
        assert_eq!(sums(), 3, "{begin}: it begins with its first query");
        other.sql("UPDATE stock SET n = 10 WHERE id = 1").unwrap();
        // The view survives whatever happens to its files.
        db.flush().unwrap();
        assert_eq!(sums(), if sees_one_moment { 3 } else { 12 }, "{begin}");
        if !begin.contains("READ ONLY") {
            session.sql("INSERT INTO stock VALUES (3, 5)").unwrap();
            assert_eq!(sums(), if sees_one_moment { 8 } else { 17 }, "{begin}: it sees what it writes");
        }
        session.sql("ROLLBACK").unwrap();
        assert_eq!(sums(), 12);
        other.sql("UPDATE stock SET n = 1 WHERE id = 1").unwrap();
    }
    // The rows it changes must be unchanged since its view.
    session.sql("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    assert_eq!(sums(), 3);
    other.sql("UPDATE stock SET n = 10 WHERE id = 1").unwrap();
    session.sql("UPDATE stock SET n = n + 1 WHERE id = 1").unwrap();
    assert_eq!(sums(), 4);
    let error = session.sql("COMMIT").map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert_eq!(sums(), 12);
    // It sees a table that it creates itself.
    session.sql("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    assert_eq!(sums(), 12);
    session.sql("CREATE TABLE made (id BIGINT PRIMARY KEY)").unwrap();
    session.sql("INSERT INTO made VALUES (1)").unwrap();
    assert_eq!(session.sql("SELECT * FROM made").unwrap().collect().unwrap().len(), 1);
    session.sql("COMMIT").unwrap();
}

/// A transaction reads and writes the same as its statements run one by one. FLEETDB_SEED repeats a
/// run.
#[test]
fn transactions_do_what_their_statements_do_one_by_one() {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = std::env::var("FLEETDB_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(now);
    println!("FLEETDB_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let tables = [
        ("series", "CREATE TABLE series (id BIGINT, ts TIMESTAMP(0), n BIGINT, note TEXT, PRIMARY KEY (id, ts))"),
        ("things", "CREATE TABLE things (id BIGINT PRIMARY KEY, n BIGINT, note TEXT)"),
    ];
    let ((db, of_transactions), (_, one_by_one)) = (session(), session());
    for (_, create) in tables {
        of_transactions.sql(create).unwrap();
        one_by_one.sql(create).unwrap();
    }
    let statement = |random: &mut Xoshiro256PlusPlus| {
        let (id, n, second) = (random.random_range(0..5), random.random_range(0..100), random.random_range(0..5));
        let note = ["NULL", "'a'", "'b'"][random.random_range(0..3)];
        let is_series = random.random_bool(0.5);
        let table = tables[usize::from(!is_series)].0;
        let (time, key) =
            if is_series { (format!("to_timestamp_seconds({second}), "), "id, ts") } else { (String::new(), "id") };
        let row = format!("INSERT INTO {table} VALUES ({id}, {time}{n}, {note})");
        let of_time = if is_series { format!(" AND ts >= to_timestamp_seconds({second})") } else { String::new() };
        match random.random_range(0..9) {
            0..=2 => row,
            3 => format!("{row} ON CONFLICT ({key}) DO UPDATE SET n = {table}.n + excluded.n"),
            4 => format!("{row} ON CONFLICT DO NOTHING"),
            5 => format!("UPDATE {table} SET n = n + {n}, note = {note} WHERE id >= {id}{of_time}"),
            6 => format!("DELETE FROM {table} WHERE id = {id}{of_time}"),
            7 => format!("DELETE FROM {table} WHERE n < {}", n / 4),
            _ => format!(
                "INSERT INTO {table} SELECT id + 1, {}n, note FROM {table} WHERE n > {n}",
                if is_series { "ts, " } else { "" }
            ),
        }
    };
    let rows = |session: &Session| {
        tables.map(|(table, _)| {
            let all = format!("SELECT * FROM {table} ORDER BY {}", if table == "series" { "id, ts" } else { "id" });
            text(&session.sql(&all).unwrap().collect().unwrap())
        })
    };
    for _ in 0..60 {
        let mut kept: Vec<String> = Vec::new();
        of_transactions.begin().unwrap();
        for _ in 0..random.random_range(1..5) {
            // Changes after the savepoint are rolled back, released or left open.
            let end = ["ROLLBACK TO s", "RELEASE s", ""][random.random_range(0..3)];
            let block: Vec<String> = (0..random.random_range(1..6)).map(|_| statement(&mut random)).collect();
            of_transactions.sql("SAVEPOINT s").unwrap();
            for sql in &block {
                of_transactions.sql(sql).unwrap();
                if random.random_bool(0.3) {
                    rows(&of_transactions);
                }
            }
            if !end.is_empty() {
                of_transactions.sql(end).unwrap();
            }
            if end != "ROLLBACK TO s" {
                kept.extend(block);
            }
        }
        for sql in &kept {
            one_by_one.sql(sql).unwrap();
        }
        assert_eq!(rows(&of_transactions), rows(&one_by_one), "seed {seed}, before COMMIT: {kept:#?}");
        of_transactions.sql("COMMIT").unwrap();
        if random.random_bool(0.2) {
            db.flush().unwrap();
        }
        assert_eq!(rows(&of_transactions), rows(&one_by_one), "seed {seed}, after COMMIT: {kept:#?}");
    }
}

/// No increment is lost among concurrent transactions, however often they retry.
#[test]
fn increments_in_transactions_side_by_side_are_all_there() {
    const THREADS: i64 = 4;
    const INCREMENTS: i64 = 50;
    let (db, session) = session();
    session.sql("CREATE TABLE counters (id BIGINT PRIMARY KEY, n BIGINT)").unwrap();
    session.sql("INSERT INTO counters VALUES (1, 0), (2, 0)").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let session = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
            scope.spawn(move || {
                let mut done = 0;
                while done < INCREMENTS {
                    session.begin().unwrap();
                    session.sql("UPDATE counters SET n = n + 1").unwrap();
                    match session.sql("COMMIT") {
                        Ok(_) => done += 1,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Retry, "{error}"),
                    }
                }
            });
        }
    });
    let sum = text(&session.sql("SELECT sum(n) FROM counters").unwrap().collect().unwrap());
    assert!(sum.contains(&format!(" {} ", 2 * THREADS * INCREMENTS)), "{sum}");
}

#[test]
fn statements_without_effect_fail_in_a_failed_transaction_and_succeed_otherwise() {
    let (_db, session) = session();
    for nothing in ["DISCARD TEMP", "UNLISTEN *", "ANALYZE cpu", "COMMENT ON TABLE cpu IS 'a'"] {
        session.sql(nothing).unwrap();
        session.sql("BEGIN").unwrap();
        session.sql(nothing).unwrap();
        session.sql("SELECT nope FROM cpu").map(|_| ()).unwrap_err();
        let error = session.sql(nothing).map(|_| ()).unwrap_err();
        assert_eq!(error.code(), Code::FailedTransaction, "{nothing}: {error}");
        session.sql("ROLLBACK").unwrap();
    }
}

#[test]
fn a_text_may_begin_with_any_form_of_postgres() {
    let (_db, session) = session();
    for one in session.parse("BEGIN; TABLE cpu; ABORT; TABLE cpu LIMIT 1").unwrap() {
        session.execute(one).unwrap();
    }
    assert!(!session.is_in_transaction());
}
