//! The memory of a text's statements: it is taken before they are parsed, and given back when they have been run.
//!
//! A tree is much larger than its text, and so is its plan: without this, eight clients with lists of a million numbers take
//! gigabytes, whatever `memory_limit` says.

use crate::depth::is_plain;
use fleetdb_engine::{MemoryReservation, QueryMemory, Result};
use std::sync::Arc;

/// What a token takes until its statement has been planned: the token itself, what the parser makes of it, and what DataFusion
/// plans it as. Measured on 64-bit Linux as the growth of the resident set: 290 bytes a token in `IN (1,2,...)` of a million
/// numbers and 400 in one of a hundred thousand, 380 in VALUES of FROM, 360 to 380 in an INSERT of rows of three values.
const TOKEN_BYTES: usize = 400;

/// Texts that are shorter than this are not counted: most statements are.
const LITTLE_BYTES: usize = 1 << 10;

/// What the statements of a text hold together, as long as one of them is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatementMemory {
    _bytes: Option<Arc<MemoryReservation>>,
}

impl StatementMemory {
    /// Takes what a text's statements need, before they are made.
    ///
    /// # Errors
    /// There is not so much.
    pub(crate) fn new(memory: &QueryMemory, text: &str) -> Result<Self> {
        if text.len() < LITTLE_BYTES {
            return Ok(Self::default());
        }
        let bytes = text.len() + tokens(text.as_bytes()) * TOKEN_BYTES;
        let held = memory.reserve(&format!("a statement of {} bytes", text.len()), bytes)?;
        Ok(Self { _bytes: Some(Arc::new(held)) })
    }
}

/// Words, numbers, texts, operators and marks of a text; at most so many if it has comments or texts of other forms.
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

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | 0x80..)
}

#[cfg(test)]
#[path = "statement_memory_tests.rs"]
mod tests;
