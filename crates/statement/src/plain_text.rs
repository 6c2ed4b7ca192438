//! What can be told about a text without the tokenizer.

/// Whether quoted texts and names end at the next quote: there is no backslash, no comment, and no
/// quote but `'` and `"`.
pub(crate) fn is_plain(text: &[u8]) -> bool {
    let is_other = |two: &[u8]| matches!(two, b"--" | b"/*") || two[0] == b'$' && !two[1].is_ascii_digit();
    !text.contains(&b'\\') && !text.windows(2).any(is_other)
}

/// Whether the byte may be part of a word or a number.
pub(crate) fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | 0x80..)
}
