use super::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Totals that are equal also where they are NaN, and where sums were rounded differently.
fn assert_same(found: &Amounts, wanted: &Amounts, extremes: bool, column_type: ColumnType) {
    assert_eq!(found.count, wanted.count, "{column_type}");
    if extremes {
        assert_eq!((found.least, found.most), (wanted.least, wanted.most), "{column_type}");
    }
    match (found.sum, wanted.sum) {
        (Sum::Float(found), Sum::Float(wanted)) => {
            let is_near = (found - wanted).abs() <= 1e-9 * wanted.abs().max(1.0);
            assert!(is_near || found == wanted || found.is_nan() && wanted.is_nan(), "{found} {wanted}");
        }
        (found, wanted) => assert_eq!(found, wanted, "{column_type}"),
    }
}

#[test]
fn values_added_at_once_have_the_totals_of_values_added_one_by_one() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let floats = [0.0, -0.0, 1.5, -2.25, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for round in 0..2_000 {
        // Ordinary floats only, in half of the rounds.
        let kinds = if round % 2 == 0 { 5 } else { floats.len() };
        for column_type in [ColumnType::Int64, ColumnType::UInt64, ColumnType::Float64, ColumnType::Float32] {
            let mut raw = || match column_type {
                ColumnType::Float64 => floats[random.random_range(0..kinds)].to_bits(),
                ColumnType::Float32 => u64::from((floats[random.random_range(0..kinds)] as f32).to_bits()),
                _ => random.random::<u64>() >> random.random_range(0..64),
            };
            let (first, second): (Vec<u64>, Vec<u64>) =
                ((0..round % 9).map(|_| raw()).collect(), (0..3).map(|_| raw()).collect());
            let mut wanted = Amounts::none(column_type);
            first.iter().chain(&second).for_each(|&raw| wanted.add(raw, column_type));
            for extremes in [true, false] {
                let mut found = Amounts::none(column_type);
                found.add_all(&first, 0, extremes, column_type);
                found.add_all(&second, 0, extremes, column_type);
                assert_same(&found, &wanted, extremes, column_type);
            }
        }
    }
}

#[test]
fn null_counts_for_nothing() {
    let mut found = Amounts::none(ColumnType::Int64);
    found.add_all(&[0, 5, 0, -7i64 as u64], 2, false, ColumnType::Int64);
    assert_eq!((found.count, found.sum), (2, Sum::Integer(-2)));
}
