//! The totals of time buckets are those of their rows.

use super::{Key, Row, text};
use fleetdb_engine::{BucketTotals, ColumnSum, ColumnTotals, ScanRequest, TableView, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Checks the totals of all fields that are numbers, in buckets of `width` seconds.
pub fn check(table: &TableView, request: &ScanRequest, width: i64, extremes: bool, expected: &[(Key, Row)]) {
    let columns = ["i", "f", "extra"].iter().filter_map(|name| table.schema().column_index(name).ok()).collect();
    let bucket_of = move |time: i64| {
        let start = time - time.rem_euclid(width);
        Ok(start..start + width)
    };
    let totals = BucketTotals { columns, extremes, bucket_of: Arc::new(bucket_of) };
    let mut groups: BTreeMap<Key, (i64, i64, Vec<&Row>)> = BTreeMap::new();
    for ((device, time), row) in expected {
        let group = groups.entry((device.clone(), time - time.rem_euclid(width))).or_insert((*time, *time, Vec::new()));
        group.1 = *time;
        group.2.push(row);
    }
    let found: Vec<_> = table.buckets(request, &totals).unwrap().flat_map(Result::unwrap).collect();
    assert_eq!(found.len(), groups.len(), "groups");
    for (found, ((device, bucket), (first, last, rows))) in found.iter().zip(groups) {
        assert_eq!((&found.key, found.bucket), (&vec![text(&device)], Some(bucket)));
        assert_eq!((found.rows, found.times), (rows.len() as u64, (first, last)), "{device:?} {bucket}");
        let integers: Vec<i64> = rows.iter().filter_map(|row| row.0).collect();
        check_integers(&found.amounts[0], extremes, &integers);
        let floats: Vec<f64> = rows.iter().filter_map(|row| row.1).collect();
        let totals = &found.amounts[1];
        let ColumnSum::Float(sum) = totals.sum else { panic!("the sum of floats is no float") };
        assert_eq!(totals.count, floats.len() as u64);
        assert!((sum - floats.iter().sum::<f64>()).abs() < 1e-6, "{sum} of {floats:?}");
        let extreme = |value: Option<f64>| value.filter(|_| extremes).map_or(Value::Null, Value::Float);
        assert_eq!(totals.min, extreme(floats.iter().copied().reduce(f64::min)));
        assert_eq!(totals.max, extreme(floats.iter().copied().reduce(f64::max)));
        if let Some(totals) = found.amounts.get(2) {
            let extra: Vec<i64> = rows.iter().filter_map(|row| row.3).collect();
            // An integer, or a decimal number with an integer's value.
            let sum = match totals.sum {
                ColumnSum::Decimal { unscaled, scale } => unscaled / 10i128.pow(u32::from(scale)),
                ColumnSum::Integer(sum) => sum,
                ColumnSum::Float(sum) => sum as i128,
            };
            assert_eq!((totals.count, sum), (extra.len() as u64, extra.iter().map(|value| i128::from(*value)).sum()));
        }
    }
}

fn check_integers(found: &ColumnTotals, extremes: bool, values: &[i64]) {
    let extreme = |value: Option<&i64>| value.filter(|_| extremes).map_or(Value::Null, |value| Value::Int(*value));
    assert_eq!(found.count, values.len() as u64);
    assert_eq!(found.sum, ColumnSum::Integer(values.iter().map(|value| i128::from(*value)).sum()));
    assert_eq!((&found.min, &found.max), (&extreme(values.iter().min()), &extreme(values.iter().max())));
}
