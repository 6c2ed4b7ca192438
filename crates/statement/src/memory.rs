//! Accounts for the memory of a text's statements: it is reserved before they are parsed, and
//! released after they have run.
//!
//! A tree is much larger than its text, and so is its plan. Without this, eight clients with lists
//! of a million numbers would use gigabytes, whatever `memory_limit` says.

use crate::plain_text::{is_of_word, is_plain};
use fleetdb_engine::{MemoryReservation, QueryMemory, Result};
use fleetdb_functions::list_literals::TOKEN_BYTES;
use std::sync::Arc;

/// Shorter texts are not counted. Most statements are shorter.
const LITTLE_BYTES: usize = 1 << 10;

/// The memory held for a text's statements, as long as any of them exists.
#[derive(Clone, Debug, Default)]
pub struct StatementMemory {
    _bytes: Option<Arc<MemoryReservation>>,
}

impl StatementMemory {
    /// Reserves the memory for a text's statements before they are parsed.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(memory: &QueryMemory, text: &str) -> Result<Self> {
        if text.len() < LITTLE_BYTES {
            return Ok(Self::default());
        }
        // The tokens and the tree hold the quoted parts of the text again.
        let bytes = 2 * text.len() + tokens(text.as_bytes()) * TOKEN_BYTES;
        let held = memory.reserve(&format!("a statement of {} bytes", text.len()), bytes)?;
        Ok(Self { _bytes: Some(Arc::new(held)) })
    }
}

/// The number of tokens in a text; an upper bound if it has comments or other kinds of quotes.
fn tokens(text: &[u8]) -> usize {
    let has_quotes = is_plain(text);
    let (mut tokens, mut at) = (0, 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        if byte.is_ascii_whitespace() {
            continue;
        }
        tokens += 1;
        if has_quotes && matches!(byte, b'\'' | b'"') {
            at += text[at..].iter().position(|end| *end == byte).map_or(text.len() - at, |end| end + 1);
        } else if is_of_word(byte) {
            at += text[at..].iter().position(|byte| !is_of_word(*byte)).unwrap_or(text.len() - at);
        }
    }
    tokens
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
