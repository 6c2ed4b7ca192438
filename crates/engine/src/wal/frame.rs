//! WAL files and their frames.
//!
//! File `wal/<generation>.wal`: a header of 24 bytes (magic `FLEETWAL`, format version 4 bytes,
//! generation 8, CRC32C of those 4), then frames. A frame is a header of 24 bytes (payload length
//! 4, CRC32C 4 of everything after it, sequence 8, durable sequence 8) and the payload: the
//! sections of one batch. The durable sequence is the last one known to be synced when the frame
//! was written. It distinguishes a torn tail from damage (see [`read_file`]). Numbers are
//! little-endian.
//!
//! The file may have overwritten that of an older generation. Then frames of it may follow the last
//! one; their sequences are lower.

use crate::error::{Error, Result};
use crate::ids::{Generation, Sequence};
use crate::io::Storage;
use std::ops::{Bound, RangeBounds};

pub(crate) const DIRECTORY: &str = "wal";
/// The file that the next generation overwrites: that of a generation that is in segments.
pub(crate) const SPARE: &str = "wal/spare";
const MAGIC: &[u8; 8] = b"FLEETWAL";
const VERSION: u32 = 1;
pub(crate) const FILE_HEADER_BYTES: usize = 24;
pub(crate) const FRAME_HEADER_BYTES: usize = 24;
/// Maximum size of a frame's payload.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 1 << 30;

/// The name of a generation's WAL file.
pub(crate) fn file_name(generation: Generation) -> String {
    format!("{DIRECTORY}/{:016}.wal", generation.0)
}

/// The generation in a WAL file's name.
pub(crate) fn parse_file_name(name: &str) -> Option<Generation> {
    name.strip_suffix(".wal")?.parse().ok().map(Generation)
}

/// The header of a WAL file.
pub(crate) fn file_header(generation: Generation) -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..20].copy_from_slice(&generation.0.to_le_bytes());
    let crc = crc32c::crc32c(&header[..20]);
    header[20..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Reserves a frame header at the end of `out` and returns its offset. Append the payload, then
/// call [`finish`].
pub(crate) fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + FRAME_HEADER_BYTES, 0);
    start
}

/// Fills in the header of the frame from `start` to the end of `out`.
pub(crate) fn finish(out: &mut [u8], start: usize, sequence: Sequence, durable: Sequence) {
    let frame = &mut out[start..];
    let len = frame.len() - FRAME_HEADER_BYTES;
    frame[..4].copy_from_slice(&(len as u32).to_le_bytes());
    frame[8..16].copy_from_slice(&sequence.0.to_le_bytes());
    frame[16..24].copy_from_slice(&durable.0.to_le_bytes());
    let crc = crc32c::crc32c(&frame[8..]);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// One frame of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// Byte offset of its header in the file.
    pub(crate) offset: usize,
    /// The batch's position in the order of all batches.
    pub(crate) sequence: Sequence,
    /// The last batch known to be durable when this frame was written.
    pub(crate) durable: Sequence,
    /// The sections.
    pub(crate) payload: &'a [u8],
}

impl Frame<'_> {
    fn end(&self) -> usize {
        self.offset + FRAME_HEADER_BYTES + self.payload.len()
    }
}

/// The frame at `offset`, if its sequence is one of these, it is complete and its checksum matches.
fn frame_at(file: &[u8], offset: usize, sequences: impl RangeBounds<u64>) -> Option<Frame<'_>> {
    let header = file.get(offset..offset + FRAME_HEADER_BYTES)?;
    let number = |at: usize| header[at..at + 8].iter().rev().fold(0u64, |n, &byte| n << 8 | u64::from(byte));
    let len = (number(0) & 0xffff_ffff) as usize;
    // The sequence comes before the checksum, because a search tries every offset.
    if len == 0 || len > MAX_PAYLOAD_BYTES || !sequences.contains(&number(8)) {
        return None;
    }
    let end = offset + FRAME_HEADER_BYTES + len;
    let checked = file.get(offset + 8..end)?;
    if crc32c::crc32c(checked) != (number(0) >> 32) as u32 {
        return None;
    }
    Some(Frame {
        offset,
        sequence: Sequence(number(8)),
        durable: Sequence(number(16)),
        payload: &file[offset + FRAME_HEADER_BYTES..end],
    })
}

/// The contents of a WAL file.
pub(crate) struct Contents<'a> {
    pub(crate) frames: Vec<Frame<'a>>,
    /// Bytes up to the end of the last good frame; the rest is a torn tail.
    pub(crate) good_bytes: usize,
}

/// Reads a whole file. `before` is the last batch of the previous files.
///
/// Frames are read in order up to the first broken one. In the last file, the rest is a torn tail:
/// a crash left it, and it holds nothing that was acknowledged as durable. But if a later good
/// frame says that the broken one was already synced, it is damage. In any other file a broken
/// frame is damage.
///
/// # Errors
/// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged), with the position and what is lost.
pub(crate) fn read_file<'a>(
    name: &str,
    file: &'a [u8],
    generation: Generation,
    before: Sequence,
    last: bool,
) -> Result<Contents<'a>> {
    if file.len() < FILE_HEADER_BYTES || file[..FILE_HEADER_BYTES] != file_header(generation) {
        if last && file.len() <= FILE_HEADER_BYTES {
            return Ok(Contents { frames: Vec::new(), good_bytes: 0 });
        }
        return Err(Error::damaged(format!(
            "{name}: invalid header, expected WAL format {VERSION}, generation {generation}; the file's batches cannot \
             be read. Restore the file, or move it away to continue without them"
        )));
    }
    let mut frames: Vec<Frame<'a>> = Vec::new();
    let mut good_bytes = FILE_HEADER_BYTES;
    let mut newest = before;
    while let Some(frame) = frame_at(file, good_bytes, (Bound::Excluded(newest.0), Bound::Unbounded)) {
        if !frames.is_empty() && frame.sequence.0 - newest.0 != 1 {
            break;
        }
        good_bytes = frame.end();
        newest = frame.sequence;
        frames.push(frame);
    }
    if good_bytes == file.len() {
        return Ok(Contents { frames, good_bytes });
    }
    let lost = |what: &str| {
        Error::damaged(format!(
            "{name}: the frame at byte {good_bytes} is damaged{what}; {} of {} bytes cannot be read. Restore the file, \
             or truncate it to {good_bytes} bytes to continue without the batches that follow",
            file.len() - good_bytes,
            file.len()
        ))
    };
    if !last {
        return Err(lost(" and newer files follow"));
    }
    let broken = Sequence(newest.0.saturating_add(1));
    // Older frames are skipped whole. Each frame up to the last one takes more than a byte.
    let sequences = 1..=broken.0.saturating_add(file.len() as u64);
    let mut offset = good_bytes;
    while offset + FRAME_HEADER_BYTES < file.len() {
        if let Some(later) = frame_at(file, offset, sequences.clone()) {
            if later.sequence > broken && later.durable >= broken {
                return Err(lost(&format!(", and batch {broken} after it had been synced")));
            }
            offset = later.end();
        } else {
            offset += 1;
        }
    }
    Ok(Contents { frames, good_bytes })
}

/// The generations that have a WAL file, in order.
pub(crate) fn generations(storage: &dyn Storage) -> Result<Vec<Generation>> {
    let names = storage.list(DIRECTORY)?;
    let mut found: Vec<_> = names.iter().filter_map(|name| parse_file_name(name)).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
