//! Sizes as people write them: `4GiB`, `500 MB`, or a number of bytes.

use serde::Deserialize;
use std::str::FromStr;

/// The units and their sizes in bytes.
const UNITS: [(&str, usize); 8] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// A number of bytes, parsed from `4GiB`, `1.5 GiB`, `500MB` or `4294967296`. Units are
/// case-insensitive.
///
/// ```
/// use fleetdb_server::Size;
/// assert_eq!("4GiB".parse(), Ok(Size(4 << 30)));
/// assert_eq!("500 mb".parse(), Ok(Size(500_000_000)));
/// assert_eq!("64".parse(), Ok(Size(64)));
/// assert!("4 gigs".parse::<Size>().unwrap_err().contains("KiB, MiB, GiB"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Size(
    /// Bytes.
    pub usize,
);

/// A size in an options file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Bytes(usize),
    Text(String),
}

impl TryFrom<Written> for Size {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Bytes(bytes) => Ok(Self(bytes)),
            Written::Text(text) => text.parse(),
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("invalid size '{text}': use bytes, or a number with KiB, MiB, GiB, TiB, KB, MB or GB");
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim();
        let known = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit) || unit.is_empty());
        let (_, bytes) = known.ok_or_else(wrong)?;
        let size = match number.parse::<usize>() {
            Ok(number) => number.checked_mul(*bytes),
            Err(_) => {
                let size = number.parse::<f64>().map_err(|_| wrong())? * *bytes as f64;
                (size < usize::MAX as f64).then_some(size as usize)
            }
        };
        size.map(Self).ok_or_else(|| format!("the size '{text}' is too large"))
    }
}

#[cfg(test)]
#[path = "size_tests.rs"]
mod tests;
