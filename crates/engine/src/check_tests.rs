use super::{Comparison, Condition, Operand, Operator, Scalar};
use crate::decimal::Decimal;
use crate::ids::ColumnId;

const A: ColumnId = ColumnId(0);
const B: ColumnId = ColumnId(1);

fn a() -> Operand {
    Operand::Column(A)
}

fn compare(left: Operand, comparison: Comparison, right: Operand) -> Condition {
    Condition::Compare(left, comparison, right)
}

/// Whether a condition holds for the values of `A` and `B`.
fn holds(condition: &Condition, a: Scalar<'static>, b: Scalar<'static>) -> Option<bool> {
    condition.holds(&|column| if column == A { a } else { b })
}

#[test]
fn numbers_of_all_types_compare_exactly() {
    let less = compare(a(), Comparison::Less, Operand::Column(B));
    let decimal = |unscaled, scale| Scalar::Decimal(Decimal { unscaled, scale });
    for (left, right, expected) in [
        (Scalar::Integer(1), Scalar::Integer(2), true),
        (Scalar::Integer(i64::MAX.into()), Scalar::Integer(u64::MAX.into()), true),
        (decimal(149, 2), decimal(15, 1), true),
        (decimal(150, 2), decimal(15, 1), false),
        (Scalar::Integer(1), decimal(101, 2), true),
        (Scalar::Float(0.5), decimal(51, 2), true),
        (Scalar::Float(f64::INFINITY), Scalar::Float(f64::NAN), true),
        (Scalar::Float(f64::NAN), Scalar::Float(f64::NAN), false),
        (Scalar::Bytes(b"a"), Scalar::Bytes(b"b"), true),
        (Scalar::Boolean(false), Scalar::Boolean(true), true),
    ] {
        assert_eq!(holds(&less, left, right), Some(expected), "{left:?} < {right:?}");
    }
    assert_eq!(holds(&less, Scalar::Null, Scalar::Integer(1)), None);
    assert_eq!(holds(&less, Scalar::Bytes(b"1"), Scalar::Integer(2)), None);
}

#[test]
fn null_makes_a_condition_unknown_unless_the_rest_decides() {
    let positive = compare(a(), Comparison::Greater, Operand::Integer(0));
    let of_b = compare(Operand::Column(B), Comparison::Equal, Operand::Integer(1));
    let both = Condition::And(vec![positive.clone(), of_b.clone()]);
    let either = Condition::Or(vec![positive.clone(), of_b]);
    let one = Scalar::Integer(1);
    assert_eq!(holds(&both, Scalar::Null, one), None);
    assert_eq!(holds(&both, Scalar::Null, Scalar::Integer(2)), Some(false));
    assert_eq!(holds(&either, Scalar::Null, one), Some(true));
    assert_eq!(holds(&either, Scalar::Null, Scalar::Integer(2)), None);
    assert_eq!(holds(&Condition::Not(Box::new(positive)), Scalar::Null, one), None);
    assert_eq!(holds(&Condition::IsNull(a()), Scalar::Null, one), Some(true));
    assert_eq!(holds(&Condition::IsTrue(a()), Scalar::Boolean(false), one), Some(false));
}

#[test]
fn arithmetic_is_exact_as_long_as_it_fits() {
    let sum = |operator| Operand::Arithmetic(Box::new(a()), operator, Box::new(Operand::Column(B)));
    let decimal = |unscaled, scale| Scalar::Decimal(Decimal { unscaled, scale });
    let is = |operator, value: Operand| compare(sum(operator), Comparison::Equal, value);
    let cents = Operand::Number { unscaled: 30, scale: 2 };
    assert_eq!(holds(&is(Operator::Add, cents), decimal(1, 1), decimal(20, 2)), Some(true));
    let most = Scalar::Integer(i64::MAX.into());
    let product = is(Operator::Multiply, Operand::Integer(0));
    assert_eq!(holds(&product, most, most), Some(false));
    let huge = compare(sum(Operator::Multiply), Comparison::Greater, Operand::Integer(i64::MAX));
    let number = decimal(999_999_999_999_999_999, 0);
    assert_eq!(holds(&huge, number, number), Some(true));
    assert_eq!(holds(&is(Operator::Subtract, Operand::Integer(0)), Scalar::Null, most), None);
}

#[test]
fn a_condition_is_written_as_sql() {
    let long = compare(Operand::Length(Box::new(a())), Comparison::LessOrEqual, Operand::Integer(3));
    let named = compare(a(), Comparison::NotEqual, Operand::Text("it's".to_owned()));
    let condition = Condition::Or(vec![Condition::And(vec![long, named]), Condition::IsNull(a())]);
    let text = condition.to_sql(&|_| "name".to_owned(), &|_, value| value.to_string());
    assert_eq!(text, "(((length(name) <= 3) AND (name <> 'it''s')) OR (name IS NULL))");
    let umlauts = Scalar::Bytes("äöü".as_bytes());
    assert_eq!(holds(&condition, umlauts, Scalar::Null), Some(true));
    assert_eq!(condition.columns(), [A]);
}
