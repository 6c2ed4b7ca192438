//! Words in the text of statements.

/// The offset of a text's first word, after spaces and comments. Some programs send comments first.
pub fn first_word(text: &str) -> usize {
    let mut rest = text.trim_start();
    loop {
        let comment = match rest.get(..2) {
            Some("--") => rest.find(['\n', '\r']).unwrap_or(rest.len()),
            Some("/*") => block_comment(rest),
            _ => return text.len() - rest.len(),
        };
        rest = rest[comment..].trim_start();
    }
}

/// The length of the comment at the beginning of a text. Comments may be nested.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(found) = text[at..].find(['/', '*']) {
        at += found;
        match text[at..].get(..2) {
            Some("/*") => depth += 1,
            Some("*/") if depth == 1 => return at + 2,
            Some("*/") => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    text.len()
}

/// Whether the text contains the word, ignoring case.
pub fn has_word(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|here| here.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
