use super::*;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Durability, LineParser, LineSplitter, Settings, Unit};
use fleetdb_postgres::Postgres;
use fleetdb_query::Session;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

fn database() -> Arc<Database> {
    Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap())
}

fn session(db: &Arc<Database>) -> Session {
    Session::new(Arc::clone(db), Postgres::new()).unwrap()
}

/// The lines of a table, and how many rows they leave out.
fn lines(db: &Arc<Database>, table: &str) -> Result<(String, u64)> {
    let writer = LineWriter::of(db.view().table(table)?.schema())?;
    let (mut out, mut left_out) = (Vec::new(), 0);
    let name = table.replace('"', "\"\"");
    for batch in session(db).sql(&format!("SELECT * FROM \"{name}\"")).unwrap() {
        left_out += writer.append(&batch?, &mut out)?;
    }
    Ok((String::from_utf8(out).unwrap(), left_out))
}

fn load(db: &Database, lines: &str) {
    let mut parser = LineParser::new(db, Unit::Nanosecond, 0);
    let mut rest = lines.as_bytes();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(LineSplitter::default().find(rest).unwrap());
        parser.parse_bytes(line).unwrap();
        rest = after;
    }
    parser.commit(Durability::Sync).unwrap();
}

fn columns(db: &Arc<Database>, query: &str) -> Vec<Vec<ArrayRef>> {
    let rows = session(db).sql(query).unwrap().collect().unwrap();
    rows.iter().map(|batch| batch.columns().to_vec()).collect()
}

#[test]
fn values_are_written_by_their_types() {
    let db = database();
    for statement in [
        "CREATE TABLE t (a TEXT, b INT, ts TIMESTAMP(0), f DOUBLE, r REAL, i SMALLINT, u BIGINT UNSIGNED, y BOOLEAN, \
         s TEXT, d NUMERIC(8, 2), j JSONB, PRIMARY KEY (a, b, ts))",
        "INSERT INTO t VALUES ('x y', -1, '1970-01-01 00:00:01', 1e300, 1.1, -3, 5, true, 'say \"no\"', 2.50, '{\"k\": 1}')",
        "INSERT INTO t (a, b, ts, i) VALUES ('b', 2, '1969-12-31 23:59:59', 7), ('z', 3, '2026-01-01', NULL)",
    ] {
        session(&db).sql(statement).unwrap();
    }
    let expected = concat!(
        "t,a=b,b=2 i=7i -1000000000\n",
        "t,a=x\\ y,b=-1 f=1e+300,r=1.1,i=-3i,u=5u,y=true,s=\"say \\\"no\\\"\",d=2.50,",
        "j=\"{\\\"k\\\": 1}\" 1000000000\n",
    );
    assert_eq!(lines(&db, "t").unwrap(), (expected.to_owned(), 1));
    // A missing tag is NULL.
    let without_tag = "u,b=2 v=2i 6\nu,b=2,a=1 v=1i 5\n";
    load(&db, without_tag);
    assert_eq!(lines(&db, "u").unwrap(), (without_tag.to_owned(), 0));
}

#[test]
fn lines_come_back_as_the_same_rows() {
    // Whatever could be taken for the syntax.
    const SIGNS: [char; 12] = ['a', ' ', ',', '=', '"', '\\', '#', '\n', '\t', 'ä', '0', '\''];
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
    let (db, back) = (database(), database());
    let table = "CREATE TABLE \"a ,=\"\"t\" (\"k ,=\" TEXT, \"time\" TIMESTAMP, \"v ,=\" TEXT, n BIGINT, \
                 PRIMARY KEY (\"k ,=\", \"time\"))";
    session(&db).sql(table).unwrap();
    let (mut values, mut refused) = (Vec::new(), 0);
    for number in 0..2_000 {
        let mut text = |longest: usize| {
            let length = random.random_range(1..=longest);
            (0..length).map(|_| SIGNS[random.random_range(0..SIGNS.len())]).collect::<String>()
        };
        let (tag, field) = (text(6), text(9));
        if put_tag(&tag, &mut Vec::new()).is_err() {
            refused += 1;
            continue;
        }
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        values.push(format!("({}, to_timestamp({number})::timestamp, {}, {number})", quoted(&tag), quoted(&field)));
    }
    assert!(refused > 0 && values.len() > 1_000, "{refused} refused");
    session(&db).sql(&format!("INSERT INTO \"a ,=\"\"t\" VALUES {}", values.join(", "))).unwrap();
    load(&back, &lines(&db, "a ,=\"t").unwrap().0);
    let query = "SELECT \"k ,=\", \"v ,=\", n, \"time\"::text FROM \"a ,=\"\"t\" ORDER BY n";
    assert_eq!(columns(&back, query), columns(&db, query));
}

#[test]
fn what_line_protocol_cannot_carry_is_refused_and_named() {
    let db = database();
    for (columns, row, reason) in [
        ("id BIGINT PRIMARY KEY, v INT", "", "needs a time column"),
        ("k TEXT, ts TIMESTAMP, PRIMARY KEY (k, ts)", "", "a line needs a field"),
        ("ts TIMESTAMP PRIMARY KEY, v BYTEA", "", "column 'v': line protocol has no values of type bytea"),
        ("ts TIMESTAMP PRIMARY KEY, v DATE", "", "column 'v': line protocol has no values of type date"),
        ("ts TIMESTAMP PRIMARY KEY, \"time\" INT", "", "column 'time'"),
        ("ts TIMESTAMP PRIMARY KEY, \"v\\\" INT", "", "backslash"),
        (
            "k TEXT, ts TIMESTAMP, v INT, PRIMARY KEY (k, ts)",
            "'', '2026-01-01', 1",
            "column 'k': line protocol has no empty",
        ),
        (
            "k TEXT, ts TIMESTAMP, v INT, PRIMARY KEY (k, ts)",
            "'a\\', '2026-01-01', 1",
            "column 'k': line protocol cannot",
        ),
        ("ts TIMESTAMP PRIMARY KEY, v DOUBLE", "'2026-01-01', 'NaN'", "column 'v': line protocol has neither NaN"),
        ("ts TIMESTAMP(0) PRIMARY KEY, v INT", "'2500-01-01', 1", "outside the years"),
    ] {
        session(&db).sql("DROP TABLE IF EXISTS t").unwrap();
        session(&db).sql(&format!("CREATE TABLE t ({columns})")).unwrap();
        if !row.is_empty() {
            session(&db).sql(&format!("INSERT INTO t VALUES ({row})")).unwrap();
        }
        let error = lines(&db, "t").unwrap_err().to_string();
        assert!(error.contains(reason), "{columns}: {error}");
    }
}
