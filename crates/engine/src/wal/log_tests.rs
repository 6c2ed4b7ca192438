use super::*;
use crate::io::MemoryStorage;
use std::sync::mpsc;

/// Far longer than a log takes to try again.
const LONGEST_NS: u64 = 30_000_000_000;

#[test]
fn a_log_that_another_thread_stalled_goes_on_when_there_is_room() {
    let storage = MemoryStorage::new();
    let directory = tempfile::tempdir().unwrap();
    let io = Io { storage: storage.clone(), ..Io::files(directory.path()) };
    let log = Log::create(&io, 1_000, Generation(1), Sequence(0)).unwrap();
    let stepper = Arc::clone(&log);
    let join = io.spawn.spawn("log", Box::new(move || stepper.run())).unwrap();
    for sequence in 1..=5 {
        storage.set_full(true);
        let (sender, outcome) = mpsc::channel();
        let done = Box::new(move |result| sender.send(result).unwrap());
        assert!(log.enqueue(Sequence(sequence), Durability::Sync, b"batch", done, true));
        // As the flush thread may, before the committer comes to lead.
        log.step();
        assert_eq!(outcome.recv().unwrap().unwrap_err().kind(), ErrorKind::Retry);
        storage.set_full(false);
        let deadline_ns = io.clock.monotonic_ns() + LONGEST_NS;
        while log.check().is_err() {
            assert!(io.clock.monotonic_ns() < deadline_ns, "batch {sequence}: the log does not try again");
            std::thread::yield_now();
        }
    }
    log.close().unwrap();
    join();
    assert_eq!(log.durable(), Sequence(5));
}

#[test]
fn what_another_thread_wrote_is_synced_when_the_interval_is_over() {
    let storage = MemoryStorage::new();
    let directory = tempfile::tempdir().unwrap();
    let io = Io { storage, ..Io::files(directory.path()) };
    let log = Log::create(&io, 50, Generation(1), Sequence(0)).unwrap();
    let stepper = Arc::clone(&log);
    let join = io.spawn.spawn("log", Box::new(move || stepper.run())).unwrap();
    for sequence in 1..=5 {
        // A batch that nobody tells the log's thread of.
        let mut pending = log.pending.lock();
        let mut bytes = Vec::new();
        let start = frame::begin(&mut bytes);
        frame::finish(&mut bytes, start, Sequence(sequence), log.durable());
        pending.stretches.push(Stretch { begins: None, bytes, last: Sequence(sequence) });
        drop(pending);
        log.step();
        let deadline_ns = io.clock.monotonic_ns() + LONGEST_NS;
        while log.durable() < Sequence(sequence) {
            assert!(io.clock.monotonic_ns() < deadline_ns, "batch {sequence}: never synced");
            std::thread::yield_now();
        }
    }
    log.close().unwrap();
    join();
}
