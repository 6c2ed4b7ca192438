//! Where the pages of a column go: in pieces to the file.

use crate::error::Result;

/// Pages are written when the buffer has this many bytes.
const WRITE_BYTES: usize = 128 << 10;

/// Where pages go: a buffer that is written to the file when it is full.
pub(super) struct PageOutput<'a> {
    /// Offset of the buffer in the file.
    offset: u64,
    buffer: &'a mut Vec<u8>,
    write: &'a mut dyn FnMut(&[u8]) -> Result<()>,
}

impl<'a> PageOutput<'a> {
    /// Pages from `offset` on, in a buffer that is empty.
    pub(super) fn new(offset: u64, buffer: &'a mut Vec<u8>, write: &'a mut dyn FnMut(&[u8]) -> Result<()>) -> Self {
        buffer.clear();
        Self { offset, buffer, write }
    }

    /// Offset of the next page in the file.
    pub(super) fn position(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    /// Adds a page and returns the length of its header.
    pub(super) fn add(&mut self, header: impl FnOnce(&mut Vec<u8>), levels: &[u8], stored: &[u8]) -> Result<usize> {
        let start = self.buffer.len();
        header(self.buffer);
        let header_bytes = self.buffer.len() - start;
        self.buffer.extend_from_slice(levels);
        self.buffer.extend_from_slice(stored);
        if self.buffer.len() >= WRITE_BYTES {
            self.finish()?;
        }
        Ok(header_bytes)
    }

    /// Writes what is in the buffer.
    pub(super) fn finish(&mut self) -> Result<()> {
        (self.write)(self.buffer)?;
        self.offset = self.position();
        self.buffer.clear();
        Ok(())
    }
}
