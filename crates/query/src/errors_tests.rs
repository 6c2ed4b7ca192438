use super::*;

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
        assert_eq!(failed.to_string(), format!("invalid input for type bigint: '{value}'"));
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
        (Code::OutOfRange, "300 is out of range for type tinyint".to_owned())
    );
    let date = of(ArrowError::CastError("Cannot cast string 'x' to value of Date32 type".to_owned()));
    assert_eq!(date.code(), Code::InvalidTime);
}
