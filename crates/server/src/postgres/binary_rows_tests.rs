use super::*;
use arrow::array::{PrimitiveArray, TimestampNanosecondArray};
use arrow::datatypes::{Field, Schema};
use arrow_pg::datatypes::arrow_schema_to_pg_fields;
use arrow_pg::row_encoder::RowEncoder;
use pgwire::api::portal::Format;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;

const ROWS: usize = 50;

fn fields(batch: &RecordBatch, format: &Format) -> Arc<Vec<FieldInfo>> {
    Arc::new(arrow_schema_to_pg_fields(&batch.schema(), format, None).unwrap())
}

fn batch_of(columns: Vec<ArrayRef>) -> RecordBatch {
    let field = |(place, array): (usize, &ArrayRef)| Field::new(format!("c{place}"), array.data_type().clone(), true);
    let schema = Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

/// A value in two of three rows.
fn some<T>(random: &mut Xoshiro256PlusPlus, mut value: impl FnMut(&mut Xoshiro256PlusPlus) -> T) -> Vec<Option<T>> {
    (0..ROWS).map(|_| (random.random_range(0..3) > 0).then(|| value(random))).collect()
}

/// Times whose counts of a unit are up to `most`, with a zone or without.
fn random_times<T>(random: &mut Xoshiro256PlusPlus, most: i64) -> [ArrayRef; 2]
where
    T: arrow::datatypes::ArrowTimestampType,
{
    let counts: PrimitiveArray<T> = some(random, |random| random.random_range(-most..=most)).into_iter().collect();
    [Arc::new(counts.clone().with_timezone("UTC")), Arc::new(counts)]
}

#[test]
fn rows_are_those_of_arrow_pg() {
    for seed in 0..100 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let random = &mut random;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(BooleanArray::from(some(random, |random| random.random_bool(0.5)))),
            Arc::new(Int16Array::from(some(random, |random| random.random()))),
            Arc::new(Int32Array::from(some(random, |random| random.random()))),
            Arc::new(Int64Array::from(some(random, |random| random.random()))),
            Arc::new(Float32Array::from(some(random, |random| f32::from_bits(random.random())))),
            Arc::new(Float64Array::from(some(random, |random| f64::from_bits(random.random())))),
            Arc::new(StringArray::from(some(random, |random| "ä".repeat(random.random_range(0..40))))),
        ];
        let bytes = some(random, |random| vec![random.random::<u8>(); random.random_range(0..40)]);
        columns.push(Arc::new(bytes.iter().map(Option::as_deref).collect::<BinaryArray>()));
        columns.extend(random_times::<TimestampSecondType>(random, 8_000_000_000_000));
        columns.extend(random_times::<TimestampMillisecondType>(random, 8_000_000_000_000_000));
        columns.extend(random_times::<TimestampMicrosecondType>(random, 8_000_000_000_000_000_000));
        columns.extend(random_times::<TimestampNanosecondType>(random, 8_000_000_000_000_000_000));
        let batch = batch_of(columns).slice(random.random_range(0..5), 40);
        let fields = fields(&batch, &Format::UnifiedBinary);
        let mut rows = BinaryRows::of(&batch, &fields).unwrap();
        let mut expected = RowEncoder::new(batch, fields);
        for row in 0..40 {
            assert_eq!(rows.next_row(), expected.next_row().map(Result::unwrap), "seed {seed}, row {row}");
        }
        assert_eq!(rows.next_row(), None);
    }
}

#[test]
fn other_rows_are_left_to_arrow_pg() {
    let number = batch_of(vec![Arc::new(Int64Array::from(vec![7]))]);
    assert!(BinaryRows::of(&number, &fields(&number, &Format::UnifiedText)).is_none());
    let of_binary = |array: ArrayRef| {
        let batch = batch_of(vec![array]);
        BinaryRows::of(&batch, &fields(&batch, &Format::UnifiedBinary)).is_some()
    };
    assert!(of_binary(Arc::new(TimestampNanosecondArray::from(vec![i64::MAX]))));
    assert!(!of_binary(Arc::new(TimestampNanosecondArray::from(vec![i64::MIN]))));
    assert!(!of_binary(Arc::new(PrimitiveArray::<TimestampSecondType>::from(vec![i64::MAX]))));
    assert!(!of_binary(Arc::new(PrimitiveArray::<TimestampMicrosecondType>::from(vec![i64::MAX]))));
    // NULL may stand in for any value.
    let null = PrimitiveArray::<TimestampSecondType>::new(vec![i64::MAX].into(), Some(vec![false].into()));
    assert!(of_binary(Arc::new(null)));
    assert!(!of_binary(Arc::new(arrow::array::UInt64Array::from(vec![7]))));
}
