//! Runs of a long container whose times do not overlap: compaction does not merge them, and reads put
//! them together.

use super::{Case, Key, text};
use fleetdb_engine::{Batch, Durability, Rows, Value};
use rand::Rng;

/// The share of cases that begin with such runs.
pub const SHARE: f64 = 0.02;
/// Rows of a run: more than a page.
const ROWS: i64 = 4_200;
/// So many runs of one kind would be merged.
const RUNS: i64 = 9;

/// Writes and flushes the runs, not in the order of their times.
pub fn write(case: &mut Case) {
    let device = Some("dev\x001".to_owned());
    let schema = case.db().tables().swap_remove(0);
    for run in 0..RUNS {
        let mut rows = Rows::new(&schema);
        let from = run * 4 % RUNS * ROWS;
        for time in from..from + ROWS {
            let (i, f) = (case.random.random_range(-50..50), case.random.random_range(-1.0..1.0));
            let s = case.random.random_bool(0.5).then(|| "same".to_owned());
            rows.push(&[text(&device), Value::Int(time), Value::Int(i), Value::Float(f), text(&s)]).unwrap();
            let key: Key = (device.clone(), time);
            case.series.insert(key, (Some(i), Some(f), s, None));
        }
        case.db().commit(Batch::new().with_rows(rows).with_durability(Durability::Sync)).unwrap();
        case.db().flush().unwrap();
    }
    case.db().settle().unwrap();
    let segments = case.db().status().segments;
    assert!(segments as i64 >= RUNS, "{segments} segments: runs that do not overlap were merged");
}
