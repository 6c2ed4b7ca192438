//! Names of settings in statements.

use datafusion::sql::parser::{ResetStatement, Statement as ParsedStatement};
use datafusion::sql::sqlparser::ast::{Set, Statement as SqlStatement};

/// PostgreSQL's canonical name of a setting.
pub fn setting_name(written: &str) -> String {
    match written.replace('"', "").to_ascii_lowercase().as_str() {
        "transaction isolation level" => "transaction_isolation".to_owned(),
        "time zone" | "time.zone" => "timezone".to_owned(),
        other => other.to_owned(),
    }
}

/// Whether a SET or RESET is for one of DataFusion's settings, which affect planning.
pub(crate) fn sets_datafusion(statement: &ParsedStatement) -> bool {
    match statement {
        ParsedStatement::Reset(ResetStatement::Variable(name)) => is_of_datafusion(&name.to_string()),
        ParsedStatement::Statement(sql) => matches!(sql.as_ref(), SqlStatement::Set(set) if sets_datafusion_by(set)),
        _ => false,
    }
}

/// As [`sets_datafusion`], for a SET.
pub(crate) fn sets_datafusion_by(set: &Set) -> bool {
    matches!(set, Set::SingleAssignment { variable, .. } if is_of_datafusion(&variable.to_string()))
}

fn is_of_datafusion(setting: &str) -> bool {
    setting.to_ascii_lowercase().starts_with("datafusion")
}
