//! Writes by primary keys give the same with and without the planner.

use super::text;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_query::{KeyedWrite, Session, Zone};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const TABLES: [&str; 3] = [
    "CREATE TABLE meters (id BIGINT, n BIGINT, small INT, f DOUBLE, note TEXT, euro NUMERIC(5, 2), PRIMARY KEY (id))",
    "CREATE TABLE reads (site TEXT, id INT, ts TIMESTAMP, v DOUBLE, n INT, PRIMARY KEY (site, id, ts))",
    "CREATE TABLE times (ts TIMESTAMP(0), small SMALLINT, PRIMARY KEY (ts))",
];

fn session() -> (Arc<Database>, Session) {
    let db = Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap());
    let session = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    TABLES.iter().for_each(|table| drop(session.sql(table).unwrap()));
    (db, session)
}

/// A random statement, without RETURNING.
fn statement(random: &mut Xoshiro256PlusPlus) -> String {
    let id = random.random_range(0..6);
    let integer = random.random_range(-3..4);
    let huge = *["3000000000", "9223372036854775807", "7"].choose(random).unwrap();
    let numbers = [
        format!("{integer}"),
        format!("meters.n + {integer}"),
        format!("({integer} - meters.n) * 2"),
        format!("meters.n * {huge}"),
        "NULL".to_owned(),
    ];
    let number = numbers.choose(random).unwrap();
    let set = [
        format!("n = {number}"),
        format!("small = meters.small + {integer}, note = 'x'"),
        format!("small = {huge}"),
        format!("f = meters.f * 1.5 - {integer}, n = {number}"),
        "note = NULL".to_owned(),
        format!("euro = {integer}.5 - meters.euro"),
        format!(
            "euro = meters.euro + {}, n = {number}",
            ["1.005", "99.99", "0.1", "'2'", "1e2"].choose(random).unwrap()
        ),
        format!("euro = {}", ["1.005", "'-7.555'", "1000", "meters.euro * 1.5", "meters.n"].choose(random).unwrap()),
    ];
    let set = set.choose(random).unwrap();
    let new = [
        "n = meters.n + excluded.n",
        "euro = meters.euro + excluded.euro",
        "n = excluded.n, f = excluded.f - meters.f",
        "small = excluded.small * 2",
    ];
    let new = new.choose(random).unwrap();
    let time = |random: &mut Xoshiro256PlusPlus| format!("'2026-01-0{} 10:00'", random.random_range(1..5));
    let (at, from) = (time(random), time(random));
    let site = *["'a'", "'b'"].choose(random).unwrap();
    match random.random_range(0..13) {
        0 => format!("INSERT INTO meters (id, n, f) VALUES ({id}, {integer}, 0.5) ON CONFLICT DO NOTHING"),
        1 => format!(
            "INSERT INTO meters (id, n, small, euro) VALUES ({id}, {integer}, 5, {integer}5.055) ON CONFLICT (id) DO UPDATE SET {new}"
        ),
        2 => format!(
            "INSERT INTO meters (id, small) VALUES ({id}, 9), ({}, 8) ON CONFLICT (id) DO UPDATE SET {set}",
            integer + 3
        ),
        3 => format!("UPDATE meters SET {set} WHERE id = {id}"),
        4 => format!("UPDATE meters SET {set} WHERE id IN ({id}, {integer}, 2, NULL)"),
        5 => format!("DELETE FROM meters WHERE meters.id = {id}"),
        6 | 7 => format!(
            "INSERT INTO reads VALUES ({site}, {id}, {at}, {integer}) ON CONFLICT (site, id, ts) DO UPDATE \
             SET n = {integer}, v = reads.v + excluded.v"
        ),
        8 => {
            format!("UPDATE reads AS r SET v = r.v * 2, n = 7 WHERE r.ts = {at} AND site = {site} AND id IN ({id}, 1)")
        }
        9 => format!("INSERT INTO times VALUES ({at}, {huge}) ON CONFLICT DO NOTHING"),
        10 => format!(
            "INSERT INTO times VALUES ({at}, 20000) ON CONFLICT (ts) DO UPDATE SET small = times.small * 2 - excluded.small"
        ),
        11 => format!("DELETE FROM times WHERE ts < {at}"),
        _ => format!("DELETE FROM reads WHERE site = {site} AND id = {id} AND ts >= {from} AND {at} >= ts"),
    }
}

/// The outcome of a statement: its tag, or its error's code.
fn outcome(session: &Session, sql: &str) -> String {
    match session.sql(sql).and_then(|answer| {
        let tag = answer.tag().map(str::to_owned);
        answer.collect().map(|_| tag)
    }) {
        Ok(tag) => tag.unwrap_or_default(),
        Err(error) => format!("{:?}", error.code()),
    }
}

fn rows(session: &Session) -> String {
    let all = |table| text(&session.sql(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap().collect().unwrap());
    format!("{}\n{}\n{}", all("meters"), all("reads"), all("times"))
}

#[test]
fn the_planner_and_keyed_writes_agree() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("FLEETDB_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(now);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let ((db, keyed), (_, planned)) = (session(), session());
    let (mut done, mut in_transaction) = (0, false);
    for _ in 0..400 {
        if random.random_bool(0.05) {
            let sql = if !in_transaction { "BEGIN" } else { *["COMMIT", "ROLLBACK"].choose(&mut random).unwrap() };
            in_transaction = !in_transaction;
            for session in [&keyed, &planned] {
                session.sql(sql).unwrap();
            }
            continue;
        }
        let sql = statement(&mut random);
        done += usize::from(KeyedWrite::of(&keyed.parse_one(&sql).unwrap(), &db, Zone::Utc).is_some());
        let (by_keys, by_plan) = (outcome(&keyed, &sql), outcome(&planned, &format!("{sql} RETURNING 1")));
        assert_eq!(by_keys, by_plan, "FLEETDB_SEED={seed}: {sql}");
        // A failed statement ends the transaction.
        if keyed.check_transaction().is_err() {
            in_transaction = false;
            for session in [&keyed, &planned] {
                session.sql("ROLLBACK").unwrap();
            }
        }
        assert_eq!(rows(&keyed), rows(&planned), "FLEETDB_SEED={seed}: {sql}");
    }
    assert!(done > 200, "FLEETDB_SEED={seed}: {done} of the statements were keyed writes");
}

#[test]
fn a_transaction_fails_if_its_keyed_write_read_another_row() {
    let (db, one) = session();
    let two = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    one.sql("INSERT INTO meters (id, n) VALUES (1, 1)").unwrap();
    one.sql("BEGIN").unwrap();
    one.sql("UPDATE meters SET n = n + 1 WHERE id = 1").unwrap();
    two.sql("UPDATE meters SET n = n + 10 WHERE id = 1").unwrap();
    assert!(one.sql("COMMIT").is_err());
    let row = db.container("meters", &[1.into()]).unwrap().last_row().unwrap().unwrap();
    assert_eq!(row[1], 11.into());
}
