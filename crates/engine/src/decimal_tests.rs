use super::*;

#[test]
fn texts_are_rounded_half_away_from_zero() {
    for (text, precision, scale, expected) in [
        ("12.5", 10, 2, "12.50"),
        (" -12.505 ", 10, 2, "-12.51"),
        ("0.004999999999999999999999999999999999", 10, 2, "0.00"),
        ("0.005", 10, 2, "0.01"),
        ("+.5", 3, 0, "1"),
        ("5.", 3, 1, "5.0"),
        ("0.05", 3, 0, "0"),
        ("0.5", 3, 0, "1"),
        ("-0.4", 3, 0, "0"),
        ("1.25e3", 10, 2, "1250.00"),
        ("125e-3", 10, 2, "0.13"),
        ("0e999999999", 5, 2, "0.00"),
        ("1e-999999999", 5, 2, "0.00"),
        ("000000000000000000000000000001", 1, 0, "1"),
        ("999999999999999999", 18, 0, "999999999999999999"),
        ("-0.999999999999999999", 18, 18, "-0.999999999999999999"),
        ("0.0000000000000000004", 18, 18, "0.000000000000000000"),
    ] {
        let parsed = Decimal::parse(text, precision, scale).map(|number| number.to_string());
        assert_eq!(parsed.as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_no_number_or_has_too_many_digits_is_refused() {
    for text in ["", " ", "-", ".", "1.2.3", "1e", "1e1.5", "NaN", "Infinity", "0x1", "1,5", "1_000", "--1", "1 2", "١"]
    {
        assert_eq!(Decimal::parse(text, 18, 2), Err(DecimalError::Malformed), "{text}");
    }
    for (text, precision, scale) in [
        ("1000", 5, 2),
        ("999.995", 5, 2),
        ("-99999", 4, 0),
        ("1e18", 18, 0),
        ("1e999999999", 18, 0),
        ("999999999999999999.5", 18, 0),
        ("9999999999999999999999", 18, 0),
        ("1", 18, 18),
    ] {
        assert_eq!(Decimal::parse(text, precision, scale), Err(DecimalError::OutOfRange), "{text}");
    }
}

#[test]
fn a_number_is_read_with_the_digits_that_it_has() {
    for (text, expected) in [
        ("1.19", Some((119, 2))),
        ("-0.50", Some((-50, 2))),
        ("1e3", Some((1000, 0))),
        ("1.5e-3", Some((15, 4))),
        ("1e18", None),
        ("1e-19", None),
        ("0.1234567890123456789", None),
        ("1e99999999999", None),
        ("x", None),
    ] {
        assert_eq!(Decimal::read(text).map(|number| (number.unscaled, number.scale)), expected, "{text}");
    }
}

#[test]
fn a_scale_changes_only_exactly() {
    let number = |unscaled, scale| Decimal { unscaled, scale };
    assert_eq!(number(150, 2).with_scale(10, 1), Some(number(15, 1)));
    assert_eq!(number(155, 2).with_scale(10, 1), None);
    assert_eq!(number(-15, 1).with_scale(4, 3), Some(number(-1500, 3)));
    assert_eq!(number(-15, 1).with_scale(3, 3), None);
    assert_eq!(number(i64::MAX, 0).with_scale(18, 1), None);
    assert_eq!(number(i64::MIN, 0).with_scale(18, 0), None);
    assert_eq!(number(i64::MIN, 18).to_string(), "-9.223372036854775808");
    assert_eq!(number(-5, 2).to_f64(), -0.05);
}
