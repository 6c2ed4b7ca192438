use super::*;
use arrow::array::{TimestampMicrosecondArray, TimestampSecondArray};
use arrow::datatypes::TimeUnit;

const US: i64 = 1_000_000;

fn seconds(micros: &[i64], rounding: Rounding) -> Vec<i64> {
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(micros.to_vec()));
    let to = DataType::Timestamp(TimeUnit::Second, None);
    let function = Rounded { rounding, to, signature: Signature::any(1, Volatility::Immutable) };
    let rounded = function.round(&times).unwrap();
    rounded.as_any().downcast_ref::<TimestampSecondArray>().unwrap().values().to_vec()
}

#[test]
fn rounds_down_up_and_to_the_nearest() {
    let micros = [-US - 1, -US, -1, 0, 1, US - 1, US];
    assert_eq!(seconds(&micros, Rounding::Down), [-2, -1, -1, 0, 0, 0, 1]);
    assert_eq!(seconds(&micros, Rounding::Up), [-1, -1, 0, 0, 1, 1, 1]);
    assert_eq!(seconds(&micros, Rounding::Nearest), [-1, -1, 0, 0, 0, 1, 1]);
}

#[test]
fn ties_go_away_from_2000_as_in_postgres() {
    let at_2000 = YEAR_2000_SECONDS * US;
    let micros = [at_2000 - US / 2 - 1, at_2000 - US / 2, at_2000, at_2000 + US / 2, at_2000 + US / 2 - 1];
    let expected = [-1, -1, 0, 1, 0].map(|seconds| YEAR_2000_SECONDS + seconds);
    assert_eq!(seconds(&micros, Rounding::Nearest), expected);
}
