//! The engine's error. A program matches on its [`Code`]. The code's [`ErrorKind`] says what the
//! caller should do. The message tells people what happened, where, and how to continue.
//!
//! Programs never inspect the message: every case that they must distinguish has its own code.

use std::fmt;

/// What the caller should do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is valid: try it again later (memory budget full, disk full).
    Retry,
    /// The request is invalid: change it.
    Input,
    /// Stored data is damaged. The message says what is lost and how to continue.
    Damaged,
    /// The database is closed, or stopped accepting writes after a failed fsync: reopen it.
    Closed,
    /// The operating system reported an error. The message names the file and the reason.
    Io,
    /// The engine violated one of its own invariants: report it.
    Bug,
}

/// What went wrong, for programs. [`Code::kind`] says what to do about it.
///
/// ```
/// use fleetdb_engine::{Code, Error, ErrorKind};
/// let error = Error::new(Code::Conflict, "another transaction has changed the rows: run it again");
/// assert_eq!((error.code(), error.kind()), (Code::Conflict, ErrorKind::Retry));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// An invalid request for which no other code exists.
    Invalid,
    /// The text does not parse as a statement.
    Syntax,
    /// No table has this name.
    UndefinedTable,
    /// No column has this name.
    UndefinedColumn,
    /// No function has this name and these argument types.
    UndefinedFunction,
    /// No setting or other object has this name.
    UndefinedObject,
    /// No schema has this name.
    UndefinedSchema,
    /// No parameter of the statement has this number.
    UndefinedParameter,
    /// No cursor has this name.
    UndefinedCursor,
    /// A setting, an option or a function does not accept this value.
    InvalidParameter,
    /// A table with this name exists already.
    DuplicateTable,
    /// A column with this name exists already.
    DuplicateColumn,
    /// Two relations in a query have the same name.
    DuplicateAlias,
    /// An object, such as a constraint, exists already.
    DuplicateObject,
    /// A name refers to more than one column.
    AmbiguousColumn,
    /// A column is neither grouped nor aggregated, or an aggregate is in the wrong place.
    Grouping,
    /// A window function is in the wrong place, or its frame is not valid.
    Windowing,
    /// A value does not have the type that its place requires.
    TypeMismatch,
    /// No cast exists between two types.
    CannotCast,
    /// The type of a parameter is not known.
    UnknownType,
    /// A column number in ORDER BY or GROUP BY, or the target of ON CONFLICT, is not valid.
    InvalidColumnReference,
    /// The definition of a table is not valid.
    InvalidDefinition,
    /// The statement is not for an object of this kind.
    WrongObject,
    /// FleetDB does not support this, or not in this place.
    NotSupported,
    /// A text is not a valid value of the type.
    InvalidText,
    /// The rows of a COPY do not have its format.
    InvalidCopy,
    /// A text is not a valid date or time.
    InvalidTime,
    /// A pattern is not a valid regular expression.
    InvalidPattern,
    /// The result of a root or a power is not a number.
    InvalidPower,
    /// The text after ESCAPE is not one character.
    InvalidEscape,
    /// The number of rows in LIMIT is not valid.
    InvalidLimit,
    /// The number of rows in OFFSET is not valid.
    InvalidOffset,
    /// A value is outside the range of its type.
    OutOfRange,
    /// A date or a time is outside the range of its type.
    TimeOutOfRange,
    /// Division by zero.
    DivisionByZero,
    /// NULL where a value is needed.
    NotNull,
    /// A row violates a CHECK.
    Check,
    /// A value for a column that its table always numbers.
    GeneratedAlways,
    /// A row with this primary key exists already.
    DuplicateKey,
    /// More than one row where one is allowed, or one row changed twice.
    Cardinality,
    /// A limit of the program is exceeded.
    LimitExceeded,
    /// The statement is nested too deeply.
    TooDeep,
    /// The user's role does not permit it.
    Denied,
    /// A prepared statement's columns have changed since it was prepared.
    PlanChanged,
    /// No transaction is active.
    NoTransaction,
    /// A transaction is already active.
    InTransaction,
    /// A statement of the transaction failed: only ROLLBACK is accepted.
    FailedTransaction,
    /// A statement writes in a read-only transaction.
    ReadOnlyTransaction,
    /// The transaction has no savepoint of this name.
    UndefinedSavepoint,
    /// The session has no prepared statement of this name.
    UndefinedStatement,
    /// The session already has a prepared statement with this name.
    DuplicateStatement,
    /// Another session holds the lock.
    LockNotAvailable,
    /// Too many requests are waiting, or the engine cannot keep up.
    Busy,
    /// Another transaction changed what this one has read: run it again.
    Conflict,
    /// The statement was cancelled, or took longer than `statement_timeout`.
    Cancelled,
    /// The memory budget is exhausted.
    OutOfMemory,
    /// The disk, or the space for temporary files, is full.
    DiskFull,
    /// The database is closed, or no longer accepts writes.
    Closed,
    /// Stored data is damaged.
    Damaged,
    /// The operating system reported an error.
    Io,
    /// The program violated one of its own invariants.
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

    /// The SQLSTATE of a code (PostgreSQL's manual, appendix A).
    ///
    /// ```
    /// assert_eq!(fleetdb_engine::Code::UndefinedTable.sqlstate(), "42P01");
    /// ```
    pub fn sqlstate(self) -> &'static str {
        match self {
            Self::Invalid => "42000",
            Self::Syntax => "42601",
            Self::UndefinedTable => "42P01",
            Self::UndefinedColumn => "42703",
            Self::UndefinedFunction => "42883",
            Self::UndefinedObject => "42704",
            Self::UndefinedSchema => "3F000",
            Self::UndefinedParameter => "42P02",
            Self::UndefinedCursor => "34000",
            Self::InvalidParameter => "22023",
            Self::DuplicateTable => "42P07",
            Self::DuplicateColumn => "42701",
            Self::DuplicateAlias => "42712",
            Self::DuplicateObject => "42710",
            Self::AmbiguousColumn => "42702",
            Self::Grouping => "42803",
            Self::Windowing => "42P20",
            Self::TypeMismatch => "42804",
            Self::CannotCast => "42846",
            Self::UnknownType => "42P18",
            Self::InvalidColumnReference => "42P10",
            Self::InvalidDefinition => "42P16",
            Self::WrongObject => "42809",
            Self::NotSupported | Self::PlanChanged => "0A000",
            Self::InvalidText => "22P02",
            Self::InvalidCopy => "22P04",
            Self::InvalidTime => "22007",
            Self::InvalidPattern => "2201B",
            Self::InvalidPower => "2201F",
            Self::InvalidEscape => "22025",
            Self::InvalidLimit => "2201W",
            Self::InvalidOffset => "2201X",
            Self::OutOfRange => "22003",
            Self::TimeOutOfRange => "22008",
            Self::DivisionByZero => "22012",
            Self::NotNull => "23502",
            Self::Check => "23514",
            Self::GeneratedAlways => "428C9",
            Self::DuplicateKey => "23505",
            Self::Cardinality => "21000",
            Self::LimitExceeded => "54000",
            Self::TooDeep => "54001",
            Self::Denied => "42501",
            Self::NoTransaction => "25P01",
            Self::InTransaction => "25001",
            Self::FailedTransaction => "25P02",
            Self::ReadOnlyTransaction => "25006",
            Self::UndefinedSavepoint => "3B001",
            Self::UndefinedStatement => "26000",
            Self::DuplicateStatement => "42P05",
            Self::LockNotAvailable => "55P03",
            Self::Busy => "53000",
            Self::Conflict => "40001",
            Self::Cancelled => "57014",
            Self::OutOfMemory => "53200",
            Self::DiskFull => "53100",
            Self::Closed => "57P03",
            Self::Damaged => "XX001",
            Self::Io => "58030",
            Self::Bug => "XX000",
        }
    }
}

/// A position in a statement's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPosition {
    /// A line and a column, counted in characters from 1.
    At {
        /// The line.
        line: u64,
        /// The column in the line.
        column: u64,
    },
    /// Past the text's last character.
    End,
}

impl TextPosition {
    /// The same position counted in characters of the text from 1, as PostgreSQL counts; `None` if
    /// the text has no such character.
    ///
    /// ```
    /// use fleetdb_engine::TextPosition;
    /// assert_eq!(TextPosition::At { line: 2, column: 1 }.in_text("SELECT\nx"), Some(8));
    /// ```
    pub fn in_text(self, text: &str) -> Option<usize> {
        let Self::At { line, column } = self else { return Some(text.chars().count() + 1) };
        let (line, column) = (usize::try_from(line).ok()?, usize::try_from(column).ok()?);
        let lines_before = text.split_inclusive('\n').take(line.checked_sub(1)?);
        let position = column.checked_add(lines_before.map(|line| line.chars().count()).sum())?;
        (1..=text.chars().count()).contains(&position).then_some(position)
    }
}

/// An error of the engine.
///
/// ```
/// use fleetdb_engine::{Code, Error, ErrorKind};
/// let error = Error::new(Code::UndefinedColumn, "column \"x\" does not exist");
/// assert_eq!(error.kind(), ErrorKind::Input);
/// assert_eq!(error.to_string(), "column \"x\" does not exist");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: Code,
    message: String,
    place: Option<TextPosition>,
    hint: Option<Box<str>>,
}

/// The result type of the engine.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with a code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), place: None, hint: None }
    }

    /// The error without its position, which would mislead in another text.
    #[must_use]
    pub fn without_position(self) -> Self {
        Self { place: None, ..self }
    }

    /// No table has this name; the hint lists the tables that exist.
    pub fn undefined_table<'a>(name: &str, there_are: impl Iterator<Item = &'a str>) -> Self {
        let error = Self::new(Code::UndefinedTable, format!("relation \"{name}\" does not exist"));
        match listed(there_are) {
            none if none.is_empty() => error.with_hint("The database has no tables."),
            names => error.with_hint(format!("The tables are: {names}.")),
        }
    }

    /// An invalid request with no specific code: [`Code::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::Invalid, message)
    }

    /// The engine cannot accept the request now: [`Code::Busy`].
    pub fn retry(message: impl Into<String>) -> Self {
        Self::new(Code::Busy, message)
    }

    /// An error of code [`Code::Damaged`].
    pub fn damaged(message: impl Into<String>) -> Self {
        Self::new(Code::Damaged, message)
    }

    /// An error of code [`Code::Closed`].
    pub fn closed(message: impl Into<String>) -> Self {
        Self::new(Code::Closed, message)
    }

    /// An error of code [`Code::Bug`].
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(Code::Bug, message)
    }

    /// An operating-system error. `what` names the operation and the file. A full disk becomes
    /// [`Code::DiskFull`], everything else [`Code::Io`].
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        let code = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Code::DiskFull,
            _ => Code::Io,
        };
        Self::new(code, format!("{what}: {error}"))
    }

    /// The same error as [`Code::Io`], so that callers do not retry. After a failed fsync, whatever
    /// the reason, the state of the file is unknown.
    #[must_use]
    pub(crate) fn final_io(mut self) -> Self {
        self.code = Code::Io;
        self
    }

    /// The error's code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.code.kind()
    }

    /// The position in the statement's text, if known.
    pub fn position(&self) -> Option<TextPosition> {
        self.place
    }

    /// The same error with a position in the statement's text.
    #[must_use]
    pub fn at(mut self, place: TextPosition) -> Self {
        self.place = Some(place);
        self
    }

    /// What the caller can do about it, as a separate sentence.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same error with a [hint](Self::hint).
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into_boxed_str());
        self
    }

    /// The same error with `context` (a file, a line, a table) prepended to its message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// The same error with the message that `words` makes of the old one.
    #[must_use]
    pub fn map_message(mut self, words: impl FnOnce(&str) -> String) -> Self {
        self.message = words(&self.message);
        self
    }
}

/// Maximum number of names that a message lists.
const MAX_LISTED: usize = 20;

/// Lists names for a message: the first 20, and how many more there are.
///
/// ```
/// assert_eq!(fleetdb_engine::listed(["a", "b"].into_iter()), "a, b");
/// ```
pub fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names = names.fuse();
    let mut listed = names.by_ref().take(MAX_LISTED).collect::<Vec<_>>().join(", ");
    match names.count() {
        0 => {}
        more => listed.push_str(&format!(" and {more} more")),
    }
    listed
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::bug(format!("an Arrow operation of the engine failed: {error}"))
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::damaged(format!("Parquet: {error}"))
    }
}
