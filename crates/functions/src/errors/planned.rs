//! Converts the messages of DataFusion's planner (DataFusion 55: `SqlToRel`, type coercion) to
//! PostgreSQL's wording, with its code. The words that DataFusion puts at the beginning or end of a
//! message decide; the part in between goes into the new message.

use super::types::{name_of, names_of, operation};
use super::values::{cast_of_types, executed_error};
use crate::usages::usage;
use datafusion::common::utils::datafusion_strsim::levenshtein;
use fleetdb_engine::{Code, Error};

/// The catalog and schema of every table, as DataFusion prefixes them to names.
const OWN: &str = "fleetdb.";
const PUBLIC: &str = "public.";

const NO_FUNCTION: &str =
    "No function matches the given name and argument types. You might need to add explicit type casts.";
const NO_OPERATOR: &str =
    "No operator matches the given name and argument types. You might need to add explicit type casts.";

/// How DataFusion's messages begin, with the code and the message that replace them.
const SENTENCES: [(&str, Code, &str); 15] = [
    (
        "Aggregate functions are not allowed in the WHERE",
        Code::Grouping,
        "aggregate functions are not allowed in WHERE",
    ),
    ("Aggregate function calls cannot be nested", Code::Grouping, "aggregate function calls cannot be nested"),
    (
        "Aggregate function calls cannot contain window function calls",
        Code::Grouping,
        "aggregate function calls cannot contain window function calls",
    ),
    ("Order by index starts at 1", Code::InvalidColumnReference, "ORDER BY position 0 is not in select list"),
    (
        "SELECT DISTINCT ON expressions must match",
        Code::InvalidColumnReference,
        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
    ),
    (
        "For SELECT DISTINCT, ORDER BY expressions",
        Code::InvalidColumnReference,
        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
    ),
    ("Too many columns! The subquery", Code::Syntax, "subquery must return only one column"),
    ("Column count doesn't match insert", Code::Syntax, "INSERT has not as many columns as its query gives"),
    ("LIMIT must be >= 0", Code::InvalidLimit, "LIMIT must not be negative"),
    ("OFFSET must be >=0", Code::InvalidOffset, "OFFSET must not be negative"),
    ("Unary operator '-'", Code::UndefinedFunction, "operator - takes a number or an interval"),
    ("Unary operator '+'", Code::UndefinedFunction, "operator + takes a number or an interval"),
    ("Negation only supports", Code::UndefinedFunction, "operator - takes a number or an interval"),
    (
        "Substring without for/from",
        Code::UndefinedFunction,
        "substring needs where to begin, as in substring(text FROM 2)",
    ),
    ("Check constraints are not", Code::NotSupported, "CHECK is not supported: the primary key is the one constraint"),
];

/// Converts a planner's message to an error; if it is unknown, with the code `other`.
pub(super) fn planned_error(message: &str, other: Code) -> Error {
    let sentence = message.strip_prefix("Error during planning: ").unwrap_or(message);
    let sentence = sentence.trim_end_matches('.');
    let rules = [cast_of_types, name, call, operator, condition, group, rows, unsupported];
    if let Some(error) = rules.iter().find_map(|rule| rule(sentence)) {
        return error;
    }
    match SENTENCES.iter().find(|(begin, ..)| sentence.starts_with(begin)) {
        Some((_, code, words)) => Error::new(*code, *words),
        None => match executed_error(sentence) {
            error if error.code() != Code::InvalidParameter => error,
            error => Error::new(other, error.to_string()),
        },
    }
}

/// The part between a beginning and an end that the library wrote.
fn between<'a>(sentence: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    sentence.strip_prefix(begin)?.strip_suffix(end)
}

/// Whether two names are so similar that one may be a misspelling of the other.
pub(super) fn are_close(one: &str, other: &str) -> bool {
    let length = one.chars().count();
    // Any name would be close to a name of one letter.
    let most = if length > 1 { (length / 3).max(1) } else { 0 };
    levenshtein(&one.to_lowercase(), &other.to_lowercase()) <= most
}

/// Names that do not exist, or that are given twice.
fn name(sentence: &str) -> Option<Error> {
    if let Some(name) = between(sentence, "table '", "' not found") {
        return Some(undefined_table(name));
    }
    if let Some(name) = between(sentence, "table function '", "' not found") {
        return Some(Error::new(Code::UndefinedFunction, format!("function {name} does not exist")));
    }
    if let Some(rest) = sentence.strip_prefix("Invalid function '") {
        let (name, suggested) = rest.split_once("'.\nDid you mean '").unwrap_or((rest, ""));
        return Some(unknown_function(name, suggested.trim_end_matches("'?")));
    }
    if let Some(name) = sentence.strip_prefix("Invalid qualifier ") {
        return Some(missing_from(name));
    }
    if let Some(name) = sentence.strip_prefix("Column for primary key not found in schema: ") {
        return Some(Error::new(Code::UndefinedColumn, format!("column \"{name}\" named in key does not exist")));
    }
    if let Some(rest) = sentence.strip_prefix("Projections require unique expression names but the expression \"") {
        let (column, _) = rest.split_once("\" at position ")?;
        return Some(Error::new(Code::DuplicateColumn, format!("column \"{column}\" specified more than once")));
    }
    if let Some(name) = between(sentence, "The window ", " is not defined!") {
        return Some(Error::new(Code::UndefinedObject, format!("window \"{name}\" does not exist")));
    }
    if let Some(name) = between(sentence, "'", "' is not a variable which can be viewed with 'SHOW'") {
        let message = format!("unrecognized configuration parameter \"{name}\"");
        return Some(Error::new(Code::UndefinedObject, message));
    }
    between(sentence, "WITH query name \"", "\" specified more than once")
        .map(|name| Error::new(Code::DuplicateAlias, format!("WITH query name \"{name}\" specified more than once")))
}

fn undefined_table(name: &str) -> Error {
    let Some(name) = name.strip_prefix(OWN) else {
        let message = format!("cross-database references are not implemented: \"{name}\"");
        return Error::new(Code::NotSupported, message);
    };
    let name = name.strip_prefix(PUBLIC).unwrap_or(name);
    Error::new(Code::UndefinedTable, format!("relation \"{name}\" does not exist"))
}

/// The error for a column qualified by a table that is not in FROM.
pub(super) fn missing_from(table: &str) -> Error {
    Error::new(Code::UndefinedTable, format!("missing FROM-clause entry for table \"{table}\""))
}

fn unknown_function(name: &str, suggested: &str) -> Error {
    let is_window = datafusion::functions_window::all_default_window_functions().iter().any(|of| of.name() == name);
    if is_window {
        return Error::new(Code::WrongObject, format!("window function {name} requires an OVER clause"));
    }
    let error = Error::new(Code::UndefinedFunction, format!("function {name} does not exist"));
    match are_close(name, suggested) {
        true => error.with_hint(format!("Perhaps you meant the function \"{suggested}\".")),
        false => error,
    }
}

/// The error for a call with arguments that the function does not accept.
fn undefined_function(name: &str, types: Option<&str>) -> Error {
    if let ("array_element", Some(of)) = (name, types.and_then(|types| names_of(types).into_iter().next())) {
        let message = format!("cannot subscript type {of} because it does not support subscripting");
        return Error::new(Code::TypeMismatch, message);
    }
    let message = match types {
        Some(types) => format!("function {name}({}) does not exist", names_of(types).join(", ")),
        None => format!("function {name} does not take these arguments"),
    };
    let hint = usage(name).map_or_else(|| NO_FUNCTION.to_owned(), |usage| format!("Use {usage}."));
    Error::new(Code::UndefinedFunction, message).with_hint(hint)
}

/// Calls with wrong arguments. The planner's message ends with the function's name and the argument
/// types, after a sentence about the types alone.
fn call(sentence: &str) -> Option<Error> {
    let written = sentence.split_once("No function matches the given name and argument types '").map(|(_, rest)| rest);
    if let Some((call, _)) = written.and_then(|rest| rest.split_once("'. You might need to add explicit type casts")) {
        let (name, types) = call.split_once('(')?;
        return Some(undefined_function(name, types.strip_suffix(')')));
    }
    let begins =
        ["Function '", "The function '", "Failed to coerce arguments to satisfy a call to '", "For function '"];
    if let Some(rest) = begins.iter().find_map(|begin| sentence.strip_prefix(begin)) {
        return Some(undefined_function(rest.split('\'').next()?, None));
    }
    if sentence.ends_with("must be an INTEGER, TIMESTAMP, DATE or NULL") || sentence.starts_with("Argument #") {
        return Some(undefined_function("generate_series", None));
    }
    None
}

fn undefined_operator(written: &str) -> Option<Error> {
    let (left, operator, right) = operation(written)?;
    let message = format!("operator does not exist: {left} {operator} {right}");
    Some(Error::new(Code::UndefinedFunction, message).with_hint(NO_OPERATOR))
}

/// Operators that do not accept the types of their operands.
fn operator(sentence: &str) -> Option<Error> {
    const OPERATIONS: [&str; 8] = [
        "Cannot coerce arithmetic expression ",
        "Cannot infer common argument type for comparison operation ",
        "Cannot infer common argument type for regex operation ",
        "Cannot infer common type for bitwise operation ",
        "Cannot infer common string type for string concat operation ",
        "Cannot infer common argument type for operation ",
        "Cannot infer common argument type for AtAt operation ",
        "Cannot get result type for temporal operation ",
    ];
    if let Some(written) = OPERATIONS.iter().find_map(|begin| sentence.strip_prefix(begin)) {
        let written = written.strip_suffix(" to valid types").unwrap_or(written);
        // The name of a record type contains colons as well.
        return undefined_operator(written.split(": ").next()?).or_else(|| undefined_operator(written));
    }
    if let Some(written) = sentence.strip_prefix("Cannot infer common argument type for logical boolean operation ") {
        let (left, operator, right) = operation(written)?;
        let wrong = if left == "boolean" { right } else { left };
        return Some(not_boolean(operator, &wrong));
    }
    if let Some(types) = between(sentence, "There isn't a common type to coerce ", " expression") {
        let (left, rest) = types.split_once(" and ")?;
        let (right, operator) = rest.rsplit_once(" in ")?;
        return undefined_operator(&format!("{left} {operator} {right}"));
    }
    if let Some(found) = sentence.strip_prefix("Unary operator 'NOT' requires a boolean expression, got ") {
        return Some(not_boolean("NOT", &name_of(found)));
    }
    if let Some(types) = sentence.strip_prefix("Can not find compatible types to compare ") {
        let (left, right) = types.split_once(" with [")?;
        let right = names_of(right.trim_end_matches(']')).pop()?;
        let message = format!("operator does not exist: {} = {right}", name_of(left));
        return Some(Error::new(Code::UndefinedFunction, message).with_hint(NO_OPERATOR));
    }
    let types = sentence.strip_prefix("expr type ")?;
    let (left, rest) = types.split_once(" can't cast to ")?;
    undefined_operator(&format!("{left} = {}", rest.rsplit_once(" in ")?.0))
}

fn not_boolean(of: &str, found: &str) -> Error {
    Error::new(Code::TypeMismatch, format!("argument of {of} must be type boolean, not type {found}"))
}

fn not_matched(of: &str, one: &str, other: &str) -> Error {
    Error::new(Code::TypeMismatch, format!("{of} types {one} and {other} cannot be matched"))
}

/// Values of the wrong type for their place.
fn condition(sentence: &str) -> Option<Error> {
    if let Some(rest) = sentence.strip_prefix("Cannot create filter with non-boolean predicate '") {
        let (_, found) = rest.rsplit_once("' returning ")?;
        return Some(not_boolean("WHERE", &name_of(found)));
    }
    if let Some((of, found)) = sentence.split_once(" must be boolean type, but got ") {
        let of = if of == "Join condition" { "JOIN/ON" } else { "WHERE" };
        return Some(not_boolean(of, &name_of(found)));
    }
    if let Some(rest) = sentence.strip_prefix("Failed to coerce then (") {
        let (then, rest) = rest.split_once(") and else (")?;
        let other = names_of(rest.split_once(") to common types").map_or(rest, |(types, _)| types));
        let then = names_of(then);
        let (one, other) = match other.as_slice() {
            [other] if Some(other) != then.first() => (then.first()?, other),
            _ => (then.first()?, then.iter().find(|of| Some(*of) != then.first())?),
        };
        return Some(not_matched("CASE", one, other));
    }
    if let Some(rest) = sentence.strip_prefix("Failed to coerce case (") {
        let (case, rest) = rest.split_once(") and when (")?;
        let when = names_of(rest.split_once(") to common types").map_or(rest, |(types, _)| types)).pop()?;
        let message = format!("operator does not exist: {} = {when}", name_of(case));
        return Some(Error::new(Code::UndefinedFunction, message).with_hint(NO_OPERATOR));
    }
    if let Some(rest) = sentence.strip_prefix("Incompatible inputs for Union: Previous inputs were of type ") {
        let (one, rest) = rest.split_once(", but got incompatible type ")?;
        return Some(not_matched("UNION", &name_of(one), &name_of(rest.split(" on column").next()?)));
    }
    let (of, found) = sentence.strip_prefix("Expected ")?.split_once(" to be an integer or null, but got ")?;
    let message = format!("argument of {of} must be type bigint, not type {}", name_of(found));
    Some(Error::new(Code::TypeMismatch, message))
}

/// GROUP BY, column positions, and window frames.
fn group(sentence: &str) -> Option<Error> {
    if let Some((_, rest)) =
        sentence.split_once(" must be in GROUP BY or an aggregate function: While expanding wildcard, column \"")
    {
        let (column, _) = rest.rsplit_once("\" must appear in the GROUP BY clause")?;
        let message =
            format!("column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function");
        return Some(Error::new(Code::Grouping, message));
    }
    if sentence.starts_with("HAVING clause references") || sentence.starts_with("Aggregate function") {
        return match SENTENCES.iter().find(|(begin, ..)| sentence.starts_with(begin)) {
            Some(_) => None,
            None => Some(Error::new(Code::Grouping, sentence)),
        };
    }
    let position = sentence.strip_prefix("Cannot find column with position ").map(|rest| ("GROUP BY", rest));
    let position = position
        .or_else(|| sentence.strip_prefix("Order by column out of bounds, specified: ").map(|rest| ("ORDER BY", rest)));
    if let Some((of, rest)) = position {
        let number = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        let message = format!("{of} position {number} is not in select list");
        return Some(Error::new(Code::InvalidColumnReference, message));
    }
    let frame = sentence.strip_prefix("Invalid window frame: ")?;
    Some(Error::new(Code::Windowing, format!("invalid window frame: {frame}")))
}

/// Wrong numbers of values or columns.
fn rows(sentence: &str) -> Option<Error> {
    if let Some(rest) = sentence.strip_prefix("Inconsistent data length across values list: got ") {
        let (got, rest) = rest.split_once(" values in row ")?;
        let (row, expected) = rest.split_once(" but expected ")?;
        let (got, expected) = (got.parse::<usize>().ok()?, expected.parse::<usize>().ok()?);
        // The first row is compared with the table, the others with the first row.
        let message = match row {
            "0" if got > expected => "INSERT has more expressions than target columns",
            "0" => "INSERT has more target columns than expressions",
            _ => "VALUES lists must all be the same length",
        };
        return Some(Error::new(Code::Syntax, message));
    }
    if let Some(of) = sentence.strip_suffix(" queries have different number of columns") {
        let message = format!("each {of} query must have the same number of columns");
        return Some(Error::new(Code::Syntax, message));
    }
    let (available, rest) = sentence.strip_prefix("Source table contains ")?.split_once(" columns but only ")?;
    let named = rest.split(' ').next()?;
    let columns = |count: &str| if count == "1" { "1 column".to_owned() } else { format!("{count} columns") };
    let message = format!("the table has {} available but {} specified", columns(available), columns(named));
    Some(Error::new(Code::InvalidColumnReference, message))
}

/// PostgreSQL's types that FleetDB does not have.
const KNOWN_TYPES: [&str; 24] = [
    "bigserial",
    "bit",
    "box",
    "cidr",
    "circle",
    "inet",
    "json",
    "jsonb",
    "line",
    "lseg",
    "macaddr",
    "money",
    "name",
    "path",
    "point",
    "polygon",
    "serial",
    "smallserial",
    "tsquery",
    "tsvector",
    "uuid",
    "varbit",
    "xml",
    "oid",
];

/// Unsupported features.
fn unsupported(sentence: &str) -> Option<Error> {
    let sentence = sentence.strip_prefix("This feature is not implemented: ").unwrap_or(sentence);
    let not = |what: &str| Some(Error::new(Code::NotSupported, format!("{what} is not supported")));
    if let Some(name) = sentence.strip_prefix("Unsupported SQL type ") {
        let lower = name.to_lowercase();
        let bare = lower.split('(').next().unwrap_or_default().trim();
        return match KNOWN_TYPES.contains(&bare) {
            true => not(&format!("type {lower}")),
            false => {
                let name = name.trim_matches('"');
                Some(Error::new(Code::UndefinedObject, format!("type \"{name}\" does not exist")))
            }
        };
    }
    if let Some(statement) = sentence.strip_prefix("Unsupported SQL statement: ") {
        return not(&head(statement));
    }
    if let Some(node) = sentence.strip_prefix("Unsupported ast node ") {
        let node = node.strip_prefix("in sqltorel: ").unwrap_or(node);
        let end = node.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(node.len());
        return not(&node[..end].to_uppercase());
    }
    if sentence.starts_with("Only `DROP TABLE") {
        return Some(Error::new(Code::NotSupported, "only DROP TABLE is supported"));
    }
    if sentence.starts_with("Unsupported ") || sentence.ends_with("not supported") {
        let mut letters = sentence.chars();
        let first = letters.next().map(|c| c.to_ascii_lowercase());
        let mut message: String = first.into_iter().chain(letters).collect();
        if let Some(what) = message.strip_suffix("s not supported").filter(|what| !what.ends_with(" i")) {
            message = format!("{what}s are not supported");
        }
        return Some(Error::new(Code::NotSupported, message));
    }
    None
}

/// The name of a statement: its first words, which sqlparser writes in capitals.
fn head(statement: &str) -> String {
    let is_keyword = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase());
    let words = statement.split(' ').take_while(is_keyword).take(2).collect::<Vec<_>>();
    match words.as_slice() {
        [first @ ("CREATE" | "DROP" | "ALTER"), second] => format!("{first} {second}"),
        [first, ..] => (*first).to_owned(),
        [] => "this statement".to_owned(),
    }
}
