use super::*;
use arrow::array::Int64Array;
use std::sync::Arc;

#[test]
fn runs_are_those_of_arrow() {
    let names = ["a", "b", "truck", "trucl", "", "ä"];
    for run in [1, 2, 3, 200, 255, 256, 257, 5000] {
        for rows in [1, 2, 256, 257, 258, 1000] {
            let name = |row: usize| names[row / run % names.len()];
            let text: ArrayRef = Arc::new((0..rows).map(|row| Some(name(row))).collect::<StringArray>());
            let with_nulls: ArrayRef =
                Arc::new((0..rows).map(|row| (row % 300 > 100).then(|| name(row))).collect::<StringArray>());
            let numbers: ArrayRef = Arc::new((0..rows as i64).map(|row| row / 77).collect::<Int64Array>());
            for columns in [
                vec![Arc::clone(&text)],
                vec![text.slice(rows / 3, rows - rows / 3)],
                vec![Arc::clone(&numbers), Arc::clone(&text)],
                vec![text, with_nulls, numbers],
            ] {
                assert_eq!(runs(&columns).unwrap(), partition(&columns).unwrap().ranges(), "{run} {rows}");
            }
        }
    }
}
