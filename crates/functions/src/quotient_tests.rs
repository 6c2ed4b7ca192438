use super::*;

#[test]
fn a_quotient_with_too_many_digits_is_an_error() {
    let array = |value: i128, scale| -> ArrayRef {
        Arc::new(Decimal128Array::from(vec![value]).with_data_type(DataType::Decimal128(38, scale)))
    };
    let args = [array(10_i128.pow(38) - 1, 0), array(1, 30)];
    let to = QUOTIENT.return_type(&[args[0].data_type().clone(), args[1].data_type().clone()]).unwrap();
    assert!(quotients(&args, &to).unwrap_err().to_string().contains("overflow"));
}

#[test]
fn quotients_are_rounded_half_away_from_zero() {
    let of = |left: &[i128], scale: i8, right: &[i128], of_right: i8| -> Vec<i128> {
        let array = |values: &[i128], scale| -> ArrayRef {
            Arc::new(Decimal128Array::from(values.to_vec()).with_data_type(DataType::Decimal128(20, scale)))
        };
        let args = [array(left, scale), array(right, of_right)];
        let to = QUOTIENT.return_type(&[args[0].data_type().clone(), args[1].data_type().clone()]).unwrap();
        let found = quotients(&args, &to).unwrap();
        found.as_primitive::<Decimal128Type>().values().to_vec()
    };
    // 2.00 / 3, -2.00 / 3, 1.00 / 8, with six digits.
    assert_eq!(of(&[200, -200, 200, 100], 2, &[3, 3, -3, 8], 0), [666_667, -666_667, -666_667, 125_000]);
    // 0.00001 / 20000 is half of the last of nine digits.
    assert_eq!(of(&[1, 1, -1], 5, &[20_000, 30_000, 20_000], 0), [1, 0, -1]);
}
