//! What a database keeps beyond tables and their columns' types: values of columns that a row does not
//! give, conditions on rows, references to other tables, and queries with names.

use crate::check::Condition;
use crate::error::{Code, Error};
use crate::ids::{ColumnId, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The value of a column in a row that does not give one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DefaultValue {
    /// A SQL expression. The engine only keeps it; SQL statements evaluate it.
    Expression(String),
    /// The next of the table's own numbers, as with `GENERATED ... AS IDENTITY`
    /// ([`Database::next_numbers`](crate::Database::next_numbers)).
    Number {
        /// Whether a row must not give the value itself.
        always: bool,
    },
}

/// A query that the database keeps by name. The engine does not read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredQuery {
    /// The query in SQL.
    pub text: String,
    /// The names and types of its columns, as they were when it was stored.
    pub columns: Vec<(String, String)>,
}

/// The queries that a database keeps, by name.
pub type StoredQueries = BTreeMap<String, StoredQuery>;

/// A reference of a table's rows to those of another. It is not enforced: a device may send before it
/// is registered, and its rows must not be lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKey {
    /// Its name, unique in the table.
    pub name: String,
    /// The columns that refer.
    pub columns: Vec<ColumnId>,
    /// The other table, which may have been dropped since.
    pub table: TableId,
    /// The columns of the other table, which may have been dropped since.
    pub referred: Vec<ColumnId>,
}

/// Definition of a [`ForeignKey`], by names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKeyDefinition {
    /// Its name; `None` makes one.
    pub name: Option<String>,
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The other table.
    pub table: String,
    /// The columns of the other table; empty for its primary key.
    pub referred: Vec<String>,
}

/// Definition of a [`Check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckDefinition {
    /// Its name; `None` makes one.
    pub name: Option<String>,
    /// What each row meets. The columns are numbered by their place in the table's definition, or have
    /// the numbers of the table that gets the check.
    pub condition: Condition,
}

/// The error for a name that no table has: it is that of a stored query, or of nothing.
pub(crate) fn no_table<'a>(name: &str, queries: &StoredQueries, tables: impl Iterator<Item = &'a String>) -> Error {
    if queries.contains_key(name) {
        let error = Error::new(Code::WrongObject, format!("\"{name}\" is not a table"));
        return error.with_hint("It is a view: name the tables that it reads.");
    }
    Error::undefined_table(name, tables.map(String::as_str))
}
