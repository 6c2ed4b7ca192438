use super::file::{FileWrite, RESERVED_BYTES, SMALL_STEP_BYTES};
use super::*;
use crate::io::{MemoryStorage, Storage};
use crate::wal::frame;
use std::sync::mpsc;

/// Far longer than the log waits before it tries again.
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
        assert!(log.enqueue(Sequence(sequence), Durability::Sync, b"batch", done, Waiting::ForOutcome));
        // As the flush thread might, before the committer leads.
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
fn a_served_committer_leads_only_as_long_as_syncs_are_not_shared() {
    let storage = MemoryStorage::new();
    let log = Log::create(&Io::memory(storage), 1_000, Generation(1), Sequence(0)).unwrap();
    let enqueue = |sequence, waiting| {
        log.enqueue(
            Sequence(sequence),
            Durability::Sync,
            b"batch",
            Box::new(|result: Result<()>| result.unwrap()),
            waiting,
        )
    };
    assert!(!enqueue(1, Waiting::ForRoom));
    assert!(!enqueue(2, Waiting::Never), "it is not the first");
    log.step();
    assert_eq!(log.durable(), Sequence(2));
    assert!(!enqueue(3, Waiting::Never), "two shared the last sync");
    log.step();
    assert!(enqueue(4, Waiting::Never));
    log.lead();
    assert_eq!(log.durable(), Sequence(4));
    assert!(enqueue(5, Waiting::ForOutcome));
    log.lead();
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
        // A batch that the log thread is not told about.
        let mut pending = log.pending.lock();
        let mut bytes = Vec::new();
        let start = frame::begin(&mut bytes);
        frame::finish(&mut bytes, start, Sequence(sequence), log.durable());
        pending.writes.push(FileWrite { begins: None, bytes, last: Sequence(sequence) });
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

#[test]
fn who_waits_for_no_sync_writes_itself_and_is_synced_when_the_interval_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let io = Io { storage: MemoryStorage::new(), ..Io::files(directory.path()) };
    let log = Log::create(&io, 50, Generation(1), Sequence(0)).unwrap();
    let stepper = Arc::clone(&log);
    let join = io.spawn.spawn("log", Box::new(move || stepper.run())).unwrap();
    for sequence in 1..=5 {
        let (sender, outcome) = mpsc::channel();
        let done = Box::new(move |result| sender.send(result).unwrap());
        assert!(
            log.enqueue(Sequence(sequence), Durability::Interval, b"batch", done, Waiting::ForOutcome),
            "nobody is in front"
        );
        log.lead();
        // Completed by this thread, or by the log thread if it had the file.
        outcome.recv().unwrap().unwrap();
        let deadline_ns = io.clock.monotonic_ns() + LONGEST_NS;
        while log.durable() < Sequence(sequence) {
            assert!(io.clock.monotonic_ns() < deadline_ns, "batch {sequence}: never synced");
            std::thread::yield_now();
        }
    }
    log.close().unwrap();
    join();
}

/// Commits a batch of this size.
fn write(log: &Log, sequence: u64, bytes: usize, durability: Durability) {
    let (sender, outcome) = mpsc::channel();
    let done = Box::new(move |result| sender.send(result).unwrap());
    log.enqueue(Sequence(sequence), durability, &vec![7; bytes], done, Waiting::ForRoom);
    log.step();
    outcome.recv().unwrap().unwrap();
}

/// Commits a batch of this size and returns the length of the first generation's file afterwards.
fn commit(log: &Log, storage: &MemoryStorage, sequence: u64, bytes: usize, durability: Durability) -> u64 {
    write(log, sequence, bytes, durability);
    length(storage, 1)
}

/// A log that begins, and the names of its files.
fn with_files(storage: &Arc<MemoryStorage>) -> (Arc<Log>, impl Fn() -> String) {
    let log = Log::create(&Io::memory(storage.clone()), 1_000, Generation(1), Sequence(0)).unwrap();
    let storage = Arc::clone(storage);
    (log, move || storage.list(frame::DIRECTORY).unwrap().join(" "))
}

fn length(storage: &MemoryStorage, generation: u64) -> u64 {
    storage.read(&frame::file_name(Generation(generation))).unwrap().len_bytes()
}

#[test]
fn small_steps_overwrite_zeros_and_a_crash_keeps_what_was_synced() {
    let storage = MemoryStorage::new();
    let io = Io::memory(storage.clone());
    let log = Log::create(&io, 1_000, Generation(1), Sequence(0)).unwrap();
    let one = (frame::FRAME_HEADER_BYTES + 1000) as u64;
    let start = frame::FILE_HEADER_BYTES as u64;
    // Only a synced step reserves zeros.
    assert_eq!(commit(&log, &storage, 1, 1000, Durability::Os), start + one);
    let reserved = commit(&log, &storage, 2, 1000, Durability::Sync);
    assert_eq!(reserved, start + 2 * one + RESERVED_BYTES as u64);
    assert_eq!(commit(&log, &storage, 3, 1000, Durability::Sync), reserved);
    assert_eq!(commit(&log, &storage, 4, 1000, Durability::Os), reserved);
    for kept in [0, 1, 500, usize::MAX] {
        let crashed = storage.crash_keeping(|_, _| kept);
        let file = crashed.read(&frame::file_name(Generation(1))).unwrap();
        assert_eq!(file.len_bytes(), reserved, "the zeros were synced with batch 2");
        let bytes = file.read_at(0, reserved as usize).unwrap();
        let contents = frame::read_file("wal", &bytes, Generation(1), Sequence(0), true).unwrap();
        let frames = if kept == usize::MAX { 4 } else { 3 };
        assert_eq!((contents.frames.len(), contents.good_bytes as u64), (frames, start + frames as u64 * one));
    }
    // A step that ends past the zeros reserves more; a large step does not.
    let small = SMALL_STEP_BYTES as usize - frame::FRAME_HEADER_BYTES;
    let again = (5..).find(|&sequence| commit(&log, &storage, sequence, small, Durability::Sync) > reserved).unwrap();
    assert!(again > 5 && length(&storage, 1) >= reserved + RESERVED_BYTES as u64);
    let large = commit(&log, &storage, again + 1, 2 * RESERVED_BYTES, Durability::Sync);
    assert_eq!(commit(&log, &storage, again + 2, small + 1, Durability::Sync), large + SMALL_STEP_BYTES + 1);
}

#[test]
fn a_file_that_ends_has_no_zeros() {
    let storage = MemoryStorage::new();
    let io = Io::memory(storage.clone());
    let log = Log::create(&io, 1_000, Generation(1), Sequence(0)).unwrap();
    let frames = (frame::FILE_HEADER_BYTES + frame::FRAME_HEADER_BYTES + 10) as u64;
    assert!(commit(&log, &storage, 1, 10, Durability::Sync) > frames);
    log.rotate(Generation(2), Sequence(1));
    log.step();
    assert_eq!(length(&storage, 1), frames);
    assert_eq!(storage.crash().read(&frame::file_name(Generation(1))).unwrap().len_bytes(), frames);
    commit(&log, &storage, 2, 10, Durability::Sync);
    assert!(length(&storage, 2) > frames);
    log.close().unwrap();
    assert_eq!(length(&storage, 2), frames);
}

#[test]
fn zeros_that_do_not_fit_are_done_without() {
    let directory = tempfile::tempdir().unwrap();
    let storage = MemoryStorage::new();
    let io = Io { storage: storage.clone(), ..Io::files(directory.path()) };
    let log = Log::create(&io, 1_000, Generation(1), Sequence(0)).unwrap();
    let reserved = commit(&log, &storage, 1, 10, Durability::Sync);
    // The frame is written, then the disk fills up.
    log.writer.lock().file.cut().unwrap();
    let mut writer = log.writer.lock();
    storage.set_full(true);
    writer.file.reserve().unwrap();
    drop(writer);
    assert_eq!(length(&storage, 1), reserved - RESERVED_BYTES as u64);
    storage.set_full(false);
    assert!(commit(&log, &storage, 2, 10, Durability::Sync) > reserved);
}

#[test]
fn a_generation_overwrites_the_file_of_one_in_segments() {
    let storage = MemoryStorage::new();
    let (log, files) = with_files(&storage);
    for sequence in 1..=3 {
        write(&log, sequence, 10_000, Durability::Sync);
    }
    log.rotate(Generation(2), Sequence(3));
    log.step();
    log.retire(Generation(1)).unwrap();
    assert_eq!(files(), "0000000000000002.wal spare");
    log.rotate(Generation(3), Sequence(3));
    log.step();
    assert_eq!(files(), "0000000000000002.wal 0000000000000003.wal");
    let whole = length(&storage, 3);
    let frames = |storage: &MemoryStorage| {
        let file = storage.read(&frame::file_name(Generation(3))).unwrap();
        assert_eq!(file.len_bytes(), whole, "frames overwrite old ones");
        let bytes = file.read_all().unwrap();
        frame::read_file("wal", &bytes, Generation(3), Sequence(3), true).unwrap().frames.len()
    };
    assert_eq!((frames(&storage), frames(&storage.crash())), (0, 0));
    for (sequence, bytes) in [(4, 10), (5, 12_345)] {
        write(&log, sequence, bytes, Durability::Sync);
        let synced = sequence as usize - 3;
        for kept in [0, 1, usize::MAX] {
            assert_eq!(frames(&storage.crash_keeping(|_, _| kept)), synced, "batch {sequence}");
        }
    }
    // Longer than the old file.
    write(&log, 6, 10_000, Durability::Sync);
    write(&log, 7, 20_000, Durability::Sync);
    assert!(length(&storage, 3) > whole);
    // One spare file is enough.
    log.rotate(Generation(4), Sequence(7));
    log.step();
    log.retire(Generation(2)).unwrap();
    log.retire(Generation(3)).unwrap();
    assert_eq!(files(), "0000000000000004.wal spare");
    log.remove_spare();
    assert_eq!(files(), "0000000000000004.wal");
    log.close().unwrap();
}

#[test]
fn a_spare_file_is_given_up_on_a_full_disk_and_may_be_gone() {
    let storage = MemoryStorage::new();
    let (log, files) = with_files(&storage);
    let rotate = |generation, sequence| {
        log.rotate(Generation(generation), Sequence(sequence));
        log.step();
        log.retire(Generation(generation - 1)).unwrap();
    };
    write(&log, 1, 10, Durability::Sync);
    rotate(2, 1);
    assert_eq!(files(), "0000000000000002.wal spare");
    storage.set_full(true);
    log.enqueue(
        Sequence(2),
        Durability::Sync,
        b"batch",
        Box::new(|result| drop(result.unwrap_err())),
        Waiting::ForRoom,
    );
    log.step();
    assert_eq!(files(), "0000000000000002.wal");
    storage.set_full(false);
    log.step();
    rotate(3, 2);
    // Somebody removes it.
    storage.remove(frame::SPARE).unwrap();
    rotate(4, 2);
    assert_eq!(files(), "0000000000000004.wal spare");
    log.close().unwrap();
}
