//! Long lists of literals are planned as arrays, and must answer as the lists of expressions do
//! that DataFusion plans. A parenthesis around one literal keeps a list a list of expressions.

use arrow::util::pretty::pretty_format_batches;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Code, Database, Settings, TextPosition, Value};
use fleetdb_query::Session;

const ITEMS: usize = 1_200;

fn session(settings: Settings) -> Session {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), settings).unwrap();
    let session = Session::new(db.into(), fleetdb_postgres::Postgres::new()).unwrap();
    session
        .sql(
            "CREATE TABLE t (id INT, name TEXT, ts TIMESTAMP, w BIGINT, small SMALLINT, d DOUBLE, word TEXT, \
             day DATE, is_on BOOLEAN, PRIMARY KEY (id, name, ts))",
        )
        .unwrap();
    session
        .sql(
            "INSERT INTO t SELECT v, 'n''' || v, '2026-01-01', v * 3, v, v * 0.5, 'w' || v, '2026-01-02', v % 2 = 0 \
             FROM generate_series(-100, 3000, 7) AS g(v)",
        )
        .unwrap();
    session.sql("INSERT INTO t (id, name, ts) VALUES (5000, 'none', '2026-01-01')").unwrap();
    session
}

/// The answer, or the code and message of the error.
fn said(session: &Session, text: &str) -> String {
    let rows = session.sql(text).and_then(|answer| {
        let tag = answer.tag().unwrap_or_default().to_owned();
        Ok((tag, answer.collect()?))
    });
    match rows {
        Ok((tag, rows)) => format!("{tag}\n{}", pretty_format_batches(&rows).unwrap()),
        Err(error) => format!("{:?} {error}", error.code()),
    }
}

fn list(item: impl Fn(i64) -> String) -> Vec<String> {
    (-50..ITEMS as i64 - 50).map(item).collect()
}

/// The list as an array, and as expressions.
fn both(items: &[String]) -> [String; 2] {
    [items.join(", "), format!("({}), {}", items[0], items[1..].join(", "))]
}

fn lists() -> Vec<Vec<String>> {
    vec![
        list(|item| item.to_string()),
        list(|item| (item * 1_000_000_000).to_string()),
        list(|item| format!("'n''{item}'")),
        list(|item| format!("'w{item}'")),
        list(|item| format!("'{item}'")),
        list(|_| "'2026-01-02'".to_owned()),
        list(|_| "'t'".to_owned()),
    ]
}

#[test]
fn long_lists_answer_as_lists_of_expressions() {
    let session = session(Settings::default());
    for items in lists() {
        let [array, expressions] = both(&items);
        for column in [
            "id",
            "name",
            "ts",
            "w",
            "small",
            "d",
            "d * 2.0::NUMERIC",
            "word",
            "day",
            "is_on",
            "id + 1",
            "lower(word)",
            "NULL",
            "7",
            "'w7'",
            "id::BIGINT",
            "missing",
        ] {
            for form in [
                "SELECT count(*), min(id), max(id) FROM t WHERE X",
                "SELECT count(*), min(id), max(id) FROM t WHERE NOT X OR id < 0",
                "SELECT X AS has, count(*) FROM t GROUP BY 1 ORDER BY 1",
                "SELECT count(*) FROM t AS a LEFT JOIN (SELECT * FROM t WHERE X) AS b ON a.id = b.id WHERE b.id IS NULL",
            ] {
                let of = |list: &str| said(&session, &form.replace('X', &format!("{column} IN ({list})")));
                assert_eq!(of(&array), of(&expressions), "{column} IN {} in {form}", items[0]);
            }
        }
    }
}

/// What every kind of statement says with a list of numbers and a list of texts.
fn all_said(numbers: &str, texts: &str) -> Vec<String> {
    let session = session(Settings::default());
    let texts = [
        format!("SELECT count(*) AS n FROM t WHERE id IN ({numbers}) AND word IN ({texts})"),
        format!("SELECT (SELECT count(*) FROM t AS b WHERE a.id IN ({numbers})) AS n FROM t AS a WHERE id = 5"),
        format!("SELECT count(*) AS n FROM t AS a JOIN t AS b ON a.id = b.id AND a.w IN ({numbers})"),
        format!("SELECT count(CASE WHEN id IN ({numbers}) THEN 1 END) AS n FROM t"),
        format!("WITH q AS (SELECT * FROM t WHERE id IN ({numbers})) SELECT count(*) AS n FROM q, q AS r"),
        format!("UPDATE t SET d = 1 WHERE id IN ({numbers})"),
        "BEGIN".to_owned(),
        format!("DELETE FROM t WHERE id IN ({numbers}) AND word IN ({texts})"),
        "ROLLBACK".to_owned(),
        format!("PREPARE p AS SELECT count(*) AS n FROM t WHERE id IN ({numbers}) AND w > $1"),
        "EXECUTE p(100)".to_owned(),
        format!("DELETE FROM t WHERE w NOT IN ({numbers}) AND word NOT IN ({texts})"),
    ];
    let mut all: Vec<String> = texts.iter().map(|text| said(&session, text)).collect();
    let query = format!("SELECT $1 IN ({numbers}) AS has, count(*) FROM t WHERE id IN ({numbers}) AND w > $2");
    let rows = session.prepare(&query).unwrap().query(&[Value::Int(3), Value::Int(100)]).unwrap();
    all.push(pretty_format_batches(&rows).unwrap().to_string());
    all
}

#[test]
fn long_lists_are_taken_in_every_statement() {
    let ([numbers, other_numbers], [texts, other_texts]) =
        (both(&list(|item| item.to_string())), both(&list(|item| format!("'w{item}'"))));
    let all = all_said(&numbers, &texts);
    assert_eq!(all, all_said(&other_numbers, &other_texts));
    assert!(all[0].contains("| 171 |"), "{}", all[0]);
}

#[test]
fn a_long_list_of_keys_is_looked_up_in_the_scan() {
    let session = session(Settings::default());
    for items in [list(|item| item.to_string()), list(|item| (item * 10_000_000).to_string())] {
        let plan = said(&session, &format!("EXPLAIN SELECT * FROM t WHERE id IN ({})", items.join(",")));
        assert!(plan.contains("id in ") && plan.contains(" values"), "{plan}");
        assert!(!plan.contains("FilterExec"), "{plan}");
    }
}

#[test]
fn errors_behind_a_long_list_are_placed_and_wrong_lists_refused() {
    let session = session(Settings::default());
    let items = list(|item| item.to_string()).join(",\n");
    let text = format!("SELECT * FROM t WHERE id IN ({items})\nAND missing = 1");
    let error = session.sql(&text).err().unwrap();
    let place = TextPosition::At { line: ITEMS as u64 + 1, column: 5 };
    assert_eq!(error.position(), Some(place), "{error}");
    for (wrong, code) in [
        (format!("SELECT * FROM t WHERE id IN \"{items}"), Code::Syntax),
        ("SELECT * FROM t WHERE id IN \"1,2\"".to_owned(), Code::Syntax),
        ("SELECT * FROM t WHERE id IN (long_list('a'))".to_owned(), Code::InvalidParameter),
        ("SELECT long_list('1,2')".to_owned(), Code::InvalidParameter),
    ] {
        assert_eq!(session.sql(&wrong).and_then(|answer| answer.collect()).err().unwrap().code(), code, "{wrong}");
    }
}

#[test]
fn a_million_numbers_fit_into_64_mib() {
    let session = session(Settings::with_memory_limit(64 << 20));
    let numbers: Vec<String> = (0..1_000_000).map(|number| number.to_string()).collect();
    for (column, count) in [("id", 429), ("w", 428)] {
        let answer = said(&session, &format!("SELECT count(*) AS n FROM t WHERE {column} IN ({})", numbers.join(",")));
        assert!(answer.contains(&format!("| {count} |")), "{answer}");
    }
    // A column of another type needs an expression for each number.
    let refused = said(&session, &format!("SELECT count(*) FROM t WHERE d IN ({})", numbers.join(",")));
    assert!(refused.starts_with("OutOfMemory"), "{refused}");
}
