//! Prepared statements keep their plan but see current data, and answers from the container index
//! equal those of a scan.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod deep;
mod long_lists;
mod times;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use arrow::util::pretty::pretty_format_batches;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, ErrorKind, Settings, Value};
use fleetdb_query::Session;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn session() -> (Arc<Database>, Session) {
    let db = Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap());
    let session = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    session
        .sql("CREATE TABLE cpu (host TEXT, ts TIMESTAMP(0), usage BIGINT, load DOUBLE, PRIMARY KEY (host, ts))")
        .unwrap();
    fill(&session, 0);
    (db, session)
}

fn fill(session: &Session, from: i64) {
    session
        .sql(&format!(
            "INSERT INTO cpu SELECT 'h' || host.value, to_timestamp_seconds(t.value * 10), (t.value * 7 + host.value) % 100, \
             CASE WHEN t.value % 5 = 0 THEN NULL ELSE t.value * 0.5 END \
             FROM generate_series(0, 4) AS host(value), generate_series({from}, {}) AS t(value)",
            from + 999
        ))
        .unwrap();
}

fn text(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches).unwrap().to_string()
}

fn explain(session: &Session, sql: &str) -> String {
    text(&session.sql(&format!("EXPLAIN {sql}")).unwrap().collect().unwrap())
}

#[test]
fn a_prepared_statement_sees_what_is_there_now() {
    let (db, session) = session();
    let sum = session.prepare("SELECT sum(usage), count(*) FROM cpu WHERE host = $1 AND ts >= $2 AND ts < $3").unwrap();
    let run = |host: &str, from: i64, to: i64| {
        let rows = sum.query(&[host.into(), Value::Int(from), Value::Int(to)]).unwrap();
        (rows[0].column(0).as_primitive::<Int64Type>().value(0), rows[0].column(1).as_primitive::<Int64Type>().value(0))
    };
    let expected = |host: i64, from: i64, to: i64| {
        let values = (from / 10..to / 10).map(|t| (t * 7 + host) % 100);
        (values.clone().sum::<i64>(), values.count() as i64)
    };
    assert_eq!(run("h1", 0, 600), expected(1, 0, 600));
    assert_eq!(run("h3", 100, 9_000), expected(3, 100, 9_000));
    db.flush().unwrap();
    fill(&session, 1_000);
    assert_eq!(run("h3", 9_000, 12_000), expected(3, 9_000, 12_000), "from a segment and a memtable");
    session.sql("DELETE FROM cpu WHERE host = 'h3' AND ts < 10000").ok();
    session.sql("DELETE FROM cpu WHERE host = 'h3' AND ts < to_timestamp_seconds(10000)").unwrap();
    assert_eq!(run("h3", 9_000, 12_000), expected(3, 10_000, 12_000));
    session.sql("ALTER TABLE cpu ADD COLUMN note TEXT").unwrap();
    assert_eq!(run("h2", 0, 600), expected(2, 0, 600), "planned again");
    // NULL equals nothing.
    let none = sum.query(&[Value::Null, Value::Int(0), Value::Int(600)]).unwrap();
    assert_eq!(none[0].column(1).as_primitive::<Int64Type>().value(0), 0);
}

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
fn a_setting_of_datafusion_holds_from_the_next_statement_on() {
    let (_, session) = session();
    let all = session.prepare("SELECT value FROM generate_series(1, 5) AS s(value)").unwrap();
    let most = |batches: Vec<RecordBatch>| batches.iter().map(RecordBatch::num_rows).max();
    let asked = || most(session.sql("SELECT value FROM generate_series(1, 5) AS s(value)").unwrap().collect().unwrap());
    assert_eq!((most(all.query(&[]).unwrap()), asked()), (Some(5), Some(5)));
    session.sql("SET datafusion.execution.batch_size = 2").unwrap().collect().unwrap();
    assert_eq!((most(all.query(&[]).unwrap()), asked()), (Some(2), Some(2)));
    session.sql("RESET datafusion.execution.batch_size").unwrap().collect().unwrap();
    assert_eq!((most(all.query(&[]).unwrap()), asked()), (Some(5), Some(5)));
}

#[test]
fn a_time_finer_than_the_column_is_compared_exactly() {
    let (_, session) = session();
    let count = |sql: &str, time: &str| {
        let counted = session.prepare(&format!("SELECT count(*) FROM cpu WHERE {sql}")).unwrap();
        let rows = counted.query(&[time.into()]).unwrap();
        rows[0].column(0).as_primitive::<Int64Type>().value(0)
    };
    // Five hosts have a row every ten seconds.
    for (sql, time, rows) in [
        ("ts < $1", "1970-01-01 00:00:10.5", 10),
        ("ts < $1", "1970-01-01 00:00:10", 5),
        ("ts <= $1", "1970-01-01 00:00:09.999999", 5),
        ("ts = $1", "1970-01-01 00:00:10.5", 0),
        ("ts = $1", "1970-01-01 00:00:10.0", 5),
        ("host = 'h1' AND ts BETWEEN '1970-01-01 00:00:09.5' AND $1", "1970-01-01 00:00:20.000000001", 2),
    ] {
        assert_eq!(count(sql, time), rows, "{sql}, {time}");
    }
    // The scan evaluates the rounded conditions.
    let plan = explain(
        &session,
        "SELECT count(*) FROM cpu WHERE ts < '1970-01-01 00:00:10.5' AND ts > TIMESTAMP '1970-01-01 00:00:00.5'",
    );
    assert!(plan.contains("time>=1, time<=10"), "{plan}");
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
fn what_is_of_the_moment_is_of_each_run() {
    let (db, session) = session();
    let rows = session.prepare("SELECT rows FROM system.tables WHERE table_name = 'cpu'").unwrap();
    let next =
        session.prepare("SELECT usage FROM time_next_only('cpu', 'h0', TIMESTAMP '1970-01-01T02:46:30')").unwrap();
    let clock = session.prepare("SELECT count(*) FROM cpu WHERE ts < now() - INTERVAL '1 hour'").unwrap();
    let now = session.prepare("SELECT now()").unwrap();
    let first = text(&now.query(&[]).unwrap());
    assert!(text(&rows.query(&[]).unwrap()).contains("5000"));
    assert!(next.query(&[]).unwrap().is_empty());
    assert!(text(&clock.query(&[]).unwrap()).contains("5000"));
    fill(&session, 1_000);
    assert!(text(&rows.query(&[]).unwrap()).contains("10000"));
    assert_eq!(next.query(&[]).unwrap()[0].column(0).as_primitive::<Int64Type>().value(0), 0);
    assert!(text(&clock.query(&[]).unwrap()).contains("10000"));
    assert_ne!(text(&now.query(&[]).unwrap()), first, "time goes on");
    drop(db);
}

/// The number of deleted files of a directory that are still open.
#[cfg(target_os = "linux")]
fn open_and_gone(directory: &std::path::Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let names = open.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    names.filter(|name| name.starts_with(directory) && name.to_string_lossy().ends_with(" (deleted)")).count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_that_does_nothing_keeps_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let db = Arc::new(Database::open_with(Io::files(directory.path()), Settings::default()).unwrap());
    let session = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    session
        .sql("CREATE TABLE cpu (host TEXT, ts TIMESTAMP(0), usage BIGINT, load DOUBLE, PRIMARY KEY (host, ts))")
        .unwrap();
    for part in 0..3 {
        fill(&session, part * 1_000);
        db.flush().unwrap();
    }
    let kept = session.prepare("SELECT sum(usage) FROM cpu WHERE host = $1").unwrap();
    kept.query(&["h1".into()]).unwrap();
    let planned = session.prepare("SELECT sum(usage) + $1 FROM cpu").unwrap();
    planned.query(&[Value::Int(1)]).unwrap();
    session.sql("SELECT count(*) FROM cpu").unwrap().collect().unwrap();
    let on_its_way = session.sql("SELECT * FROM cpu").unwrap();
    db.compact().unwrap();
    assert!(open_and_gone(directory.path()) > 0, "the answer on its way has yet to read them");
    let rows = on_its_way.collect().unwrap();
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 15_000);
    let deadline = Instant::now() + Duration::from_secs(60);
    // A compaction thread may still hold them for a moment.
    while open_and_gone(directory.path()) > 0 {
        assert!(Instant::now() < deadline, "{} files are kept", open_and_gone(directory.path()));
        std::thread::yield_now();
    }
    assert_eq!(kept.query(&["h1".into()]).unwrap()[0].num_rows(), 1);
}

#[test]
fn parameters_may_stand_anywhere() {
    let (_db, session) = session();
    let scaled =
        session.prepare("SELECT usage * $2 AS v FROM cpu WHERE host = $1 AND usage > $3 ORDER BY ts LIMIT 3").unwrap();
    let rows = scaled.query(&["h0".into(), Value::Int(2), Value::Int(50)]).unwrap();
    let values: Vec<i64> =
        rows.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    assert_eq!(values, [112, 126, 140]);
    for (values, expected) in
        [(vec![Value::Int(1)], "3 parameters, not 1"), (vec!["h0".into(), "x".into(), Value::Int(1)], "parameter $2")]
    {
        let error = scaled.query(&values).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(session.prepare("DELETE FROM cpu WHERE host = $1").is_err());
}

#[test]
fn table_functions_take_parameters() {
    let (_db, session) = session();
    let series = session.prepare("SELECT n + $3 FROM generate_series($1::int, $2) AS n WHERE n <> $3").unwrap();
    for (from, to) in [(1, 4), (5, 2), (3, 3)] {
        let rows = series.query(&[Value::Int(from), Value::Int(to), Value::Int(3)]).unwrap();
        let found: Vec<i64> =
            rows.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values()).copied().collect();
        assert_eq!(found, (from..=to).filter(|value| *value != 3).map(|value| value + 3).collect::<Vec<_>>());
    }
    // An integer cast to a timestamp counts microseconds.
    let next = session.prepare("SELECT usage FROM time_next('cpu', $1, $2::timestamp)").unwrap();
    let usage = |host: Value, at: Value| {
        next.query(&[host, at]).unwrap().first().map(|rows| rows.column(0).as_primitive::<Int64Type>().value(0))
    };
    assert_eq!(usage("h2".into(), Value::Int(15_000_000)), Some(16));
    assert_eq!(usage("h2".into(), "1970-01-01T00:00:20".into()), Some(16));
    assert_eq!(usage("h2".into(), Value::Null), None);
    assert_eq!(usage("nobody".into(), Value::Int(0)), None);
    // It reads current data.
    session.sql("INSERT INTO cpu VALUES ('nobody', '1970-01-01', 77, NULL)").unwrap();
    assert_eq!(usage("nobody".into(), Value::Int(0)), Some(77));
    let error = next.query(&["h2".into(), "noon".into()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(series.query(&[Value::Int(1)]).unwrap_err().to_string().contains("3 parameters"));
}

#[test]
fn the_newest_row_of_a_container_is_not_searched_for() {
    let (db, session) = session();
    let sql = "SELECT * FROM cpu WHERE host = 'h2' ORDER BY ts DESC LIMIT 1";
    let plan = explain(&session, sql);
    assert!(plan.contains("newest first") && !plan.contains("SortExec"), "{plan}");
    let last = session.prepare("SELECT ts, usage FROM cpu WHERE host = $1 ORDER BY ts DESC LIMIT 1").unwrap();
    let usage = |host: &str| last.query(&[host.into()]).unwrap()[0].column(1).as_primitive::<Int64Type>().value(0);
    assert_eq!(usage("h4"), (999 * 7 + 4) % 100);
    db.flush().unwrap();
    assert_eq!(usage("h1"), (999 * 7 + 1) % 100);
    let newest =
        "SELECT usage FROM cpu WHERE host = 'h2' AND ts <= to_timestamp_seconds(5000) ORDER BY ts DESC LIMIT 3";
    let rows = session.sql(newest).unwrap().collect().unwrap();
    assert_eq!(
        rows[0].column(0).as_primitive::<Int64Type>().values().to_vec(),
        [500, 499, 498].map(|t| (t * 7 + 2) % 100)
    );
    let ascending = explain(&session, "SELECT usage FROM cpu WHERE host = 'h2' ORDER BY ts");
    assert!(!ascending.contains("SortExec"), "one container's rows are in order of time: {ascending}");
    let two = explain(&session, "SELECT * FROM cpu WHERE host IN ('h1', 'h2') ORDER BY ts DESC LIMIT 1");
    assert!(two.contains("SortExec"), "{two}");
    assert_eq!(
        session
            .sql("SELECT * FROM cpu WHERE host = 'none' ORDER BY ts DESC LIMIT 1")
            .unwrap()
            .collect()
            .unwrap()
            .iter()
            .map(RecordBatch::num_rows)
            .sum::<usize>(),
        0
    );
}

#[test]
fn answers_from_the_container_index_are_those_of_a_scan() {
    let (db, session) = session();
    let functions = "count(*), count(load), sum(usage), sum(load), min(usage), max(load), avg(usage), avg(load), min(ts), max(ts), count(ts)";
    let conditions = [
        "",
        "WHERE host = 'h1'",
        "WHERE ts >= to_timestamp_seconds(1234) AND ts < to_timestamp_seconds(9000)",
        "WHERE host > 'h2' AND ts > to_timestamp_seconds(4000)",
        "WHERE host = 'none'",
    ];
    for round in 0..4 {
        match round {
            1 => db.flush().unwrap(),
            2 => {
                // Overlaps, replaced rows and deleted rows.
                fill(&session, 500);
                session.sql("UPDATE cpu SET usage = 1000 WHERE ts BETWEEN to_timestamp_seconds(3000) AND to_timestamp_seconds(5000)").unwrap();
                session.sql("DELETE FROM cpu WHERE host = 'h4' AND ts > to_timestamp_seconds(7000)").unwrap();
            }
            3 => db.flush().unwrap(),
            _ => {}
        }
        for condition in conditions {
            for (select, group) in [("", ""), ("host, ", "GROUP BY host ORDER BY host")] {
                let sql = format!("SELECT {select}{functions} FROM cpu {condition} {group}");
                let plan = explain(&session, &sql);
                assert!(plan.contains("ContainerAggregate") && !plan.contains("FleetScan"), "{plan}");
                // The same rows, behind a filter that cannot be pushed down into the scan.
                let filter = if condition.is_empty() { "WHERE" } else { "AND" };
                let scanned = format!(
                    "SELECT {select}{functions} FROM cpu {condition} {filter} (usage > -1 OR usage < 0 OR usage IS NULL) {group}"
                );
                assert!(explain(&session, &scanned).contains("FleetScan"));
                let (answer, scan) =
                    (session.sql(&sql).unwrap().collect().unwrap(), session.sql(&scanned).unwrap().collect().unwrap());
                assert_eq!(text(&answer), text(&scan), "round {round}: {sql}");
            }
        }
    }
    // The newest rows, written in three ways.
    let written = [
        "SELECT DISTINCT ON (host) host, ts, usage, load FROM cpu ORDER BY host, ts DESC",
        "SELECT host, max(ts), last(usage, ts), last(load, ts) FROM cpu GROUP BY host ORDER BY host",
        "SELECT host, max(ts), last_value(usage ORDER BY ts), last_value(load ORDER BY ts) FROM cpu GROUP BY host ORDER BY host",
    ];
    let cells = |sql: &str| {
        text(&session.sql(sql).unwrap().collect().unwrap()).lines().skip(3).map(str::to_owned).collect::<Vec<_>>()
    };
    let by_scan = "SELECT host, ts, usage, load FROM cpu AS o WHERE ts = (SELECT max(ts) FROM cpu WHERE host = o.host) ORDER BY host";
    for sql in written {
        let plan = explain(&session, sql);
        assert!(plan.contains("ContainerAggregate"), "{plan}");
        let values = |sql: &str| {
            cells(sql)
                .iter()
                .map(|line| line.split('|').map(str::trim).map(str::to_owned).collect::<Vec<_>>())
                .filter(|line| line.len() > 2)
                .collect::<Vec<_>>()
        };
        assert_eq!(values(sql), values(by_scan), "{sql}");
    }
    // A condition that cannot be pushed down prevents the container aggregate.
    let filtered = explain(&session, "SELECT count(*) FROM cpu WHERE usage > 5");
    assert!(filtered.contains("FleetScan") && !filtered.contains("ContainerAggregate"), "{filtered}");
    let total = session.sql("SELECT sum(load) FROM cpu").unwrap().collect().unwrap();
    assert!(total[0].column(0).as_primitive::<Float64Type>().value(0) > 0.0);
}

#[test]
fn statements_are_stopped_by_time_by_whoever_cancels_and_by_memory() {
    let (_db, session) = session();
    let endless = "SELECT count(*) FROM generate_series(1, 10000000) AS a(x), generate_series(1, 10000000) AS b(y) WHERE x + y < 0";
    session.sql("SET statement_timeout = '50ms'").unwrap();
    let error = session.sql(endless).and_then(fleetdb_query::Answer::collect).unwrap_err();
    assert!(error.to_string().contains("statement_timeout (50 ms)"), "{error}");
    session.sql("SET statement_timeout = 0").unwrap();
    assert!(session.sql("SET statement_timeout = 'soon'").is_err());
    // A join can be stopped, however few rows it outputs.
    session.sql("SET statement_timeout = '200ms'").unwrap();
    let (a, b) = ("generate_series(1, 100000) AS a(x)", "generate_series(1, 100000) AS b(y)");
    for query in [
        format!("SELECT sum(x * y) FROM {a}, {b}"),
        format!("SELECT count(*) FROM {a} LEFT JOIN {b} ON x + y < 0"),
        format!("SELECT count(*) FROM {a} JOIN {b} ON x % 2 = y % 2"),
        format!("SELECT count(*) FROM {a} JOIN {b} ON x % 2 = y % 2 AND x + y < 0"),
    ] {
        let begun = std::time::Instant::now();
        let error = session.sql(&query).and_then(fleetdb_query::Answer::collect).unwrap_err();
        assert!(error.to_string().contains("statement_timeout"), "{query}: {error}");
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{query}: {:?}", begun.elapsed());
    }
    session.sql("SET statement_timeout = 0").unwrap();
    let canceller = session.canceller();
    let answer = session.sql(endless).unwrap();
    canceller.cancel();
    let error = answer.collect().unwrap_err();
    assert!(error.to_string().contains("cancelled"), "{error}");
    assert_eq!(session.sql("SELECT 1").unwrap().collect().unwrap()[0].num_rows(), 1, "the next statement runs");
    session.canceller().cancel();
    assert_eq!(session.sql("SELECT 1").unwrap().collect().unwrap()[0].num_rows(), 1, "none ran");
    session.announce().cancel();
    let error = session.sql(endless).and_then(fleetdb_query::Answer::collect).unwrap_err();
    assert!(error.to_string().contains("cancelled"), "before it began: {error}");
    assert_eq!(session.sql("SELECT 1").unwrap().collect().unwrap()[0].num_rows(), 1, "and only that");

    // A sort larger than the budget spills to temporary files. An operation that cannot spill fails
    // and releases its memory.
    let settings =
        Settings { memory_limit: 40 << 20, memtable_bytes: 2 << 20, cache_bytes: 1 << 20, ..Settings::default() };
    let db = Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), settings).unwrap());
    let session = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    let sorted = "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY value * 7919 % 1000003) AS n FROM generate_series(1, 3000000) AS s(value))";
    let rows = session.sql(sorted).unwrap().collect().unwrap();
    assert_eq!(rows[0].num_rows(), 1);
    let distinct = "SELECT array_agg(value::TEXT || 'some longer text to fill the memory') FROM generate_series(1, 3000000) AS s(value)";
    let error = session.sql(distinct).and_then(fleetdb_query::Answer::collect).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert_eq!(db.status().work_bytes, 0);
}

#[test]
fn copy_writes_files_that_parquet_tools_read() {
    let (_db, session) = session();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let copy = |from: &str, name: &str| session.sql(&format!("COPY {from} TO '{}'", path(name).display()));
    assert_eq!(copy("cpu", "cpu.parquet").unwrap().tag(), Some("COPY 5000"));
    assert_eq!(
        copy("(SELECT host, count(*) AS rows FROM cpu GROUP BY host ORDER BY host)", "hosts.csv").unwrap().tag(),
        Some("COPY 5")
    );
    assert_eq!(
        std::fs::read_to_string(path("hosts.csv")).unwrap(),
        "host,rows\nh0,1000\nh1,1000\nh2,1000\nh3,1000\nh4,1000\n"
    );
    let file = std::fs::File::open(path("cpu.parquet")).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 5_000);
    // And imports the file again.
    session
        .sql("CREATE TABLE again (host TEXT, ts TIMESTAMP(0), usage BIGINT, load DOUBLE, PRIMARY KEY (host, ts))")
        .unwrap();
    let back = |name: &str| session.sql(&format!("COPY again FROM '{}'", path(name).display()));
    assert_eq!(back("cpu.parquet").unwrap().tag(), Some("COPY 5000"));
    copy("(SELECT load, host, ts FROM cpu WHERE host = 'h1')", "part.csv").unwrap();
    session.sql("TRUNCATE TABLE again").unwrap();
    assert_eq!(back("part.csv").unwrap().tag(), Some("COPY 1000"));
    let sums = "SELECT count(*) AS a, count(load) AS b, sum(load) AS c, max(ts) AS d, count(usage) AS e FROM";
    let all = |sql: String| text(&session.sql(&sql).unwrap().collect().unwrap());
    assert_eq!(
        all(format!("{sums} again")),
        all(format!("{sums} (SELECT load, ts, NULL AS usage FROM cpu WHERE host = 'h1')"))
    );
    std::fs::write(path("wrong_type.csv"), "host,ts,usage\nh1,2026-01-01,many\n").unwrap();
    std::fs::write(path("wrong_name.csv"), "host,ts,watts\nh1,2026-01-01,1\n").unwrap();
    for (name, expected) in
        [("wrong_type.csv", "wrong_type.csv"), ("wrong_name.csv", "watts"), ("none.csv", "none.csv")]
    {
        let error = back(name).err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = copy("cpu", "cpu.parquet").err().unwrap();
    assert!(error.to_string().contains("cpu.parquet"), "a file that is there stays: {error}");
    assert!(copy("(SELECT host::INT FROM cpu)", "wrong.csv").is_err());
    assert!(!path("wrong.csv").exists(), "nothing is left of a query that fails");
}

#[test]
fn gap_filling_and_asof_joins_can_be_prepared() {
    let (db, session) = session();
    db.flush().unwrap();
    let filled = "SELECT host, time_bucket_gapfill('10 minutes', ts) AS bucket, locf(max(usage), 'before') FROM cpu \
                  WHERE host = $1 AND ts >= $2 AND ts < $3 GROUP BY host, bucket ORDER BY bucket";
    let joined = "SELECT a.ts, b.load FROM cpu a ASOF JOIN cpu b MATCH_CONDITION (a.ts > b.ts) ON a.host = b.host \
                  WHERE a.host = $1 AND a.ts >= $2 AND a.ts < $3";
    for sql in [filled, joined] {
        let prepared = session.prepare(sql).unwrap();
        for (host, from, to) in [("h1", 0, 3_000), ("h3", 9_000, 20_000), ("h9", 0, 1_000)] {
            let given = prepared.query(&[host.into(), Value::Int(from), Value::Int(to)]).unwrap();
            let plain = sql
                .replace("$1", &format!("'{host}'"))
                .replace("$2", &format!("to_timestamp_seconds({from})"))
                .replace("$3", &format!("to_timestamp_seconds({to})"));
            let expected = session.sql(&plain).unwrap().collect().unwrap();
            assert_eq!(text(&given), text(&expected), "{sql} {host}");
            assert_eq!(given.is_empty(), host == "h9");
        }
    }
}

#[test]
fn what_tells_columns_apart_while_they_are_planned_never_leaves_a_session() {
    let (_db, session) = session();
    let twice = "SELECT count(*), count(*), host, *, usage::TEXT FROM cpu GROUP BY host, ts, usage, load";
    let answer = session.sql(twice).unwrap();
    let schema = answer.schema().unwrap();
    let batches = answer.collect().unwrap();
    assert!(!batches.is_empty());
    for schema in batches.iter().map(RecordBatch::schema).chain([schema]) {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert!(names.iter().all(|name| !name.contains('\u{1f}')), "{names:?}");
    }
    assert!(!explain(&session, twice).contains('\u{1f}'));
    for wrong in ["SELECT count(*), count(*), nope FROM cpu", "SELECT host, host FROM cpu ORDER BY nope"] {
        let error = session.sql(wrong).and_then(fleetdb_query::Answer::collect).unwrap_err().to_string();
        assert!(error.contains("nope") && !error.contains('\u{1f}'), "{error:?}");
    }
    // Columns in files are found by name, so each name is distinct.
    let directory = tempfile::tempdir().unwrap();
    for ending in ["csv", "parquet"] {
        let file = directory.path().join(format!("twice.{ending}"));
        session.sql(&format!("COPY (SELECT host, host, usage AS host FROM cpu) TO '{}'", file.display())).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(5).any(|part| part == b"host\x1f"), "{ending}");
        assert!(bytes.windows(6).any(|part| part == b"host_2"), "{ending}");
    }
}
