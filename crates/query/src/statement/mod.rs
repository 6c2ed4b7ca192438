//! A parsed statement and its properties.

pub(crate) mod asof_joins;
pub(crate) mod built;
pub(crate) mod chains;
pub mod clauses;
pub mod depth;
pub mod generated;
pub mod grammar;
pub(crate) mod long_lists;
pub(crate) mod memory;
pub(crate) mod named;
pub mod named_queries;
pub mod names;
pub(crate) mod plain_text;
pub mod setting_names;
pub mod stack;
pub(crate) mod table_parameters;
pub mod walk;
pub mod words;

use crate::statement::depth::LIGHT_LEVELS;
use crate::statement::memory::StatementMemory;
use crate::statement::names::identifier;
use crate::statement::setting_names::{is_of_datafusion, sets_datafusion, setting_name};
use crate::statement::stack::{Deep, with_stack};
use crate::statement::walk::{visit_expressions, visit_expressions_mut, visit_statements};
use crate::transfer::copy_stream::{CopyIn, CopyOut};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{
    self, CloseCursor, CopyTarget, DiscardObject, Expr, FetchDirection, Set, Statement as SqlStatement, UnaryOperator,
    Value as Literal,
};
use fleetdb_engine::{Code, Error, Result, Value};
use fleetdb_plan::binding::number;
use fleetdb_plan::errors::unsupported;
use std::ops::ControlFlow;

/// A parsed statement.
#[derive(Clone)]
pub struct Statement(pub(crate) Deep<ParsedStatement>, pub(crate) StatementMemory);

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

/// How a server handles a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Returns rows.
    Query,
    /// An INSERT.
    Insert,
    /// Begins a transaction.
    Begin,
    /// Commits the transaction.
    Commit,
    /// Rolls the transaction back.
    Rollback,
    /// Rolls back to a savepoint, by name.
    RollbackTo(String),
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
    /// Creates, alters or drops a table, effective at once even in a transaction; holds the command
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

impl std::fmt::Display for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Statement {
    /// The permission needed to run the statement. Statements not known to be harmless need the
    /// highest.
    ///
    /// ```
    /// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
    /// use fleetdb_query::{Access, Session};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
    /// let access = |sql| session.parse_one(sql).unwrap().access();
    /// assert_eq!(access("SELECT 1"), Access::Read);
    /// assert_eq!(access("EXPLAIN ANALYZE INSERT INTO t VALUES (1)"), Access::Write);
    /// assert_eq!(access("WITH a AS (INSERT INTO t VALUES (1)) SELECT 1"), Access::Write);
    /// assert_eq!(access("COPY (INSERT INTO t VALUES (1)) TO STDOUT"), Access::Write);
    /// assert_eq!(access("COPY t TO '/etc/passwd.csv'"), Access::Admin);
    /// ```
    pub fn access(&self) -> Access {
        let mut statement = &*self.0;
        while let ParsedStatement::Explain(explain) = statement {
            statement = &explain.statement;
        }
        match statement {
            ParsedStatement::Statement(sql) => access_of(sql),
            ParsedStatement::Reset(_) if !sets_datafusion(statement) => Access::Read,
            _ => Access::Admin,
        }
    }

    /// Whether the statement affects later statements of its session by more than the rows it
    /// writes.
    pub fn changes_session(&self) -> bool {
        match &*self.0 {
            ParsedStatement::Reset(_) => true,
            ParsedStatement::Statement(sql) => matches!(
                sql.as_ref(),
                SqlStatement::Set(_)
                    | SqlStatement::Reset(_)
                    | SqlStatement::Discard { .. }
                    | SqlStatement::Prepare { .. }
                    | SqlStatement::Deallocate { .. }
                    | SqlStatement::Declare { .. }
            ),
            _ => false,
        }
    }

    /// How a server handles the statement.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) for a COPY FROM STDIN or TO STDOUT
    /// with unknown options.
    pub fn kind(&self) -> Result<Kind> {
        let sql = match &*self.0 {
            ParsedStatement::Statement(sql) => sql,
            reset @ ParsedStatement::Reset(_) if !sets_datafusion(reset) => return Ok(Kind::Setting("RESET")),
            ParsedStatement::Explain(_) => return Ok(Kind::Query),
            _ => return Ok(Kind::Other),
        };
        Ok(match sql.as_ref() {
            SqlStatement::Query(_) if writes_rows(sql) => Kind::Insert,
            SqlStatement::Query(_)
            | SqlStatement::ShowTables { .. }
            | SqlStatement::ShowColumns { .. }
            | SqlStatement::ShowFunctions { .. }
            | SqlStatement::Explain { .. }
            | SqlStatement::ExplainTable { .. } => Kind::Query,
            SqlStatement::ShowVariable { variable } => Kind::Show(shown_name(variable)),
            SqlStatement::Commit { chain: true, .. } | SqlStatement::Rollback { chain: true, .. } => {
                return Err(unsupported("AND CHAIN"));
            }
            SqlStatement::StartTransaction { .. } => Kind::Begin,
            SqlStatement::Commit { .. } => Kind::Commit,
            SqlStatement::Rollback { savepoint: None, .. } => Kind::Rollback,
            SqlStatement::Rollback { savepoint: Some(name), .. } => Kind::RollbackTo(identifier(name)),
            SqlStatement::Insert(_) => Kind::Insert,
            SqlStatement::CreateTable(create) if create.query.is_none() => Kind::Definition("CREATE TABLE"),
            SqlStatement::AlterTable(_) => Kind::Definition("ALTER TABLE"),
            SqlStatement::Drop { .. } => Kind::Definition("DROP TABLE"),
            SqlStatement::Set(_) if !sets_datafusion(&self.0) => Kind::Setting("SET"),
            SqlStatement::Reset(_) => Kind::Setting("RESET"),
            SqlStatement::Discard { object_type: DiscardObject::ALL } => Kind::Discard,
            SqlStatement::Discard { .. } => Kind::Nothing("DISCARD"),
            // There are no notifications, and no statistics to collect.
            SqlStatement::UNLISTEN { .. } => Kind::Nothing("UNLISTEN"),
            SqlStatement::Analyze(_) => Kind::Nothing("ANALYZE"),
            SqlStatement::Comment { .. } => Kind::Nothing("COMMENT"),
            SqlStatement::Copy { target: CopyTarget::Stdin, .. } => Kind::CopyFromStdin(CopyIn::of(sql)?),
            SqlStatement::Copy { target: CopyTarget::Stdout, .. } => Kind::CopyToStdout(CopyOut::of(sql)?),
            SqlStatement::Declare { stmts } => Kind::Declare(declare(stmts)?),
            SqlStatement::Fetch { name, direction, into: None, .. } => {
                Kind::Fetch(identifier(name), fetch_count(direction)?)
            }
            SqlStatement::Fetch { name, direction, into: Some(_), .. } => {
                Kind::Move(identifier(name), fetch_count(direction)?)
            }
            SqlStatement::Close { cursor: CloseCursor::All } => Kind::Close(None),
            SqlStatement::Close { cursor: CloseCursor::Specific { name } } => Kind::Close(Some(identifier(name))),
            _ => Kind::Other,
        })
    }

    /// The number of parameters: the largest of `$1`, `$2`, ...
    pub fn parameters(&self) -> usize {
        let mut most = 0;
        if let Some(sql) = self.sql() {
            let _ = visit_expressions(sql, |expr| {
                if let Expr::Value(literal) = expr
                    && let Literal::Placeholder(name) = &literal.value
                {
                    most = most.max(number(name).map_or(0, |number| number + 1));
                }
                ControlFlow::<()>::Continue(())
            });
        }
        most
    }

    /// Whether the statement is planned quickly, like [`is_light`](crate::is_light) for its text.
    pub fn is_light(&self) -> bool {
        self.0.levels() <= LIGHT_LEVELS
    }

    /// Releases the memory reserved for the statement, if the caller accounts for it in another
    /// way.
    pub fn give_back_memory(&mut self) {
        self.1 = StatementMemory::default();
    }

    /// Runs a step over the statement with enough stack for its depth.
    pub(crate) fn with_stack<R>(&self, step: impl FnOnce() -> R) -> R {
        with_stack(self.0.levels(), step)
    }

    /// Replaces the parameters `$1`, `$2`, ... by these values, as literals.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if a parameter has no value.
    pub fn with_values(&self, values: &[Value]) -> Result<Self> {
        self.with_parameters(|number| values.get(number).map(literal_of))
    }

    /// Replaces the parameters, counted from 0, by these expressions.
    pub(crate) fn with_parameters(&self, value_of: impl Fn(usize) -> Option<Expr>) -> Result<Self> {
        let mut statement = self.clone();
        let mut inner = &mut *statement.0;
        while let ParsedStatement::Explain(explain) = inner {
            inner = &mut explain.statement;
        }
        let ParsedStatement::Statement(sql) = inner else { return Ok(statement) };
        let put_in = visit_expressions_mut(sql.as_mut(), |expr: &mut Expr| {
            if let Expr::Value(literal) = expr
                && let Literal::Placeholder(name) = &literal.value
            {
                let Some(value) = number(name).and_then(&value_of) else { return ControlFlow::Break(name.clone()) };
                *expr = value;
            }
            ControlFlow::Continue(())
        });
        match put_in {
            ControlFlow::Continue(()) => Ok(statement),
            ControlFlow::Break(name) => Err(Error::invalid(format!("parameter {name} has no value"))),
        }
    }

    /// Marks a FETCH as the MOVE it was written as.
    pub(crate) fn moved(mut self) -> Result<Self> {
        if let ParsedStatement::Statement(sql) = &mut *self.0
            && let SqlStatement::Fetch { into, .. } = sql.as_mut()
        {
            *into = Some(vec![ast::Ident::new("nowhere")].into());
            return Ok(self);
        }
        Err(Error::new(Code::Syntax, "syntax: a MOVE stands by itself"))
    }

    /// The SQL statement, unless it is one of DataFusion's extensions.
    pub fn sql(&self) -> Option<&SqlStatement> {
        match &*self.0 {
            ParsedStatement::Statement(sql) => Some(sql),
            _ => None,
        }
    }
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

/// Whether a query, or a COPY of one, contains statements that write, such as `WITH a AS (INSERT
/// ...) INSERT ...`.
pub(crate) fn writes_rows(query: &SqlStatement) -> bool {
    let writes = |sql: &SqlStatement| match sql {
        SqlStatement::Query(_) | SqlStatement::Copy { .. } => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    visit_statements(query, writes).is_break()
}

fn access_of(sql: &SqlStatement) -> Access {
    match sql {
        SqlStatement::Query(_) | SqlStatement::Copy { to: true, target: CopyTarget::Stdout, .. }
            if writes_rows(sql) =>
        {
            Access::Write
        }
        SqlStatement::Query(_)
        | SqlStatement::Declare { .. }
        | SqlStatement::Fetch { .. }
        | SqlStatement::Close { .. }
        | SqlStatement::ShowTables { .. }
        | SqlStatement::ShowColumns { .. }
        | SqlStatement::ShowVariable { .. }
        | SqlStatement::ShowFunctions { .. }
        | SqlStatement::ExplainTable { .. }
        | SqlStatement::StartTransaction { .. }
        | SqlStatement::Commit { .. }
        | SqlStatement::Rollback { .. }
        | SqlStatement::Savepoint { .. }
        | SqlStatement::ReleaseSavepoint { .. } => Access::Read,
        SqlStatement::Explain { statement, .. } => access_of(statement),
        SqlStatement::Copy { to: false, target: CopyTarget::Stdin, .. } => Access::Write,
        SqlStatement::Copy { to: true, target: CopyTarget::Stdout, .. } => Access::Read,
        // DataFusion's settings include the memory for queries.
        SqlStatement::Set(Set::SingleAssignment { variable, .. }) if is_of_datafusion(&variable.to_string()) => {
            Access::Admin
        }
        SqlStatement::Set(_)
        | SqlStatement::Reset(_)
        | SqlStatement::Discard { .. }
        | SqlStatement::Prepare { .. }
        | SqlStatement::Deallocate { .. }
        | SqlStatement::UNLISTEN { .. }
        | SqlStatement::Analyze(_) => Access::Read,
        SqlStatement::Insert(_) | SqlStatement::Update(_) | SqlStatement::Delete(_) | SqlStatement::Truncate(_) => {
            Access::Write
        }
        _ => Access::Admin,
    }
}

/// The command tag of what a statement writes; `None` if it changes neither rows nor tables.
pub(crate) fn written(statement: &ParsedStatement) -> Option<&'static str> {
    match statement {
        ParsedStatement::Statement(sql) => written_by(sql),
        ParsedStatement::Explain(explain) if explain.options.analyze => written(&explain.statement),
        _ => None,
    }
}

fn written_by(sql: &SqlStatement) -> Option<&'static str> {
    match sql {
        SqlStatement::Query(_) if writes_rows(sql) => Some("INSERT"),
        SqlStatement::Insert(_) => Some("INSERT"),
        SqlStatement::Update(_) => Some("UPDATE"),
        SqlStatement::Delete(_) => Some("DELETE"),
        SqlStatement::Truncate(_) => Some("TRUNCATE TABLE"),
        SqlStatement::Copy { to: false, .. } => Some("COPY FROM"),
        SqlStatement::CreateTable(_) => Some("CREATE TABLE"),
        SqlStatement::AlterTable(_) => Some("ALTER TABLE"),
        SqlStatement::Drop { .. } => Some("DROP TABLE"),
        SqlStatement::Explain { analyze: true, statement, .. } => written_by(statement),
        _ => None,
    }
}

/// The name of the setting in a SHOW.
pub(crate) fn shown_name(variable: &[ast::Ident]) -> String {
    let words: Vec<&str> = variable.iter().map(|word| word.value.as_str()).collect();
    setting_name(&words.join(" "))
}

fn literal_of(value: &Value) -> Expr {
    let number = |text: String| match text.strip_prefix('-') {
        // The minus sign is an operator.
        Some(digits) => Expr::Nested(Box::new(Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(Expr::value(Literal::Number(digits.to_owned(), false))),
        })),
        None => Expr::value(Literal::Number(text, false)),
    };
    match value {
        Value::Null => Expr::value(Literal::Null),
        Value::Boolean(value) => Expr::value(Literal::Boolean(*value)),
        Value::Int(value) => number(value.to_string()),
        Value::UInt(value) => number(value.to_string()),
        Value::Float(value) if value.is_finite() => number(format!("{value:e}")),
        Value::Float(value) => Expr::value(Literal::SingleQuotedString(value.to_string())),
        Value::Text(text) => Expr::value(Literal::SingleQuotedString(text.clone())),
        Value::Binary(bytes) => {
            Expr::value(Literal::HexStringLiteral(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
        }
    }
}
