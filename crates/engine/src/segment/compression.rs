//! zstd with reused contexts: creating one costs more than decompressing a page.

use crate::error::{Error, Result};
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

const LEVEL: i32 = 1;

/// A compressor of level 1.
pub(crate) fn compressor() -> Result<Compressor<'static>> {
    Compressor::new(LEVEL).map_err(|e| Error::bug(format!("could not initialize zstd: {e}")))
}

/// Decompresses to exactly `plain_bytes` bytes.
///
/// # Errors
/// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged): the bytes are not zstd, or have another
/// length.
pub(crate) fn decompress(stored: &[u8], plain_bytes: usize) -> Result<Vec<u8>> {
    thread_local! {
        static CONTEXT: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => {
                context.insert(Decompressor::new().map_err(|e| Error::bug(format!("could not initialize zstd: {e}")))?)
            }
        };
        let plain = context
            .decompress(stored, plain_bytes)
            .map_err(|e| Error::damaged(format!("decompression failed: {e}")))?;
        if plain.len() != plain_bytes {
            return Err(Error::damaged("the decompressed data has the wrong length"));
        }
        Ok(plain)
    })
}
