use super::Arrivals;
use crate::workload::cpu::{Cpu, TAGS};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampNanosecondType;
use std::collections::{BTreeMap, BTreeSet};

const EPOCHS: usize = 3_000;

fn sent(seed: u64) -> (Vec<RecordBatch>, u64) {
    let mut late = Arrivals::late(seed, Cpu::part(seed, 0..200, 100));
    let batches = (0..2 * EPOCHS).map(|_| late.batch().unwrap()).collect();
    (batches, late.repeated())
}

/// The times of each host, in order of arrival.
fn times(batches: &[RecordBatch]) -> BTreeMap<String, Vec<i64>> {
    let mut times: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for batch in batches {
        let hosts = batch.column(0).as_string::<i32>();
        let stamps = batch.column(TAGS.len()).as_primitive::<TimestampNanosecondType>();
        for row in 0..batch.num_rows() {
            times.entry(hosts.value(row).to_owned()).or_default().push(stamps.value(row));
        }
    }
    times
}

#[test]
fn rows_come_late_twice_and_at_wrong_times_and_none_is_another() {
    let (batches, repeated) = sent(7);
    let times = times(&batches);
    let start = crate::workload::cpu::START_NS;
    let mut all_repeated = 0;
    let mut wrong_clocks = 0;
    for (host, times) in &times {
        let known: BTreeSet<i64> = times.iter().copied().collect();
        all_repeated += times.len() - known.len();
        let first = *known.first().unwrap();
        wrong_clocks += usize::from(first != start);
        // No gap after its first row: rows that were kept are sent in the end.
        assert!(known.iter().copied().eq((0..known.len() as i64).map(|step| first + step * 10_000_000_000)), "{host}");
    }
    assert_eq!(all_repeated as u64, repeated);
    assert!(repeated > 0 && (1..40).contains(&wrong_clocks), "{repeated} {wrong_clocks}");
    // The largest batch holds days of several devices; other batches lack rows of some devices.
    let most = batches.iter().map(RecordBatch::num_rows).max().unwrap();
    assert!(most > 1_000 && batches.iter().any(|batch| batch.num_rows() < 100), "{most}");
    assert!(times.values().any(|times| times.len() < EPOCHS), "one is offline still");
}

#[test]
fn the_same_seed_is_late_in_the_same_way() {
    assert_eq!(sent(7), sent(7));
    assert_ne!(sent(7).1, sent(8).1);
}
