//! `--create`: makes the table from the names and the first rows of a file.

use super::Args;
use crate::stdout::print_line;
use fleetdb_engine::{
    ColumnDefinition, ColumnType, Database, Error, Result, TableDefinition, TableSchema, Unit, sql_identifier,
};
use fleetdb_query::value_of_text;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

/// The rows that types are guessed from.
pub const SAMPLED_ROWS: usize = 10_000;

/// Creates the table for a file with these columns. On a terminal it shows the statement and asks first.
pub fn create(db: &Database, args: &Args, name: &str, columns: Vec<(String, ColumnType)>) -> Result<Arc<TableSchema>> {
    let mut definition = TableDefinition::new(name);
    let column = |(name, column_type)| ColumnDefinition { name, column_type, nullable: true, default: None };
    definition.columns = columns.into_iter().map(column).collect();
    definition.primary_key = if args.key.is_empty() { definition.likely_key() } else { args.key.clone() };
    for column in &mut definition.columns {
        column.nullable = !definition.primary_key.contains(&column.name);
    }
    let statement = statement(&definition);
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        eprint!("{statement}\nCreate this table? [Y/n] ");
        std::io::stderr().flush().ok();
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map_err(|e| Error::io("read the answer", &e))?;
        if !matches!(answer.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes") {
            return Err(Error::invalid(
                "the table was not created: create it with fleetdb sql, or give --key with the names of the columns \
                 that identify a row",
            ));
        }
    } else {
        print_line!("{statement}");
    }
    db.create_table(&definition)
}

/// The definition as SQL.
fn statement(definition: &TableDefinition) -> String {
    let column =
        |column: &ColumnDefinition| format!("{} {}", sql_identifier(&column.name), column.column_type.to_sql());
    let columns: Vec<String> = definition.columns.iter().map(column).collect();
    let key: Vec<String> = definition.primary_key.iter().map(|name| sql_identifier(name)).collect();
    format!(
        "CREATE TABLE {} ({}, PRIMARY KEY ({}));",
        sql_identifier(&definition.name),
        columns.join(", "),
        key.join(", ")
    )
}

/// The type that all of these texts fit; TEXT if there are none. With `has_epochs`, numbers in a column
/// that is named like a time are times.
pub fn type_of<'a>(
    name: &str,
    texts: impl Iterator<Item = &'a str> + Clone,
    has_epochs: bool,
    has_comma: bool,
) -> ColumnType {
    let all = |fits: &dyn Fn(&str) -> bool| texts.clone().all(fits);
    if texts.clone().next().is_none() {
        return ColumnType::Utf8;
    }
    let is_of = |column_type: ColumnType| move |text: &str| value_of_text(text, column_type).is_ok();
    let is_number = |text: &str| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.,eE".contains(&byte));
        is_plain && value_of_text(&text.replace(if has_comma { ',' } else { '\0' }, "."), ColumnType::Float64).is_ok()
    };
    if all(&is_number) {
        return match all(&is_of(ColumnType::Int64)) {
            _ if has_epochs && is_named_as_time(name) => ColumnType::Timestamp(Unit::Nanosecond),
            true => ColumnType::Int64,
            false => ColumnType::Float64,
        };
    }
    if all(&|text| ["true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word))) {
        return ColumnType::Boolean;
    }
    if all(&is_of(ColumnType::Date32)) && all(&|text| text.len() <= 10) {
        return ColumnType::Date32;
    }
    if all(&is_of(ColumnType::TimestampUtc(Unit::Nanosecond))) && all(&has_zone) {
        return ColumnType::TimestampUtc(Unit::Nanosecond);
    }
    if all(&is_of(ColumnType::Timestamp(Unit::Nanosecond))) {
        return ColumnType::Timestamp(Unit::Nanosecond);
    }
    ColumnType::Utf8
}

fn is_named_as_time(name: &str) -> bool {
    ["time", "timestamp", "ts", "datetime", "date", "epoch"].iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// Whether a time has a zone: `Z`, or an offset behind its time of day.
fn has_zone(text: &str) -> bool {
    let text = text.trim_end();
    text.ends_with(['Z', 'z'])
        || text
            .rfind(['+', '-'])
            .is_some_and(|sign| text.rfind(':').is_some_and(|colon| sign + 4 >= colon && sign > 10))
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod tests;
