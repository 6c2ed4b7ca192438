use super::*;
use arrow::array::{Int64Array, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An arm that gives its number once as many arms have been polled as there are.
fn arm(number: i64, arms: usize, polled: &Arc<AtomicUsize>) -> Arm {
    let schema = Arc::new(Schema::new(vec![Field::new("arm", DataType::Int64, false)]));
    let (polled, of_rows) = (Arc::clone(polled), Arc::clone(&schema));
    let (mut is_polled, mut is_done) = (false, false);
    let rows = poll_fn(move |_| {
        if !std::mem::replace(&mut is_polled, true) {
            polled.fetch_add(1, Ordering::Relaxed);
        }
        if polled.load(Ordering::Relaxed) < arms {
            return Poll::Pending;
        }
        let column = Arc::new(Int64Array::from(vec![number]));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&of_rows), vec![column], &RecordBatchOptions::new());
        Poll::Ready((!std::mem::replace(&mut is_done, true)).then(|| Ok(batch.unwrap())))
    });
    Arm { rows: Box::pin(RecordBatchStreamAdapter::new(schema, rows)), ahead: None }
}

#[test]
fn arms_that_wait_for_each_other_are_read_in_order() {
    let polled = Arc::default();
    let mut arms: VecDeque<Arm> = (0..3).map(|number| arm(number, 3, &polled)).collect();
    let mut found = Vec::new();
    // Nobody wakes the reader, so it is asked a few times.
    for _ in 0..10 {
        match next_of(&mut arms, &mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(Some(rows)) => {
                let rows = rows.unwrap();
                found.push(rows.column(0).as_any().downcast_ref::<Int64Array>().unwrap().value(0));
            }
            Poll::Ready(None) => break,
            Poll::Pending => {}
        }
    }
    assert_eq!((found, arms.len()), (vec![0, 1, 2], 0));
}
