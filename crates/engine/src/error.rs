//! The error of the engine: a kind that says what the caller should do, and a message that says
//! what happened, where, and how to go on.

use std::fmt;

/// What the caller should do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Nothing is wrong with the request: try it again later (memory budget full, disk full).
    Retry,
    /// The request is wrong: change it.
    Input,
    /// Stored data is damaged: the message says what is lost and how to go on.
    Damaged,
    /// The database is closed, or it stopped taking writes after a failed fsync: open it again.
    Closed,
    /// The operating system refused: the message names the file and the reason.
    Io,
    /// The engine broke one of its own promises: report it.
    Bug,
}

/// An error of the engine.
///
/// ```
/// use fleetdb_engine::{Error, ErrorKind};
/// let error = Error::input("column 'x' is not in table 'cpu'");
/// assert_eq!(error.kind(), ErrorKind::Input);
/// assert_eq!(error.to_string(), "column 'x' is not in table 'cpu'");
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The result of everything in the engine that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An error of kind [`ErrorKind::Retry`].
    pub fn retry(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Retry, message)
    }

    /// An error of kind [`ErrorKind::Input`].
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// An error of kind [`ErrorKind::Damaged`].
    pub fn damaged(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Damaged, message)
    }

    /// An error of kind [`ErrorKind::Closed`].
    pub fn closed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Closed, message)
    }

    /// An error of kind [`ErrorKind::Bug`].
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Bug, message)
    }

    /// The operating system's error at `what` (an operation and a file name); a full disk is
    /// [`ErrorKind::Retry`], everything else [`ErrorKind::Io`].
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::Retry,
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("{what}: {error}"))
    }

    /// The same error for whom trying again is no help: a failed fsync, whatever its reason, leaves a file in an
    /// unknown state.
    #[must_use]
    pub(crate) fn final_io(mut self) -> Self {
        self.kind = ErrorKind::Io;
        self
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same error with `context` (a file, a line, a table) in front of its message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::bug(format!("Arrow refused an operation of the engine: {error}"))
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::damaged(format!("Parquet: {error}"))
    }
}
