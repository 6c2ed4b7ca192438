#![allow(clippy::disallowed_methods, reason = "threads of a test")]

use super::*;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// A copy whose newest part is elsewhere if it is `old`.
#[derive(Default)]
struct Copy {
    is_old: AtomicBool,
}

impl LogCopy for Copy {
    fn wake(&self) {}

    fn check_newest(&self) -> Result<()> {
        if self.is_old.load(Ordering::Relaxed) { Err(Error::retry("old")) } else { Ok(()) }
    }
}

fn sharing() -> Arc<Sharing> {
    Arc::new(Sharing::new(Sequence(5), Sequence(5), Arc::new(Copy::default())))
}

fn waiter(sharing: &Sharing, sequence: u64) -> Receiver<Result<()>> {
    let (send, receive) = channel();
    sharing.wait(Sequence(sequence), 0, Box::new(move |outcome| send.send(outcome).unwrap()));
    receive
}

/// A reader that has seen batches up to this one, on a thread of its own.
fn reader(sharing: &Arc<Sharing>, seen: u64) -> JoinHandle<Result<()>> {
    let sharing = Arc::clone(sharing);
    std::thread::spawn(move || sharing.wait_to_show(Sequence(seen), &|| Ok(())))
}

#[test]
fn a_batch_is_done_once_it_is_shared() {
    let sharing = sharing();
    waiter(&sharing, 5).try_recv().unwrap().unwrap();
    let (seven, eight) = (waiter(&sharing, 7), waiter(&sharing, 8));
    sharing.advance(Sequence(6), 0);
    seven.try_recv().unwrap_err();
    sharing.advance(Sequence(7), 0);
    seven.try_recv().unwrap().unwrap();
    eight.try_recv().unwrap_err();
}

#[test]
fn after_a_failure_nothing_is_done_any_more() {
    let sharing = sharing();
    let waiting = waiter(&sharing, 7);
    sharing.fail(&Error::closed("fenced"));
    assert_eq!(waiting.try_recv().unwrap().unwrap_err().code(), Code::Closed);
    sharing.advance(Sequence(9), 9);
    assert_eq!(waiter(&sharing, 8).try_recv().unwrap().unwrap_err().code(), Code::Closed);
    assert_eq!(sharing.wait_for_definitions(1).unwrap_err().code(), Code::Closed);
}

#[test]
fn definitions_are_waited_for() {
    let sharing = sharing();
    sharing.wait_for_definitions(0).unwrap();
    let other = Arc::clone(&sharing);
    let waiting = std::thread::spawn(move || other.wait_for_definitions(2));
    sharing.advance(Sequence(5), 1);
    sharing.advance(Sequence(5), 2);
    waiting.join().unwrap().unwrap();
}

#[test]
fn a_reader_waits_for_what_it_saw() {
    let copy = Arc::new(Copy::default());
    let sharing = Arc::new(Sharing::new(Sequence(5), Sequence(5), Arc::clone(&copy) as Arc<dyn LogCopy>));
    sharing.ask(Sequence(7));
    sharing.wait_to_show(Sequence(5), &|| Ok(())).unwrap();
    let waiting = reader(&sharing, 9);
    sharing.advance(Sequence(6), 0);
    assert!(!waiting.is_finished());
    sharing.advance(Sequence(7), 0);
    waiting.join().unwrap().unwrap();
    sharing.ask_definitions(1);
    let waiting = reader(&sharing, 9);
    sharing.advance(Sequence(7), 1);
    waiting.join().unwrap().unwrap();
    // Nobody waits whose statement is over, or where others may answer.
    sharing.ask(Sequence(8));
    let cancelled = || Err(Error::new(Code::Cancelled, "it was cancelled"));
    assert_eq!(sharing.wait_to_show(Sequence(9), &cancelled).unwrap_err().code(), Code::Cancelled);
    let waiting = reader(&sharing, 9);
    copy.is_old.store(true, Ordering::Relaxed);
    waiting.join().unwrap().unwrap_err();
    sharing.wait_to_show(Sequence(7), &|| Ok(())).unwrap_err();
}

#[test]
fn who_has_only_read_waits_for_what_it_read() {
    let sharing = sharing();
    sharing.ask(Sequence(7));
    let (send, receive) = channel();
    sharing.confirm(Sequence(9), 0, Box::new(move |outcome| send.send(outcome).unwrap()));
    let six = waiter(&sharing, 6);
    sharing.advance(Sequence(6), 0);
    six.try_recv().unwrap().unwrap();
    receive.try_recv().unwrap_err();
    sharing.advance(Sequence(7), 0);
    receive.try_recv().unwrap().unwrap();
}

#[test]
fn nobody_waits_for_ever() {
    let sharing = sharing();
    let (seven, eight) = (waiter(&sharing, 7), waiter(&sharing, 8));
    sharing.advance(Sequence(7), 0);
    seven.try_recv().unwrap().unwrap();
    sharing.expire(MAX_WAIT.as_nanos() as u64 - 1);
    eight.try_recv().unwrap_err();
    sharing.expire(MAX_WAIT.as_nanos() as u64);
    assert_eq!(eight.try_recv().unwrap().unwrap_err().code(), Code::Busy);
}

#[test]
fn what_a_reopened_database_has_is_not_shown_before_it_is_shared() {
    let sharing = Arc::new(Sharing::new(Sequence(0), Sequence(5), Arc::new(Copy::default())));
    let waiting = reader(&sharing, 5);
    sharing.advance(Sequence(4), 0);
    assert!(!waiting.is_finished());
    sharing.advance(Sequence(5), 0);
    waiting.join().unwrap().unwrap();
}
