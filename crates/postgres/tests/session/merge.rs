//! MERGE in embedded sessions: parameters, tags and atomicity.

use crate::{session, text};
use arrow::datatypes::DataType;
use fleetdb_engine::{Code, Value};

const MERGE: &str = "MERGE INTO stock USING (VALUES ($1::bigint, $2::text)) AS s (id, name) ON s.id = stock.id \
    WHEN MATCHED AND stock.n > $3 THEN UPDATE SET n = $4, changed = $5 \
    WHEN NOT MATCHED THEN INSERT (id, name, price) VALUES (id, name, $6)";

#[test]
fn the_columns_that_values_are_for_give_parameters_their_types() {
    let (_, session) = session();
    session
        .sql("CREATE TABLE stock (id BIGINT PRIMARY KEY, name TEXT, n INT, price NUMERIC(8, 2), changed TIMESTAMP)")
        .unwrap();
    let statement = session.parse_one(MERGE).unwrap();
    let types = session.parameter_types_of(&statement).unwrap();
    let types: Vec<DataType> = types.into_iter().map(Option::unwrap).collect();
    assert_eq!(types[..4], [DataType::Int64, DataType::Utf8, DataType::Int32, DataType::Int32]);
    assert!(matches!(types[4], DataType::Timestamp(..)), "{types:?}");
    assert!(matches!(types[5], DataType::Decimal128(..)), "{types:?}");
    for (id, tag) in [(1, "MERGE 1"), (1, "MERGE 0")] {
        let values = [id.into(), "pump".into(), 3.into(), 4.into(), "2026-01-01".into(), "1.255".into()];
        let values: [Value; 6] = values;
        assert_eq!(session.execute(statement.with_values(&values).unwrap()).unwrap().tag(), Some(tag));
    }
    let rows = session.sql("SELECT * FROM stock").unwrap().collect().unwrap();
    assert!(text(&rows).contains("| 1  | pump |   | 1.26  |         |"), "{}", text(&rows));
}

#[test]
fn a_merge_writes_all_of_its_rows_or_none() {
    let (_, session) = session();
    session.sql("CREATE TABLE stock (id BIGINT PRIMARY KEY, n INT CHECK (n < 100))").unwrap();
    session.sql("INSERT INTO stock SELECT value, 0 FROM generate_series(0, 9) AS t(value)").unwrap();
    let merge = "MERGE INTO stock USING generate_series(5, 14) AS s (id) ON s.id = stock.id \
        WHEN MATCHED AND s.id = 5 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 1";
    let counts = || {
        let counts = session.sql("SELECT count(*), sum(n), max(id) FROM stock").unwrap().collect().unwrap();
        text(&counts)
    };
    let before = counts();
    let violates = format!("{merge} WHEN NOT MATCHED THEN INSERT VALUES (s.id, CASE s.id WHEN 14 THEN 100 END)");
    let Err(error) = session.sql(&violates) else { panic!("{violates} does not fail") };
    assert_eq!(error.code(), Code::Check);
    assert_eq!(counts(), before);
    let done = session.sql(&format!("{merge} WHEN NOT MATCHED THEN INSERT VALUES (s.id, 2)")).unwrap();
    assert_eq!(done.tag(), Some("MERGE 10"));
    assert!(counts().contains("| 14       | 14           | 14"), "{}", counts());
}
