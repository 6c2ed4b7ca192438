use super::*;
use arrow::datatypes::{DataType, Field, TimeUnit};

fn rows(columns: &[(&str, DataType)]) -> Schema {
    Schema::new(columns.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect::<Vec<_>>())
}

fn reads() -> Schema {
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    rows(&[("v", DataType::Float64), ("ts", time), ("meter", DataType::LargeUtf8), ("site", DataType::Int64)])
}

fn created(to: &Ingest, rows: &Schema) -> Result<String> {
    to.definition("t", rows).map(|(definition, _)| statement(&definition, to.is_temporary))
}

#[test]
fn a_key_is_guessed_from_the_types_unless_it_is_given() {
    let guessed = created(&Ingest::default(), &reads()).unwrap();
    let expected = "CREATE TABLE t (v DOUBLE PRECISION, ts TIMESTAMP(6) NOT NULL, meter TEXT NOT NULL, site BIGINT, \
                    PRIMARY KEY (meter, ts))";
    assert_eq!(guessed, expected);
    let key = |key: &str, time: Option<&str>| {
        let to = Ingest { key: Some(key.to_owned()), time: time.map(str::to_owned), ..Ingest::default() };
        to.definition("t", &reads()).map(|(definition, is_guessed)| (definition.primary_key, is_guessed))
    };
    assert_eq!(
        key("site, meter", None).unwrap(),
        (vec!["site".to_owned(), "meter".to_owned(), "ts".to_owned()], false)
    );
    assert_eq!(key("site,ts", Some("ts")).unwrap().0, ["site", "ts"]);
    assert_eq!(key("site", Some("")).unwrap().0, ["site"]);
    assert_eq!(key("", None).unwrap().0, ["ts"]);
    assert_eq!(key("place", None).unwrap_err().code(), Code::UndefinedColumn);
    assert_eq!(key("site", Some("meter")).unwrap_err().code(), Code::InvalidParameter);
}

#[test]
fn a_table_needs_a_key_and_columns_of_known_types_unless_it_is_temporary() {
    let numbers = rows(&[("v", DataType::Float64)]);
    assert_eq!(created(&Ingest::default(), &numbers).unwrap_err().code(), Code::InvalidDefinition);
    let temporary = Ingest { is_temporary: true, ..Ingest::default() };
    assert_eq!(created(&temporary, &numbers).unwrap(), "CREATE TEMPORARY TABLE t (v DOUBLE PRECISION)");
    assert!(created(&Ingest::default(), &rows(&[("n", DataType::Null)])).is_err());
}
