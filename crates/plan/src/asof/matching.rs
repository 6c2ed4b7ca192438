//! Which rows an ASOF join matches.

use std::fmt;

/// Which right row matches a left row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Match {
    /// The last row at or before the left row's time.
    AtOrBefore,
    Before,
    /// The first row at or after the left row's time.
    AtOrAfter,
    After,
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtOrBefore => ">=",
            Self::Before => ">",
            Self::AtOrAfter => "<=",
            Self::After => "<",
        })
    }
}
