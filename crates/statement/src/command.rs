//! What a statement does, what it writes, and which permission it needs. Embedded sessions and servers
//! run a statement by this.

use super::names::{identifier, temporary_name};
use super::setting_names::{sets_datafusion, sets_datafusion_by, setting_name};
use super::walk::walk;
use crate::Statement;
use crate::copy_stream::{CopyIn, CopyOut};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{
    self, CloseCursor, CopyTarget, DiscardObject, Expr, FetchDirection, Insert, ObjectName, ObjectType, SetExpr,
    Statement as SqlStatement, TableFactor, Visitor,
};
use fleetdb_engine::{Code, Error, Result};
use fleetdb_functions::errors::unsupported;
use fleetdb_functions::names::{NEXT_NUMBER, RAISE_NUMBERS, READ_CSV, READ_PARQUET};
use std::ops::ControlFlow;

/// The classification of a statement ([`Statement::command`]).
///
/// ```
/// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
/// use fleetdb_query::{Access, Session};
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
/// let access = |sql| session.parse_one(sql).unwrap().command().access;
/// assert_eq!(access("SELECT 1"), Access::Read);
/// assert_eq!(access("EXPLAIN ANALYZE INSERT INTO t VALUES (1)"), Access::Write);
/// assert_eq!(access("WITH a AS (INSERT INTO t VALUES (1)) SELECT 1"), Access::Write);
/// assert_eq!(access("COPY (INSERT INTO t VALUES (1)) TO STDOUT"), Access::Write);
/// assert_eq!(access("COPY t TO '/etc/passwd.csv'"), Access::Admin);
/// assert_eq!(access("SELECT * FROM '/etc/passwd.csv'"), Access::Admin);
/// assert_eq!(access("SELECT nextval('t')"), Access::Write);
/// ```
#[derive(Clone, Debug)]
pub struct Command {
    /// How the statement is run, or an error ([`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input))
    /// if it has a form or an option that is not supported.
    pub kind: Result<Kind>,
    /// The permission that it needs. Statements not known to be harmless need the highest.
    pub access: Access,
    /// The command tag of what it writes; `None` if it changes neither rows nor tables.
    pub writes: Option<&'static str>,
    /// Whether it affects later statements of its session by more than the rows it writes.
    pub changes_session: bool,
}

/// The permission needed to run a statement; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Read tables.
    Read,
    /// Write rows.
    Write,
    /// Change tables, read and write local files, and everything else.
    Admin,
}

/// How a session or a server runs a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Returns rows.
    Query,
    /// An INSERT, or a query whose WITH writes.
    Insert,
    /// Begins a transaction.
    Begin,
    /// Commits the transaction.
    Commit,
    /// Rolls the transaction back.
    Rollback,
    /// Rolls back to a savepoint, by name.
    RollbackTo(String),
    /// Sets a savepoint, by name.
    Savepoint(String),
    /// Removes a savepoint, by name.
    Release(String),
    /// Sets or resets a session setting ([`Session::set`](crate::Session::set)); holds the command
    /// tag.
    Setting(&'static str),
    /// Resets everything, including cursors.
    Discard,
    /// Has no effect; holds the command tag.
    Nothing(&'static str),
    /// Shows a setting, by name.
    Show(String),
    /// Receives rows from the client.
    CopyFromStdin(CopyIn),
    /// Sends rows to the client.
    CopyToStdout(CopyOut),
    /// Declares a cursor.
    Declare(Declare),
    /// Fetches rows from a cursor: its name and the number of rows; `None` fetches all remaining
    /// rows.
    Fetch(String, Option<usize>),
    /// Skips rows of a cursor; the parameters are those of [`Kind::Fetch`].
    Move(String, Option<usize>),
    /// Closes a cursor by name; `None` closes all.
    Close(Option<String>),
    /// Creates, alters or drops a table or view, effective at once even in a transaction; holds the command
    /// tag.
    Definition(&'static str),
    /// Any other statement.
    Other,
}

/// `DECLARE name CURSOR [WITH HOLD] FOR query`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declare {
    /// The cursor's name.
    pub name: String,
    /// The query that returns the rows.
    pub query: String,
    /// Whether the cursor outlives its transaction.
    pub holds: bool,
}

impl Statement {
    /// What the statement does.
    pub fn command(&self) -> Command {
        of_parsed(self.tree())
    }
}

impl Command {
    fn of(kind: Result<Kind>, access: Access) -> Self {
        Self { kind, access, writes: None, changes_session: false }
    }

    fn reading(kind: Kind) -> Self {
        Self::of(Ok(kind), Access::Read)
    }

    fn writing(kind: Kind, tag: &'static str) -> Self {
        Self { writes: Some(tag), ..Self::of(Ok(kind), Access::Write) }
    }

    fn defining(kind: Kind, tag: &'static str) -> Self {
        Self { writes: Some(tag), ..Self::of(Ok(kind), Access::Admin) }
    }

    fn changing_session(self) -> Self {
        Self { changes_session: true, ..self }
    }

    /// The command of an EXPLAIN of this one, which runs it with `analyze`.
    fn explained(self, analyze: bool) -> Self {
        let writes = self.writes.filter(|_| analyze);
        Self { writes, ..Self::of(Ok(Kind::Query), self.access) }
    }
}

fn of_parsed(statement: &ParsedStatement) -> Command {
    match statement {
        ParsedStatement::Statement(sql) => of_sql(sql),
        ParsedStatement::Explain(explain) => of_parsed(&explain.statement).explained(explain.options.analyze),
        ParsedStatement::Reset(_) if sets_datafusion(statement) => {
            Command::of(Ok(Kind::Other), Access::Admin).changing_session()
        }
        ParsedStatement::Reset(_) => Command::reading(Kind::Setting("RESET")).changing_session(),
        _ => Command::of(Ok(Kind::Other), Access::Admin),
    }
}

fn of_sql(sql: &SqlStatement) -> Command {
    let mut found = Found::default();
    if !is_plain_insert(sql) {
        let _ = walk(sql, &mut found);
    }
    let command = of_kind(sql, &found);
    let access = match found {
        Found { reads_files: true, .. } => Access::Admin,
        Found { takes_numbers: true, .. } => command.access.max(Access::Write),
        Found { .. } => return command,
    };
    let writes = command.writes.or(found.takes_numbers.then_some("nextval()"));
    Command { access, writes, ..command }
}

/// Whether a statement inserts literals and parameters alone. It may have many of them.
fn is_plain_insert(sql: &SqlStatement) -> bool {
    let SqlStatement::Insert(Insert { source: Some(query), on: None, returning: None, .. }) = sql else { return false };
    let is_bare = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
    match query.body.as_ref() {
        SetExpr::Values(values) if is_bare => {
            values.rows.iter().flat_map(|row| row.iter()).all(|value| matches!(value, Expr::Value(_)))
        }
        _ => false,
    }
}

/// What a statement contains that needs a permission.
#[derive(Default)]
struct Found {
    /// A statement that writes, such as in `WITH a AS (INSERT ...) INSERT ...`, also a statement that
    /// writes itself.
    writes_rows: bool,
    reads_files: bool,
    takes_numbers: bool,
}

impl Visitor for Found {
    type Break = ();

    fn pre_visit_statement(&mut self, sql: &SqlStatement) -> ControlFlow<()> {
        self.writes_rows |= !matches!(sql, SqlStatement::Query(_) | SqlStatement::Copy { .. });
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let function = match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => name,
            _ => return ControlFlow::Continue(()),
        };
        self.reads_files |= is_called(function, &[READ_PARQUET, READ_CSV]);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr {
            self.takes_numbers |= is_called(&call.name, &[NEXT_NUMBER, RAISE_NUMBERS]);
            self.reads_files |= is_called(&call.name, &[READ_PARQUET, READ_CSV]);
        }
        ControlFlow::Continue(())
    }
}

fn is_called(function: &ObjectName, names: &[&str]) -> bool {
    let name = function.0.last().and_then(|part| part.as_ident()).map(identifier);
    name.is_some_and(|name| names.contains(&name.as_str()))
}

fn of_kind(sql: &SqlStatement, found: &Found) -> Command {
    match sql {
        SqlStatement::Query(_) if found.writes_rows => Command::writing(Kind::Insert, "INSERT"),
        SqlStatement::Query(_)
        | SqlStatement::ShowTables { .. }
        | SqlStatement::ShowColumns { .. }
        | SqlStatement::ShowFunctions { .. }
        | SqlStatement::ExplainTable { .. } => Command::reading(Kind::Query),
        SqlStatement::Explain { statement, analyze, .. } => of_sql(statement).explained(*analyze),
        SqlStatement::ShowVariable { variable } => Command::reading(Kind::Show(shown_name(variable))),

        SqlStatement::Commit { chain: true, .. } | SqlStatement::Rollback { chain: true, .. } => {
            Command::of(Err(unsupported("AND CHAIN")), Access::Read)
        }
        SqlStatement::StartTransaction { .. } => Command::reading(Kind::Begin),
        SqlStatement::Commit { .. } => Command::reading(Kind::Commit),
        SqlStatement::Rollback { savepoint: None, .. } => Command::reading(Kind::Rollback),
        SqlStatement::Rollback { savepoint: Some(name), .. } => Command::reading(Kind::RollbackTo(identifier(name))),
        SqlStatement::Savepoint { name } => Command::reading(Kind::Savepoint(identifier(name))),
        SqlStatement::ReleaseSavepoint { name } => Command::reading(Kind::Release(identifier(name))),

        SqlStatement::Insert(_) => Command::writing(Kind::Insert, "INSERT"),
        SqlStatement::Update(_) => Command::writing(Kind::Other, "UPDATE"),
        SqlStatement::Delete(_) => Command::writing(Kind::Other, "DELETE"),
        SqlStatement::Merge(_) => Command::writing(Kind::Other, "MERGE"),
        SqlStatement::Truncate(_) => Command::writing(Kind::Other, "TRUNCATE TABLE"),

        SqlStatement::CreateTable(create) if create.temporary || temporary_name(&create.name).is_some() => {
            Command::writing(Kind::Other, "CREATE TABLE").changing_session()
        }
        SqlStatement::CreateTable(create) if create.query.is_some() => Command::defining(Kind::Other, "CREATE TABLE"),
        SqlStatement::CreateTable(_) => Command::defining(Kind::Definition("CREATE TABLE"), "CREATE TABLE"),
        SqlStatement::AlterTable(_) => Command::defining(Kind::Definition("ALTER TABLE"), "ALTER TABLE"),
        SqlStatement::CreateView(_) => Command::defining(Kind::Definition("CREATE VIEW"), "CREATE VIEW"),
        SqlStatement::Drop { object_type: ObjectType::View, .. } => {
            Command::defining(Kind::Definition("DROP VIEW"), "DROP VIEW")
        }
        SqlStatement::Drop { object_type: ObjectType::Table, names, .. }
            if names.iter().all(|name| temporary_name(name).is_some()) =>
        {
            Command::writing(Kind::Other, "DROP TABLE")
        }
        SqlStatement::Drop { .. } => Command::defining(Kind::Definition("DROP TABLE"), "DROP TABLE"),

        // DataFusion's settings include the memory for queries.
        SqlStatement::Set(set) if sets_datafusion_by(set) => {
            Command::of(Ok(Kind::Other), Access::Admin).changing_session()
        }
        SqlStatement::Set(_) => Command::reading(Kind::Setting("SET")).changing_session(),
        SqlStatement::Reset(_) => Command::reading(Kind::Setting("RESET")).changing_session(),
        SqlStatement::Discard { object_type: DiscardObject::ALL } => Command::reading(Kind::Discard).changing_session(),
        SqlStatement::Discard { object_type: DiscardObject::TEMP } => Command::reading(Kind::Other).changing_session(),
        SqlStatement::Discard { .. } => Command::reading(Kind::Nothing("DISCARD")).changing_session(),
        SqlStatement::Prepare { .. } | SqlStatement::Deallocate { .. } => {
            Command::reading(Kind::Other).changing_session()
        }
        // There are no notifications, and no statistics to collect.
        SqlStatement::UNLISTEN { .. } => Command::reading(Kind::Nothing("UNLISTEN")),
        SqlStatement::Analyze(_) => Command::reading(Kind::Nothing("ANALYZE")),
        // Comments are not stored; programs send them when they create tables.
        SqlStatement::Comment { .. } => Command::of(Ok(Kind::Nothing("COMMENT")), Access::Admin),

        SqlStatement::Copy { .. } => of_copy(sql, found),

        SqlStatement::Declare { stmts } => {
            Command::of(declare(stmts).map(Kind::Declare), Access::Read).changing_session()
        }
        SqlStatement::Fetch { name, direction, into, .. } => {
            let kind = |count| match into {
                None => Kind::Fetch(identifier(name), count),
                Some(_) => Kind::Move(identifier(name), count),
            };
            Command::of(fetch_count(direction).map(kind), Access::Read)
        }
        SqlStatement::Close { cursor: CloseCursor::All } => Command::reading(Kind::Close(None)),
        SqlStatement::Close { cursor: CloseCursor::Specific { name } } => {
            Command::reading(Kind::Close(Some(identifier(name))))
        }
        _ => Command::of(Ok(Kind::Other), Access::Admin),
    }
}

fn of_copy(sql: &SqlStatement, found: &Found) -> Command {
    let SqlStatement::Copy { to, target, .. } = sql else { return Command::of(Ok(Kind::Other), Access::Admin) };
    let (kind, access) = match (target, to) {
        (CopyTarget::Stdin, false) => (CopyIn::of(sql).map(Kind::CopyFromStdin), Access::Write),
        (CopyTarget::Stdin, true) => (CopyIn::of(sql).map(Kind::CopyFromStdin), Access::Admin),
        (CopyTarget::Stdout, true) if found.writes_rows => (CopyOut::of(sql).map(Kind::CopyToStdout), Access::Write),
        (CopyTarget::Stdout, true) => (CopyOut::of(sql).map(Kind::CopyToStdout), Access::Read),
        (CopyTarget::Stdout, false) => (CopyOut::of(sql).map(Kind::CopyToStdout), Access::Admin),
        _ => (Ok(Kind::Other), Access::Admin),
    };
    Command { writes: (!to).then_some("COPY FROM"), ..Command::of(kind, access) }
}

fn declare(cursors: &[ast::Declare]) -> Result<Declare> {
    let [cursor] = cursors else { return Err(Error::invalid("DECLARE takes one cursor")) };
    let ([name], Some(query)) = (cursor.names.as_slice(), &cursor.for_query) else {
        return Err(Error::invalid("DECLARE takes a cursor: DECLARE name CURSOR FOR query"));
    };
    if cursor.scroll == Some(true) || cursor.binary == Some(true) {
        return Err(Error::new(
            Code::NotSupported,
            "DECLARE with SCROLL or BINARY is not supported: cursors go forward",
        ));
    }
    Ok(Declare { name: identifier(name), query: query.to_string(), holds: cursor.hold == Some(true) })
}

/// The number of rows requested; `None` means all.
fn fetch_count(direction: &FetchDirection) -> Result<Option<usize>> {
    let limit = match direction {
        FetchDirection::Next | FetchDirection::Forward { limit: None } => return Ok(Some(1)),
        FetchDirection::All | FetchDirection::ForwardAll => return Ok(None),
        FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => limit.to_string(),
        other => {
            return Err(Error::new(Code::NotSupported, format!("FETCH {other} is not supported: cursors go forward")));
        }
    };
    let wrong =
        |_| Error::new(Code::NotSupported, format!("FETCH {limit} is not supported: give a count of rows, or ALL"));
    limit.parse().map(Some).map_err(wrong)
}

/// The name of the setting in a SHOW.
pub(crate) fn shown_name(variable: &[ast::Ident]) -> String {
    let words: Vec<&str> = variable.iter().map(|word| word.value.as_str()).collect();
    setting_name(&words.join(" "))
}
