use super::*;
use arrow::array::{Int64Array, StringArray};
use datafusion::common::ScalarValue;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_query::Session;

/// The output size of a call over all rows.
fn bytes(row_bytes: RowBytes, args: &[ColumnarValue], rows: usize) -> Result<f64> {
    Ok(row_sizes(row_bytes, args, rows)?.into_iter().sum())
}

fn row_bytes(name: &str) -> RowBytes {
    FUNCTIONS.iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn what_is_asked_for_is_no_less_than_what_is_made_and_not_much_more() {
    let session = Session::new(
        Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap().into(),
        fleetdb_query::Plain::new(),
    )
    .unwrap();
    let number = |query: &str| {
        let rows = session.prepare(query).unwrap().query(&[]).unwrap();
        cast(rows[0].column(0), &DataType::Float64).unwrap().as_primitive::<Float64Type>().value(0)
    };
    let value = |expr: &str| {
        let rows = session.prepare(&format!("SELECT {expr}")).unwrap().query(&[]).unwrap();
        ColumnarValue::Scalar(ScalarValue::try_from_array(rows[0].column(0), 0).unwrap())
    };
    for (name, args) in [
        ("repeat", vec!["'äb'", "500"]),
        ("lpad", vec!["'äb'", "500", "'äö'"]),
        ("rpad", vec!["'äb'", "500", "'ä'"]),
        ("lpad", vec!["'ab'", "500", "'c'"]),
        ("upper", vec!["'ΐΐΐΐΐΐΐΐ'"]),
        ("lower", vec!["'İİİİİİİİ'"]),
        ("initcap", vec!["'äb ŉ'"]),
        ("overlay", vec!["'äbc'", "'öööööööö'", "2"]),
        ("translate", vec!["'abcabc'", "'abc'", "'äöü'"]),
        ("encode", vec!["'äbcdefg'::bytea", "'hex'"]),
        ("replace", vec!["'äbbbbbbb'", "'b'", "'cccccccccccccccccccccccc'"]),
        ("replace", vec!["'äb'", "''", "'cccccccccccccccccccccccc'"]),
        ("regexp_replace", vec!["'aaaaaaaa'", "'a'", "'cccccccccccccccccccccccc'", "'g'"]),
        ("regexp_replace", vec!["'aaaaaaaa'", "'a'", "'cccccccccccccccccccccccc'"]),
        ("concat", vec!["'äb'", "'cd'", "'efg'"]),
        ("concat_ws", vec!["', '", "'äb'", "'cd'"]),
        ("array_to_string", vec!["range(0, 100)", "' and '"]),
    ] {
        let made = number(&format!("SELECT octet_length({name}({}))", args.join(", ")));
        let args: Vec<_> = args.into_iter().map(value).collect();
        let asked = bytes(row_bytes(name), &args, 1).unwrap();
        assert!(made <= asked && asked <= 9.0 * made + 100.0, "{name} makes {made} bytes and asks for {asked}");
    }
    for (name, args) in [
        ("array_repeat", vec!["CAST(7 AS BIGINT)", "500"]),
        ("array_resize", vec!["range(0, 10)", "500", "CAST(7 AS BIGINT)"]),
        ("range", vec!["500"]),
        ("range", vec!["-500", "500", "3"]),
        ("range", vec!["500", "-500", "-3"]),
        ("range", vec!["DATE '2026-01-01'", "DATE '2026-12-31'", "INTERVAL '1 day'"]),
        ("generate_series", vec!["TIMESTAMP '2000-01-01'", "TIMESTAMP '2026-01-01'", "INTERVAL '1 month'"]),
        ("generate_series", vec!["TIMESTAMP(0) '2026-01-01'", "TIMESTAMP(0) '2026-01-02'", "INTERVAL '1 minute'"]),
    ] {
        let made = 8.0 * number(&format!("SELECT cardinality({name}({}))", args.join(", ")));
        let args: Vec<_> = args.into_iter().map(value).collect();
        let asked = bytes(row_bytes(name), &args, 1).unwrap();
        assert!(made <= asked + 8.0 && asked <= 3.0 * made, "{name} makes {made} bytes and asks for {asked}");
    }
}

#[test]
fn rows_are_added_up_and_what_is_no_count_is_nothing() {
    let texts = ColumnarValue::Array(Arc::new(StringArray::from(vec![Some("a"), Some("bb"), None, Some("c")])));
    let counts = ColumnarValue::Array(Arc::new(Int64Array::from(vec![Some(3), Some(2), Some(9), Some(-5)])));
    assert_eq!(bytes(row_bytes("repeat"), &[texts.clone(), counts], 4).unwrap(), 7.0);
    let twice = ColumnarValue::Scalar(ScalarValue::Int64(Some(2)));
    assert_eq!(bytes(row_bytes("repeat"), &[texts.clone(), twice], 4).unwrap(), 8.0);
    let none = ColumnarValue::Scalar(ScalarValue::Int64(None));
    assert_eq!(bytes(row_bytes("repeat"), &[texts, none], 4).unwrap(), 0.0);
    assert_eq!(bytes(row_bytes("range"), &[], 1).unwrap(), 0.0);
}

#[test]
fn texts_too_long_for_an_array_are_refused_and_estimates_are_not() {
    let memory = Arc::new(datafusion::execution::memory_pool::UnboundedMemoryPool::default());
    let made = Arc::new(FunctionMemory::new(&(memory as Arc<dyn datafusion::execution::memory_pool::MemoryPool>)));
    let context = SessionContext::new();
    crate::register(&context, &made).unwrap();
    let texts = |name: &str, args: Vec<ColumnarValue>| {
        let number_rows = 4;
        let field = |data_type| Arc::new(arrow::datatypes::Field::new("x", data_type, true));
        let args = ScalarFunctionArgs {
            arg_fields: args.iter().map(|arg| field(arg.data_type())).collect(),
            args,
            number_rows,
            return_field: field(DataType::Utf8),
            config_options: Arc::default(),
        };
        let made = context.udf(name).unwrap().invoke_with_args(args)?.into_array(number_rows)?;
        let made = cast(&made, &DataType::Utf8)?;
        Ok::<_, datafusion::error::DataFusionError>(made.as_string::<i32>().iter().flatten().map(str::len).collect())
    };
    let each = |text: &str| ColumnarValue::Array(Arc::new(StringArray::from(vec![text; 4])));
    let same = |text: &str| ColumnarValue::Scalar(ScalarValue::from(text));
    let often = ColumnarValue::Scalar(ScalarValue::Int64(Some(600_000_000)));
    let refused: Result<Vec<usize>> = texts("repeat", vec![each("x"), often]);
    let refused = crate::errors::engine_error(refused.unwrap_err());
    assert_eq!(refused.code(), fleetdb_engine::Code::LimitExceeded, "{refused}");
    // It would be 4 GiB if the letter were everywhere.
    let long = "x".repeat(1_000);
    let few = texts("replace", vec![each(&long), same("y"), same(&"z".repeat(1_200_000))]).unwrap();
    assert_eq!(few, [1_000; 4]);
}
