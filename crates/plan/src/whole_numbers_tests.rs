use super::*;
use arrow::array::{Int8Array, Int64Array};
use datafusion::logical_expr::{col, lit};
use fleetdb_engine::{
    Database, ErrorKind, Settings, Value,
    io::{Io, MemoryStorage},
};
use fleetdb_query::Session;

fn session() -> Session {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
    session.sql("CREATE TABLE n (id BIGINT, ts TIMESTAMP, b BIGINT, i INT, PRIMARY KEY (id, ts))").unwrap();
    session.sql("INSERT INTO n VALUES (1, '2026-01-01', 9223372036854775807, 2147483647)").unwrap();
    session
}

#[test]
fn a_name_is_the_one_of_the_operator() {
    let operators = [
        col("a") + lit(1_i64) * col("b"),
        (col("a") - lit(1_i64)) * col("b"),
        Expr::Negative(Box::new(col("a") + col("b"))),
    ];
    let schema = DFSchema::try_from(arrow::datatypes::Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Int64, false),
    ]))
    .unwrap();
    for operator in operators {
        let function = operator.clone().transform_up(|expr| Ok(checked(expr, &schema))).data().unwrap();
        assert!(matches!(function, Expr::ScalarFunction(_)), "{function}");
        assert_eq!(function.schema_name().to_string(), operator.schema_name().to_string());
        assert_eq!(function.get_type(&schema).unwrap(), operator.get_type(&schema).unwrap());
        assert_eq!(function.nullable(&schema).unwrap(), operator.nullable(&schema).unwrap());
    }
}

#[test]
fn values_that_are_null_do_not_overflow() {
    let values = Int64Array::from(vec![Some(-5), None, Some(i64::MAX)]);
    assert_eq!(
        absolute(&values).unwrap().as_primitive::<Int64Type>(),
        &Int64Array::from(vec![Some(5), None, Some(i64::MAX)])
    );
    assert!(absolute(&Int8Array::from(vec![i8::MIN])).is_err());
}

#[test]
fn parameters_overflow_as_literals_do() {
    let session = session();
    for (query, values) in [
        ("SELECT b + $1 FROM n", vec![Value::Int(1)]),
        ("SELECT id FROM n WHERE b * $1 > 0", vec![Value::Int(2)]),
        ("SELECT id FROM n WHERE id = $1::bigint + 1", vec![Value::Int(i64::MAX)]),
        ("SELECT -($1::bigint)", vec![Value::Int(i64::MIN)]),
        ("SELECT sum(b + $1 - $1) + sum(b) FROM n", vec![Value::Int(0)]),
    ] {
        let prepared = session.prepare(query).unwrap();
        let error = prepared.query(&values).map(|rows| format!("{rows:?}")).unwrap_err();
        assert_eq!((error.code(), error.kind()), (Code::OutOfRange, ErrorKind::Input), "{query}: {error}");
        assert!(error.to_string().contains("bigint out of range"), "{query}: {error}");
    }
    let fits = session.prepare("SELECT id FROM n WHERE id = $1::bigint + 1").unwrap();
    assert_eq!(fits.query(&[Value::Int(0)]).unwrap()[0].num_rows(), 1);
}
