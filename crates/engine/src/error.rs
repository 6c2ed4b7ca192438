//! The error of the engine: a [`Code`] that programs match on, the [`ErrorKind`] of that code, which says
//! what the caller should do, and a message for people: what happened, where, and how to go on.
//!
//! Nobody asks a message what it contains: what a program must tell apart has a code of its own.

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

/// What went wrong, for programs. [`Code::kind`] says what to do about it.
///
/// ```
/// use fleetdb_engine::{Code, Error, ErrorKind};
/// let error = Error::coded(Code::Conflict, "another transaction has changed the rows: run it again");
/// assert_eq!((error.code(), error.kind()), (Code::Conflict, ErrorKind::Retry));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The request is wrong in a way that has no code of its own.
    Invalid,
    /// The text is not a statement.
    Syntax,
    /// No table has this name.
    UndefinedTable,
    /// No column has this name.
    UndefinedColumn,
    /// No function has this name and takes these types.
    UndefinedFunction,
    /// No setting or other object has this name.
    UndefinedObject,
    /// A setting or an option does not take this value.
    InvalidParameter,
    /// A table has this name already.
    DuplicateTable,
    /// A column has this name already.
    DuplicateColumn,
    /// Two relations of a query have this name.
    DuplicateAlias,
    /// A name stands for more than one column.
    AmbiguousColumn,
    /// A column is neither grouped nor aggregated, or an aggregate is in the wrong place.
    Grouping,
    /// FleetDB does not have this form, or not here.
    NotSupported,
    /// A text does not say a value of the type.
    InvalidText,
    /// Rows of a COPY are not of its form.
    InvalidCopy,
    /// A text does not say a date or a time.
    InvalidTime,
    /// A value is outside the range of its type.
    OutOfRange,
    /// A division by zero.
    DivisionByZero,
    /// NULL where a value is needed.
    NotNull,
    /// More rows than one, or one row changed twice.
    Cardinality,
    /// More of something than a limit of the program allows.
    LimitExceeded,
    /// A statement whose parts are nested too deeply.
    TooDeep,
    /// The user's role does not allow it.
    Denied,
    /// A prepared statement has other columns than when it was prepared.
    PlanChanged,
    /// There is no transaction.
    NoTransaction,
    /// There is a transaction already.
    InTransaction,
    /// A statement of the transaction failed: only ROLLBACK is taken.
    FailedTransaction,
    /// A statement that writes in a transaction that only reads.
    ReadOnlyTransaction,
    /// The transaction has no savepoint of this name.
    UndefinedSavepoint,
    /// The session has no prepared statement of this name.
    UndefinedStatement,
    /// The session has a prepared statement of this name already.
    DuplicateStatement,
    /// Another session holds the lock.
    LockNotAvailable,
    /// Too many others wait, or the engine cannot keep up.
    Busy,
    /// Another transaction has changed what this one has read: run it again.
    Conflict,
    /// The statement was cancelled, or took longer than `statement_timeout`.
    Cancelled,
    /// The memory budget has no room.
    OutOfMemory,
    /// The disk, or the room for temporary files, is full.
    DiskFull,
    /// The database is closed, or takes no more writes.
    Closed,
    /// Stored data is damaged.
    Damaged,
    /// The operating system refused.
    Io,
    /// A promise of the program's own is broken.
    Bug,
}

impl Code {
    /// What the caller should do.
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::Busy | Self::Conflict | Self::Cancelled | Self::OutOfMemory | Self::DiskFull => ErrorKind::Retry,
            Self::Closed => ErrorKind::Closed,
            Self::Damaged => ErrorKind::Damaged,
            Self::Io => ErrorKind::Io,
            Self::Bug => ErrorKind::Bug,
            _ => ErrorKind::Input,
        }
    }
}

/// A place in a statement's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line and a column, counted in characters from 1.
    At {
        /// The line.
        line: u64,
        /// The column in the line.
        column: u64,
    },
    /// Behind the text's last character.
    End,
}

/// An error of the engine.
///
/// ```
/// use fleetdb_engine::{Code, Error, ErrorKind};
/// let error = Error::coded(Code::UndefinedColumn, "column 'x' is not in table 'cpu'");
/// assert_eq!(error.kind(), ErrorKind::Input);
/// assert_eq!(error.to_string(), "column 'x' is not in table 'cpu'");
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    code: Code,
    message: String,
    place: Option<Place>,
}

/// The result of everything in the engine that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with a code.
    pub fn coded(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), place: None }
    }

    /// A wrong request without a code of its own: [`Code::Invalid`].
    pub fn input(message: impl Into<String>) -> Self {
        Self::coded(Code::Invalid, message)
    }

    /// The engine cannot take the request now: [`Code::Busy`].
    pub fn retry(message: impl Into<String>) -> Self {
        Self::coded(Code::Busy, message)
    }

    /// An error of code [`Code::Damaged`].
    pub fn damaged(message: impl Into<String>) -> Self {
        Self::coded(Code::Damaged, message)
    }

    /// An error of code [`Code::Closed`].
    pub fn closed(message: impl Into<String>) -> Self {
        Self::coded(Code::Closed, message)
    }

    /// An error of code [`Code::Bug`].
    pub fn bug(message: impl Into<String>) -> Self {
        Self::coded(Code::Bug, message)
    }

    /// The operating system's error at `what` (an operation and a file name); a full disk is
    /// [`Code::DiskFull`], everything else [`Code::Io`].
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        let code = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Code::DiskFull,
            _ => Code::Io,
        };
        Self::coded(code, format!("{what}: {error}"))
    }

    /// The same error for whom trying again is no help: a failed fsync, whatever its reason, leaves a file in an
    /// unknown state.
    #[must_use]
    pub(crate) fn final_io(mut self) -> Self {
        self.code = Code::Io;
        self
    }

    /// What went wrong.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.code.kind()
    }

    /// Where in the statement's text it is, if that is known.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// The same error at a place in the statement's text.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// The same error with `context` (a file, a line, a table) in front of its message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// The same error in other words.
    #[must_use]
    pub fn reworded(mut self, words: impl FnOnce(&str) -> String) -> Self {
        self.message = words(&self.message);
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
