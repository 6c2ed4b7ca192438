use super::*;
use arrow::array::Int64Array;
use arrow::datatypes::Field;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;

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

#[test]
fn compared_texts_are_not_repeated() {
    let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Utf8, true)]));
    let input: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::clone(&schema)));
    let long = lit("x".repeat(MIN_LITERAL_BYTES + 1));
    let column = || col("t", &schema).unwrap();
    let values_of = |left: Arc<dyn PhysicalExpr>, op: Operator, right: Arc<dyn PhysicalExpr>| {
        let expr = binary(left, op, right, &schema).unwrap();
        let projection = ProjectionExec::try_new([(expr, "c".to_owned())], Arc::clone(&input)).unwrap();
        wide_values(&(Arc::new(projection) as Arc<dyn ExecutionPlan>)).unwrap().len()
    };
    assert_eq!(values_of(column(), Operator::Eq, Arc::clone(&long)), 0);
    assert_eq!(values_of(Arc::clone(&long), Operator::Lt, column()), 0);
    assert_eq!(values_of(column(), Operator::StringConcat, Arc::clone(&long)), 1);
    let longer = binary(column(), Operator::StringConcat, long, &schema).unwrap();
    assert_eq!(values_of(column(), Operator::Eq, longer), 1);
}
