use super::*;
use crate::error::ErrorKind;

const GENERATION: Generation = Generation(3);

/// A file with these frames (sequence, durable sequence, payload).
fn file(frames: &[(u64, u64, &[u8])]) -> Vec<u8> {
    let mut file = file_header(GENERATION).to_vec();
    for (sequence, durable, payload) in frames {
        let start = begin(&mut file);
        file.extend_from_slice(payload);
        finish(&mut file, start, Sequence(*sequence), Sequence(*durable));
    }
    file
}

fn read(file: &[u8], before: u64, last: bool) -> Result<Contents<'_>> {
    read_file("wal/3.wal", file, GENERATION, Sequence(before), last)
}

#[test]
fn frames_come_back_in_order() {
    let file = file(&[(5, 4, b"one"), (6, 4, b"two"), (7, 6, &[9; 5_000])]);
    let contents = read(&file, 4, true).unwrap();
    let frames: Vec<_> = contents.frames.iter().map(|f| (f.sequence.0, f.durable.0, f.payload.len())).collect();
    assert_eq!(frames, [(5, 4, 3), (6, 4, 3), (7, 6, 5_000)]);
    assert_eq!(contents.good_bytes, file.len());
}

#[test]
fn every_cut_of_the_last_file_is_a_torn_tail() {
    let whole = file(&[(5, 4, b"one"), (6, 4, b"two")]);
    let second = FILE_HEADER_BYTES + FRAME_HEADER_BYTES + 3;
    for cut in 0..whole.len() {
        let contents = read(&whole[..cut], 4, true).unwrap();
        let expected = if cut < FILE_HEADER_BYTES { 0 } else { usize::from(cut >= second) };
        assert_eq!(contents.frames.len(), expected, "cut to {cut} bytes");
    }
    for cut in second + 1..whole.len() {
        let error = read(&whole[..cut], 4, false).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "newer files follow a file cut to {cut} bytes");
    }
}

#[test]
fn a_broken_frame_is_damage_only_if_it_had_been_synced() {
    for (durable, damage) in [(4, false), (5, true)] {
        // The first frame is broken. The second says how far the log was durable when it was
        // written.
        let mut file = file(&[(5, 4, b"one"), (6, durable, b"two")]);
        file[FILE_HEADER_BYTES + FRAME_HEADER_BYTES] ^= 1;
        let outcome = read(&file, 4, true).map(|contents| contents.frames.len());
        assert_eq!(outcome.is_err(), damage, "durable up to {durable}");
        assert!(damage || outcome.unwrap() == 0);
    }
}

#[test]
fn frames_of_another_turn_are_not_taken() {
    let file = file(&[(5, 4, b"one"), (9, 8, b"stale")]);
    assert!(read(&file, 4, true).map(|contents| contents.frames.len()).is_err(), "a gap in front of a durable frame");
    let mut other = file_header(Generation(4)).to_vec();
    other.extend_from_slice(&[0; 40]);
    assert_eq!(
        read(&other, 4, true).map(|_| ()).unwrap_err().kind(),
        ErrorKind::Damaged,
        "another generation's header"
    );
}

#[test]
fn frames_of_an_older_generation_behind_the_last_one_are_a_torn_tail() {
    let old =
        &file(&[(1, 0, b"an old one"), (2, 1, &[0xff; 100_000]), (3, 2, b"the last old one")])[FILE_HEADER_BYTES..];
    let news: [&[(u64, u64, &[u8])]; 3] = [&[], &[(4, 3, b"new")], &[(4, 3, b"new"), (5, 4, b"another new one")]];
    for new in news {
        let new = file(new);
        // What the new frames have not overwritten begins anywhere.
        for from in [0, 1, FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + 10, 200, old.len() - 40] {
            let both = [&new[..], &old[from..]].concat();
            let contents = read(&both, 3, true).unwrap();
            assert_eq!(contents.good_bytes, new.len(), "from {from}");
            assert_eq!(read(&both, 3, false).map(|_| ()).unwrap_err().kind(), ErrorKind::Damaged, "from {from}");
        }
    }
}

#[test]
fn a_broken_frame_that_had_been_synced_is_damage_also_before_old_ones() {
    let mut file = file(&[(5, 4, b"one"), (6, 5, b"two"), (2, 1, b"old"), (3, 2, b"old")]);
    file[FILE_HEADER_BYTES + FRAME_HEADER_BYTES] ^= 1;
    assert_eq!(read(&file, 4, true).map(|_| ()).unwrap_err().kind(), ErrorKind::Damaged);
}

#[test]
fn a_frame_of_the_greatest_sequence_is_read_and_nothing_follows_it() {
    let last = u64::MAX;
    let one = file(&[(last - 1, 4, b"one"), (last, 4, b"two")]);
    assert_eq!(read(&one, last - 2, true).unwrap().frames.len(), 2);
    let more = file(&[(last, 4, b"one"), (last, 4, b"two"), (3, 2, b"old")]);
    assert_eq!(read(&more, last - 1, true).unwrap().frames.len(), 1);
}
