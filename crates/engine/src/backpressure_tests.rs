use super::*;

#[test]
fn a_merge_waits_for_the_flush_that_runs_unless_there_are_many_runs() {
    let mut queue = Queue::new(Vec::new());
    assert!(!queue.is_flush_first());
    queue.flushing = true;
    queue.runs = HURRY_RUNS - 1;
    assert!(queue.is_flush_first());
    queue.runs = HURRY_RUNS;
    assert!(!queue.is_flush_first() && !queue.is_held_back());
    queue.runs = MAX_RUNS;
    assert!(queue.is_held_back());
}
