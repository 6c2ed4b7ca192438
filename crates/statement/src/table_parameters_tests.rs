use super::*;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_query::Session;
use std::sync::Arc;

fn session() -> Session {
    Session::new(
        Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap()),
        fleetdb_query::Plain::new(),
    )
    .unwrap()
}

#[test]
fn parameters_of_table_functions_are_found_with_the_types_they_are_cast_to() {
    let text = "SELECT $1 FROM generate_series($2::int, CAST($3 AS TIMESTAMP), $4) AS s(n), (SELECT * FROM f(g($5))) AS t WHERE n > $6";
    let mut statement = session().parse_one(text).unwrap();
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    let found = [(1, Some(DataType::Int64)), (2, Some(time)), (3, None), (4, None)];
    assert_eq!(statement.table_parameters(), found);
    let planned = statement.without_table_parameters().to_string();
    assert_eq!(
        planned,
        "SELECT $1 FROM generate_series(NULL, CAST(NULL AS TIMESTAMP), NULL) AS s (n), (SELECT * FROM f(g(NULL))) AS t WHERE n > $6"
    );
    assert!(session().parse_one("SELECT $1 FROM t WHERE a = $2").unwrap().table_parameters().is_empty());
}

#[test]
fn types_that_are_given_are_cast_to_where_nothing_else_says_them() {
    let mut statement = session().parse_one("SELECT $1, ts + $2 FROM f($1, $3::date, $4)").unwrap();
    let time = || DataType::Timestamp(TimeUnit::Microsecond, None);
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    statement.set_types(&[(0, time()), (1, interval), (2, time()), (3, DataType::Int64)]);
    let text = "SELECT $1, ts + CAST($2 AS INTERVAL) FROM f(CAST($1 AS TIMESTAMP), CAST($3 AS TIMESTAMP)::DATE, $4)";
    assert_eq!(statement.to_string(), text);
}

#[test]
fn instants_that_are_given_stay_instants_where_they_are_cast() {
    let text =
        "SELECT $1, $1::date AS a, $1::timestamptz AS b, $2::date[] AS c FROM f($1::timestamp, $1) WHERE ts > $1";
    let mut statement = session().parse_one(text).unwrap();
    let instant = || DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    statement.set_types(&[(0, instant()), (1, DataType::new_list(instant(), true))]);
    assert_eq!(
        statement.to_string(),
        "SELECT $1, CAST($1 AS TIMESTAMP WITH TIME ZONE)::DATE AS a, $1::TIMESTAMPTZ AS b, \
         CAST($2 AS TIMESTAMP WITH TIME ZONE[])::DATE[] AS c FROM f($1::TIMESTAMP, CAST($1 AS TIMESTAMP)) WHERE ts > $1"
    );
}

#[test]
fn times_that_are_given_stay_times_beside_dates() {
    let text = "SELECT $1 FROM t WHERE ts::date = $1 AND $2 > (ts::date) AND ts::date BETWEEN $1 AND $3 AND ts > $1";
    let mut statement = session().parse_one(text).unwrap();
    let time = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
    statement.set_types(&[(0, time(None)), (1, time(Some("+00:00"))), (2, DataType::Date32)]);
    assert_eq!(
        statement.to_string(),
        "SELECT $1 FROM t WHERE ts::DATE = CAST($1 AS TIMESTAMP) AND CAST($2 AS TIMESTAMP WITH TIME ZONE) > (ts::DATE) \
         AND ts::DATE BETWEEN CAST($1 AS TIMESTAMP) AND $3 AND ts > $1"
    );
}
