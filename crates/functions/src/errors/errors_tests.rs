use super::syntax::place_of;
use super::values::cast_error;
use super::*;
use arrow::datatypes::{DataType, Field, TimeUnit};
use types::{name_of, names_of, operation, sql_name};

#[test]
fn the_place_is_what_the_parser_says_at_the_end_of_its_message() {
    let at = |line, column| Some(TextPosition::At { line, column });
    assert_eq!(place_of("Expected: a value, found: nope at Line: 2, Column: 3"), at(2, 3));
    assert_eq!(place_of("Unterminated string literal at Line: 1, Column: 8"), at(1, 8));
    assert_eq!(place_of("Expected: an expression, found: EOF"), Some(TextPosition::End));
    for without in ["", "at Line", " at Line: x, Column: 1", " at Line: 1, Column: 99999999999999999999"] {
        assert_eq!(place_of(without), None, "{without}");
    }
}

#[test]
fn a_code_does_not_depend_on_what_users_write() {
    for value in ["not found", "cancelled", "the most is ", "' to value of Date32 type", "is NULL"] {
        let failed = cast_error(&format!("Cannot cast string '{value}' to value of Int64 type"));
        assert_eq!(failed.code(), Code::InvalidText, "{value}");
        assert_eq!(failed.to_string(), format!("invalid input syntax for type bigint: \"{value}\""));
    }
    let no_table = engine_error(DataFusionError::Plan("table 'fleetdb.public.is NULL' not found".to_owned()));
    assert_eq!(no_table.code(), Code::UndefinedTable);
    let conflict = Error::new(Code::Conflict, "another transaction has changed rows of table 'cancelled_orders'");
    let through = engine_error(DataFusionError::from(ArrowError::ExternalError(Box::new(query_error(conflict)))));
    assert_eq!(through.code(), Code::Conflict);
}

#[test]
fn casts_and_arithmetic_have_the_codes_of_their_variants() {
    let of = |error: ArrowError| engine_error(DataFusionError::from(error));
    assert_eq!(of(ArrowError::DivideByZero).code(), Code::DivisionByZero);
    let overflow = of(ArrowError::ArithmeticOverflow("Overflow happened on: 1 + 9223372036854775807".to_owned()));
    assert_eq!(overflow.code(), Code::OutOfRange);
    let large = of(ArrowError::CastError("Can't cast value 300 to type Int8".to_owned()));
    assert_eq!(
        (large.code(), large.to_string()),
        (Code::OutOfRange, "value \"300\" is out of range for type tinyint".to_owned())
    );
    let date = of(ArrowError::CastError("Cannot cast string 'x' to value of Date32 type".to_owned()));
    assert_eq!(date.code(), Code::InvalidTime);
}

#[test]
fn a_time_that_is_none_and_one_that_is_out_of_range_have_two_codes() {
    let code = |value: &str| cast_error(&format!("Cannot cast string '{value}' to value of Date32 type")).code();
    assert_eq!(code("2026-02-30"), Code::TimeOutOfRange);
    for none in ["soon", "", "2026", "20x6-01-01"] {
        assert_eq!(code(none), Code::InvalidTime, "{none}");
    }
    let whole = |value: &str| cast_error(&format!("Cannot cast string '{value}' to value of Int64 type")).code();
    assert_eq!((whole("99999999999999999999"), whole("12x"), whole("-")), {
        (Code::OutOfRange, Code::InvalidText, Code::InvalidText)
    });
}

#[test]
fn every_type_of_arrow_is_read_from_its_text() {
    let utc = Some("+00:00".into());
    for (data_type, name) in [
        (DataType::Utf8, "text"),
        (DataType::Float64, "double precision"),
        (DataType::Decimal128(38, 10), "numeric"),
        (DataType::Timestamp(TimeUnit::Nanosecond, None), "timestamp without time zone"),
        (DataType::Timestamp(TimeUnit::Microsecond, utc), "timestamp with time zone"),
        (DataType::List(Field::new("item", DataType::Int64, true).into()), "bigint[]"),
        (DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano), "interval"),
        (DataType::Null, "unknown"),
    ] {
        assert_eq!(sql_name(&data_type), name);
        assert_eq!(name_of(&data_type.to_string()), name, "{data_type}");
    }
    assert_eq!(names_of("Utf8, Decimal128(5, 2), Int64"), ["text", "numeric", "bigint"]);
    assert!(names_of("").is_empty());
    let sides = operation("Timestamp(ns) IS NOT DISTINCT FROM Decimal128(5, 2)");
    let (left, operator, right) = sides.unwrap();
    assert_eq!((&*left, operator, &*right), ("timestamp without time zone", "IS NOT DISTINCT FROM", "numeric"));
}

#[test]
fn sentences_of_the_planner_are_in_words_of_sql() {
    let planned = |sentence: &str| {
        let error = engine_error(DataFusionError::Plan(sentence.to_owned()));
        (error.code(), error.to_string())
    };
    let is = |code: Code, words: &str| (code, words.to_owned());
    assert_eq!(
        planned("table 'fleetdb.public.nowhere' not found"),
        is(Code::UndefinedTable, "relation \"nowhere\" does not exist")
    );
    assert_eq!(
        planned(
            "Function 'abs' expects Numeric but received String. No function matches the given name and argument \
                 types 'abs(Utf8, Decimal128(5, 2))'. You might need to add explicit type \
                 casts.\n\tCandidate functions:"
        ),
        is(Code::UndefinedFunction, "function abs(text, numeric) does not exist")
    );
    assert_eq!(
        planned("Cannot coerce arithmetic expression Utf8 + Int64 to valid types"),
        is(Code::UndefinedFunction, "operator does not exist: text + bigint")
    );
    assert_eq!(planned("Unsupported SQL type NOPE"), is(Code::UndefinedObject, "type \"NOPE\" does not exist"));
    assert_eq!(planned("Unsupported SQL type JSONB"), is(Code::NotSupported, "type jsonb is not supported"));
    let internal = "Function 'date_part' failed to match any signature, errors: Error during planning: ...";
    let error = engine_error(DataFusionError::Internal(internal.to_owned()));
    assert_eq!(error.code(), Code::UndefinedFunction);
    assert_eq!(engine_error(DataFusionError::Internal("assertion failed".to_owned())).code(), Code::Bug);
}

#[test]
fn a_function_is_suggested_only_if_its_name_is_close() {
    let hint = |sentence: &str| engine_error(DataFusionError::Plan(sentence.to_owned())).hint().map(str::to_owned);
    assert_eq!(hint("Invalid function 'mode'.\nDid you mean 'md5'?"), None);
    assert_eq!(
        hint("Invalid function 'upperr'.\nDid you mean 'upper'?").as_deref(),
        Some("Perhaps you meant the function \"upper\".")
    );
}

#[test]
fn a_message_lists_no_more_columns_than_somebody_reads() {
    let valid_fields = (0..50).map(|column| Column::from_name(format!("measured_{column}"))).collect();
    let field = Box::new(Column::from_name("nope"));
    let error =
        DataFusionError::SchemaError(Box::new(SchemaError::FieldNotFound { field, valid_fields }), Box::new(None));
    let error = engine_error(error);
    assert_eq!(error.to_string(), "column \"nope\" does not exist");
    let hint = error.hint().unwrap();
    assert!(hint.ends_with("measured_19 and 30 more."), "{hint}");
}

#[test]
fn syntax_errors_say_what_is_there_and_what_could_be() {
    let error = syntax_error(ParserError::ParserError(
        "Expected: an expression, found: FROM at Line: 1, Column: 14".to_owned(),
    ));
    assert_eq!(error.to_string(), "syntax error at or near \"FROM\"");
    assert_eq!(error.hint(), Some("Expected here: an expression."));
    assert_eq!(error.position(), Some(TextPosition::At { line: 1, column: 14 }));
    let end = syntax_error(ParserError::ParserError("Expected: ), found: EOF".to_owned()));
    assert_eq!((end.to_string().as_str(), end.position()), ("syntax error at end of input", Some(TextPosition::End)));
}
