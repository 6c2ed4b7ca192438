use super::{Limit, Watch, Worker, drive};
use crate::Outcome;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A worker with a given number of operations. The first one is slow, and one may fail.
struct Counted {
    left: u64,
    first: Duration,
    fails_at: Option<u64>,
}

impl Worker for Counted {
    fn prepare(&mut self) -> Outcome<bool> {
        Ok(self.left > 0)
    }

    fn operate(&mut self) -> Outcome<u64> {
        std::thread::sleep(std::mem::take(&mut self.first));
        self.left -= 1;
        if self.fails_at == Some(self.left) { Err("broken".into()) } else { Ok(3) }
    }
}

fn counted(left: u64) -> Counted {
    Counted { left, first: Duration::ZERO, fails_at: None }
}

#[test]
fn a_closed_loop_runs_until_nothing_is_left() {
    let watch = Watch::default();
    let driven = drive(&mut [counted(5), counted(7)], Limit::default(), &watch).unwrap();
    assert_eq!((driven.operations, driven.rows), (12, 36));
    assert_eq!((watch.operations.load(Ordering::Relaxed), driven.rows_by_second.iter().sum::<u64>()), (12, 36));
}

#[test]
fn an_open_loop_counts_from_when_an_operation_was_due() {
    // Twenty operations, one every 10 ms. The first takes 150 ms, so the ones due meanwhile are
    // late as well.
    let slow = Counted { left: 20, first: Duration::from_millis(150), fails_at: None };
    let limit = Limit { time: None, rate: Some(100.0) };
    let driven = drive(&mut [slow], limit, &Watch::default()).unwrap();
    assert_eq!(driven.operations, 20);
    assert!(driven.seconds >= 0.19, "the twentieth is due after 190 ms: {}", driven.seconds);
    assert!(driven.latency.p50_us >= 40_000.0, "half of them waited: {:?}", driven.latency);
    let closed = Counted { left: 20, first: Duration::from_millis(150), fails_at: None };
    let closed = drive(&mut [closed], Limit::default(), &Watch::default()).unwrap();
    assert!(closed.latency.p50_us < 40_000.0, "a closed loop does not see it: {:?}", closed.latency);
}

#[test]
fn the_rate_of_an_open_loop_is_the_given_one() {
    let limit = Limit { time: Some(Duration::from_millis(500)), rate: Some(2_000.0) };
    let driven = drive(&mut [counted(u64::MAX), counted(u64::MAX)], limit, &Watch::default()).unwrap();
    assert_eq!(driven.operations, 1_000, "every operation that was due in half a second");
}

#[test]
fn one_that_fails_ends_all_and_is_named() {
    let broken = Counted { left: 10, first: Duration::ZERO, fails_at: Some(4) };
    let error = drive(&mut [counted(u64::MAX), broken], Limit::default(), &Watch::default()).unwrap_err();
    assert_eq!(error.to_string(), "broken");
    let stopped = Watch::default();
    stopped.stop.store(true, Ordering::Relaxed);
    assert_eq!(drive(&mut [counted(5)], Limit::default(), &stopped).unwrap().operations, 0);
}

#[test]
fn an_open_loop_that_falls_behind_gives_up_after_twice_its_time() {
    let slow = Counted { left: u64::MAX, first: Duration::from_millis(300), fails_at: None };
    let limit = Limit { time: Some(Duration::from_millis(100)), rate: Some(100.0) };
    assert_eq!(drive(&mut [slow], limit, &Watch::default()).unwrap().operations, 1);
}
