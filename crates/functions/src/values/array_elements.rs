//! Parses arrays in PostgreSQL's text form, `{1,2,NULL,"a, b"}`, as drivers send them
//! (<https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO>).

use fleetdb_engine::{Code, Error, Result};

/// The texts of an array's elements, `None` for NULL.
///
/// # Errors
/// The text is not such an array.
pub(super) fn elements(text: &str) -> Result<Vec<Option<String>>> {
    texts(text).map_err(|why| Error::new(Code::InvalidText, format!("malformed array literal: \"{text}\": {why}")))
}

fn texts(text: &str) -> std::result::Result<Vec<Option<String>>, &'static str> {
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or("it does not stand in braces")?;
    let mut elements = Vec::new();
    if inner.trim().is_empty() {
        return Ok(elements);
    }
    let mut chars = inner.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let mut element = String::new();
        let is_quoted = chars.next_if_eq(&'"').is_some();
        loop {
            match chars.peek() {
                None if is_quoted => return Err("a quote is not closed"),
                Some('"') if is_quoted => break,
                None | Some(',') if !is_quoted => break,
                Some('{' | '}' | '"') if !is_quoted => return Err("arrays of arrays are not supported"),
                _ => {}
            }
            let escaped = chars.next_if_eq(&'\\').is_some();
            match chars.next() {
                Some(c) => element.push(c),
                None if escaped => return Err("it ends in a backslash"),
                None => {}
            }
        }
        if is_quoted {
            chars.next();
            while chars.next_if(|c| c.is_whitespace()).is_some() {}
            elements.push(Some(element));
        } else {
            let element = element.trim_end();
            if element.is_empty() {
                return Err("an element is missing");
            }
            elements.push((!element.eq_ignore_ascii_case("null")).then(|| element.to_owned()));
        }
        match chars.next() {
            None => return Ok(elements),
            Some(',') => {}
            Some(_) => return Err("elements are separated by commas"),
        }
    }
}

#[cfg(test)]
#[path = "array_elements_tests.rs"]
mod tests;
