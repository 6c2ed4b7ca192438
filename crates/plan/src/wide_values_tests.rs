use super::*;
use arrow::array::Int64Array;
use arrow::datatypes::{Field, Schema};
use datafusion::common::ScalarValue;

#[test]
fn batches_are_cut_where_constants_are_long() {
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]));
    let numbers = Int64Array::from_iter_values(0..1_000);
    let batch = RecordBatch::try_new(schema, vec![Arc::new(numbers)]).unwrap();
    let text =
        |bytes: usize| -> Arc<dyn PhysicalExpr> { Arc::new(Literal::new(ScalarValue::Utf8(Some("x".repeat(bytes))))) };
    assert!(!may_be_wide(&text(10)) && may_be_wide(&text(20_000)));
    assert_eq!(cut(batch.clone(), &[text(20_000)]).len(), 1);
    let parts = cut(batch.clone(), &[text(1_000_000), text(1_000_000)]);
    assert_eq!(parts.iter().map(RecordBatch::num_rows).sum::<usize>(), 1_000);
    assert!(parts.iter().all(|part| (1..=2).contains(&part.num_rows())));
    // A single row may exceed the limit.
    assert_eq!(cut(batch, &[text(200 << 20)]).len(), 1_000);
}
