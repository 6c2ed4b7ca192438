//! The settings a client sends when it connects: parameters of its first message, and `-c
//! name=value` in `options`, which is how libpq sends `PGOPTIONS`.

use fleetdb_engine::Result;
use fleetdb_query::SessionSettings;
use std::collections::BTreeMap;

/// Applies a client's parameters to `first`. Parameters that have no effect here are ignored.
///
/// # Errors
/// A value is invalid.
pub(super) fn settings(first: SessionSettings, parameters: &BTreeMap<String, String>) -> Result<SessionSettings> {
    let mut settings = first;
    for (name, value) in parameters.get("options").map(|text| options(text)).unwrap_or_default() {
        settings.set(&name, &value)?;
    }
    for (name, value) in parameters {
        settings.set(&name.to_ascii_lowercase(), value)?;
    }
    Ok(settings)
}

/// The settings in `options`: `-c name=value`, `-cname=value`, `--name=value`. A backslash escapes
/// the next character.
fn options(text: &str) -> Vec<(String, String)> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, words.last_mut()) {
            ('\\', Some(word)) => word.extend(chars.next()),
            (c, _) if c.is_whitespace() => words.push(String::new()),
            (c, Some(word)) => word.push(c),
            _ => {}
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("-c").or_else(|| word.strip_prefix("--")) {
            Some("") => words.next(),
            Some(setting) => Some(setting.to_owned()),
            None => None,
        };
        if let Some((name, value)) = setting.as_deref().and_then(|setting| setting.split_once('=')) {
            found.push((name.replace('-', "_").to_ascii_lowercase(), value.to_owned()));
        }
    }
    found
}

#[cfg(test)]
#[path = "startup_tests.rs"]
mod tests;
