use super::{Cpu, FIELDS, SEED, TAGS};
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;

fn batches(rows: &mut Cpu, count: usize) -> Vec<RecordBatch> {
    (0..count).map(|_| rows.batch().unwrap()).collect()
}

#[test]
fn a_host_has_the_same_rows_wherever_it_is_made() {
    let all = batches(&mut Cpu::part(SEED, 0..10, 10), 5);
    let part = batches(&mut Cpu::part(SEED, 4..7, 2), 10);
    for epoch in 0..5 {
        let schema = all[epoch].schema();
        let made = concat_batches(&schema, &part[2 * epoch..2 * epoch + 2]).unwrap();
        assert_eq!(made, all[epoch].slice(4, 3));
    }
    assert_ne!(batches(&mut Cpu::part(SEED + 1, 0..10, 10), 1), all[..1]);
}

#[test]
fn parts_go_on_where_the_whole_stood() {
    let (mut whole, mut split) = (Cpu::part(SEED, 0..10, 3), Cpu::part(SEED, 0..10, 3));
    batches(&mut whole, 8);
    batches(&mut split, 8);
    let end_ns = split.end_ns();
    let expected = batches(&mut whole, 4);
    let parts = split.split(3);
    assert_eq!(parts.len(), 2, "four batches of three hosts in parts of two");
    let made: Vec<RecordBatch> = parts.into_iter().flat_map(|mut part| batches(&mut part, 2)).collect();
    assert_eq!(made, expected);
    let times = made[0].column(TAGS.len());
    assert_eq!(times.as_primitive::<arrow::datatypes::TimestampNanosecondType>().value(0), end_ns);
}

/// Compared with the definition; `docs/benchmarks.md` compares with TSBS's own rows.
#[test]
fn walks_have_the_published_steps_and_bounds() {
    let mut rows = Cpu::part(SEED, 0..200, 200);
    let batches = batches(&mut rows, 100);
    let (mut steps, mut squares, mut count) = (0.0, 0.0, 0.0);
    for place in 0..FIELDS.len() {
        let values = |batch: &RecordBatch| batch.column(TAGS.len() + 1 + place).as_primitive::<Int64Type>().clone();
        for pair in batches.windows(2) {
            for (before, after) in values(&pair[0]).values().iter().zip(values(&pair[1]).values()) {
                assert!((0..=100).contains(after));
                // Away from the bounds, where steps are cut off.
                if (10..90).contains(before) {
                    let step = (after - before) as f64;
                    (steps, squares, count) = (steps + step, squares + step * step, count + 1.0);
                }
            }
        }
    }
    let (mean, variance): (f64, f64) = (steps / count, squares / count);
    // N(0, 1) between two truncations. Each truncation adds one twelfth to the variance.
    assert!(mean.abs() < 0.01 && (variance - 7.0 / 6.0).abs() < 0.02, "{mean} {variance}");
}
