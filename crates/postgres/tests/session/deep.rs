//! Very deep statements: each is answered or rejected, and the process survives.

use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, ErrorKind, Settings, Value};
use fleetdb_query::Session;
use std::time::Instant;

/// A form: the prefix, the repeated part, the middle, and the suffix, which is repeated as well if
/// it closes the repeated part.
type Form = (&'static str, &'static str, &'static str, &'static str);

/// Forms that repeat in a row.
const CHAINS: [Form; 48] = [
    ("SELECT 1", "+1", "", ""),
    ("SELECT v", "+v", " FROM t", ""),
    ("SELECT id FROM t WHERE v > 0", "+v", "", ""),
    ("SELECT 1", "-1", "", ""),
    ("SELECT 1", "*1", "", ""),
    ("SELECT 1.0", "/1", "", ""),
    ("SELECT 1", "%7", "", ""),
    ("SELECT 1.0", "^1", "", ""),
    ("SELECT 1", "#1", "", ""),
    ("SELECT 1", "<<1", "", ""),
    ("SELECT 1", "|1", "", ""),
    ("SELECT 'a'", "||'a'", "", ""),
    ("SELECT name", "||name", " FROM t", ""),
    ("SELECT id FROM t WHERE id = 1", " OR id = 2", "", ""),
    ("SELECT id FROM t WHERE id = 1", " AND id = 1", "", ""),
    ("SELECT id FROM t WHERE id = 1", " OR id = 2 AND v = 1", "", ""),
    ("SELECT id FROM t WHERE id = 1", " OR (id = 2 AND v = 1)", "", ""),
    ("SELECT id = 1", " OR id = 2", " FROM t", ""),
    ("SELECT true", " = true", "", ""),
    ("SELECT 1", "::int", "", ""),
    ("SELECT v", "::text::float8", " FROM t", ""),
    ("SELECT 1", " IS NULL", "", ""),
    ("SELECT true", " IS NOT TRUE", "", ""),
    ("SELECT true", " IS DISTINCT FROM true", "", ""),
    ("SELECT now()", " AT TIME ZONE 'UTC'", "", ""),
    ("SELECT 'a'", " COLLATE \"C\"", "", ""),
    ("SELECT 'a'", " LIKE 'a'", "", ""),
    ("SELECT 'a'", " SIMILAR TO 'a'", "", ""),
    ("SELECT 'a'", " ~ 'a'", "", ""),
    ("SELECT 1", " IN (1)", "", ""),
    ("SELECT true", " BETWEEN true AND true", "", ""),
    ("SELECT 1 IN (1", ",1", ")", ""),
    ("SELECT id FROM t WHERE id IN (1", ",2", ")", ""),
    ("SELECT ARRAY[1", ",1", "]", ""),
    ("SELECT ARRAY[1]", "[1]", "", ""),
    ("SELECT (ARRAY[1])", "[1:1]", "", ""),
    ("SELECT (1", ",1", ") = (1, 2)", ""),
    ("SELECT 1", " UNION ALL SELECT 1", "", ""),
    ("SELECT 1", " UNION SELECT 1", "", ""),
    ("SELECT 1", " INTERSECT SELECT 1", "", ""),
    ("SELECT 1", " EXCEPT SELECT 2", "", ""),
    ("SELECT 1 FROM t", " JOIN t USING (id)", "", ""),
    ("SELECT 1 FROM t", " CROSS JOIN t", "", ""),
    ("SELECT 1 FROM t", ", t", "", ""),
    ("SELECT CASE", " WHEN 1 = 2 THEN 1", " END", ""),
    ("VALUES (1)", ", (1)", "", ""),
    ("SELECT 1", "; SELECT 1", "", ""),
    ("SELECT 1 ORDER BY 1", ", 1", "", ""),
];

/// Forms that nest.
const NESTED: [Form; 24] = [
    ("SELECT ", "(", "1", ")"),
    ("SELECT ", "NOT ", "true", ""),
    ("SELECT ", "- ", "1", ""),
    ("SELECT ", "-", "1", ""),
    ("SELECT ", "abs(", "1", ")"),
    ("SELECT ", "coalesce(1 + ", "1", ", 1)"),
    ("SELECT ", "concat(true, ", "1", ")"),
    ("SELECT ", "CASE WHEN true THEN ", "1", " END"),
    ("SELECT ", "CASE ", "1", " WHEN 1 THEN 1 END"),
    ("", "SELECT * FROM (", "SELECT 1 AS a", ") AS q"),
    ("", "SELECT id FROM t WHERE id IN (", "SELECT id FROM t", ")"),
    ("", "SELECT (", "SELECT 1", ")"),
    ("", "SELECT EXISTS (", "SELECT 1", ")"),
    ("", "WITH q AS (", "SELECT 1", ") SELECT * FROM q"),
    ("", "(", "SELECT 1", ")"),
    ("", "EXPLAIN ", "SELECT 1", ""),
    ("SELECT ", "ARRAY[", "1", "]"),
    ("SELECT a", "[1", "", "]"),
    ("SELECT ", "CAST(", "1", " AS INT)"),
    ("SELECT ", "1 BETWEEN 0 AND (", "1", ")"),
    ("SELECT ", "INTERVAL ", "'1 day'", ""),
    ("SELECT ", "/* ", "1", " */"),
    ("SELECT 1 FROM ", "(", "t", " CROSS JOIN t)"),
    ("SELECT EXTRACT(YEAR FROM ", "date_trunc('day', ", "now()", "))"),
];

fn session() -> Session {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), fleetdb_postgres::Postgres::new()).unwrap();
    session.sql("CREATE TABLE t (id BIGINT, v DOUBLE, name TEXT, PRIMARY KEY (id))").unwrap();
    session.sql("INSERT INTO t VALUES (1, 0.5, 'a'), (2, 1.5, 'b')").unwrap();
    session
}

fn text((begin, again, end, close): &Form, count: usize) -> String {
    [*begin, &again.repeat(count), end, &close.repeat(count)].concat()
}

/// Runs every statement of a text, one after the other.
fn run(session: &Session, text: &str) -> fleetdb_engine::Result<()> {
    for statement in session.parse(text)? {
        session.execute(statement)?.collect()?;
    }
    Ok(())
}

/// The numbers of repetitions of a form; fewer for forms that are answered but slow.
fn lengths((_, again, ..): &Form) -> &'static [usize] {
    match *again {
        "; SELECT 1" => &[1_000],
        " UNION ALL SELECT 1" | " UNION SELECT 1" => &[1_000, 100_000],
        _ => &[10_000, 100_000],
    }
}

/// Covers every form. A crash or a hang fails the whole test.
#[test]
fn every_form_is_answered_or_refused_at_any_length() {
    let session = session();
    for (form, closes) in CHAINS.iter().map(|form| (form, false)).chain(NESTED.iter().map(|form| (form, true))) {
        for &count in lengths(form) {
            let text = if closes { nested(form, count) } else { text(form, count) };
            let begun = Instant::now();
            let done = run(&session, &text);
            let said =
                done.as_ref().map_or_else(|error| format!("{:?}: {error}", error.code()), |()| "answered".to_owned());
            if std::env::var("FLEETDB_TIMES").is_ok() {
                let end = said.floor_char_boundary(100);
                println!("{:>12.1?}  {:?} x {count}: {}", begun.elapsed(), form, &said[..end]);
            }
            if let Err(error) = done {
                assert_eq!(error.kind(), ErrorKind::Input, "{form:?} x {count}: {said}");
            }
        }
    }
    assert_eq!(asked(&session, "SELECT id FROM t"), Ok(2));
}

/// A text of many statements takes as long per statement as one with few.
#[test]
fn ten_thousand_statements_of_one_text_are_answered() {
    let session = session();
    for one in ["SELECT 1", "SELECT (1)=1 AND 2^2 > 1 OR 'a' || 'b' LIKE 'a%'"] {
        let text = vec![one; 10_000].join("; ");
        assert_eq!(session.parse(&text).unwrap().len(), 10_000);
    }
}

fn nested((begin, again, inner, close): &Form, count: usize) -> String {
    [*begin, &again.repeat(count), inner, &close.repeat(count)].concat()
}

/// Answered, or rejected with the returned message.
fn asked(session: &Session, text: &str) -> Result<usize, String> {
    let begun = Instant::now();
    let rows = session.sql(text).and_then(|answer| answer.collect());
    let took = begun.elapsed();
    if std::env::var("FLEETDB_TIMES").is_ok() {
        let outcome = rows.as_ref().map(|_| "answered".to_owned()).unwrap_or_else(|error| error.to_string());
        println!("{took:>12.1?}  {}  {}", &text[..text.len().min(60)], &outcome[..outcome.floor_char_boundary(100)]);
    }
    rows.map(|rows| rows.iter().map(|batch| batch.num_rows()).sum()).map_err(|error| error.to_string())
}

/// Within other statements, prepared, and with values.
#[test]
fn deep_statements_are_answered_or_refused_in_every_place() {
    let session = session();
    session.sql("CREATE TABLE u (id BIGINT, v DOUBLE, PRIMARY KEY (id))").unwrap();
    for form in [&CHAINS[0], &CHAINS[2], &CHAINS[13], &CHAINS[19], &CHAINS[40], &CHAINS[41]] {
        for count in [100, 300, 10_000, 100_000] {
            let query = text(form, count);
            for text in [
                format!("EXPLAIN {query}"),
                format!("COPY ({query}) TO 'no/such/directory/rows.csv'"),
                format!("PREPARE p{count} AS {query}"),
                format!("EXECUTE p{count}"),
                format!("INSERT INTO u (id) {query}"),
                format!("INSERT INTO u (id) VALUES (({query}))"),
                format!("UPDATE u SET v = 1 WHERE id IN ({query})"),
                format!("DELETE FROM u WHERE id IN ({query})"),
                format!("CREATE TABLE c{count} (PRIMARY KEY (id)) AS {query}"),
                format!("SET application_name = {}", &query["SELECT ".len()..]),
            ] {
                asked(&session, &text).ok();
            }
            if let Ok(prepared) = session.prepare(&query) {
                prepared.query(&[]).ok();
                prepared.query(&[]).ok();
            }
            if let Ok(statement) = session.parse_one(&query) {
                let _ = (statement.command(), statement.parameters(), statement.to_string());
                drop(statement.clone());
            }
        }
    }
    assert_eq!(asked(&session, "SELECT id FROM t"), Ok(2));
}

#[test]
fn ten_thousand_terms_of_and_and_or_are_answered() {
    let session = session();
    let terms = |count: usize| -> Vec<String> { (0..count).map(|id| format!("id = {id} AND v > 0")).collect() };
    assert_eq!(asked(&session, &format!("SELECT id FROM t WHERE {}", terms(10_000).join(" OR "))), Ok(2));
    let parameters: Vec<String> = (0..4_000).map(|place| format!("(id = ${} AND v > 0)", place + 1)).collect();
    let prepared = session.prepare(&format!("SELECT id FROM t WHERE {}", parameters.join(" OR "))).unwrap();
    let values: Vec<Value> = (0..4_000).map(Value::Int).collect();
    assert_eq!(prepared.query(&values).unwrap().iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
    for arm in ["SELECT 1", "SELECT id FROM t WHERE id = 1"] {
        assert_eq!(asked(&session, &vec![arm; 10_000].join(" UNION ALL ")), Ok(10_000));
    }
}

/// WITH queries, each of which reads the previous one twice.
#[test]
fn queries_that_double_are_refused() {
    let session = session();
    let named: Vec<String> = (1..40)
        .map(|number| format!("q{number} AS (SELECT id FROM q{0} UNION ALL SELECT id FROM q{0})", number - 1))
        .collect();
    let error =
        asked(&session, &format!("WITH q0 AS (SELECT id FROM t), {} SELECT count(*) FROM q39", named.join(", ")));
    assert!(error.unwrap_err().contains("nested too deeply"));
}
