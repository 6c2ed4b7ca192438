//! A session's settings: SET, RESET and SHOW, and the modes of a BEGIN.

use super::Session;
use crate::answer::Answer;
use crate::settings::{ScopedSettings, SessionSettings, SettingsBefore};
use crate::transaction::NO_TRANSACTION;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::{ResetStatement, Statement as ParsedStatement};
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, Reset, Set, SetSessionAuthorizationParamKind, Statement as SqlStatement, Value as Literal,
};
use fleetdb_engine::{Durability, Result};
use fleetdb_functions::errors::unsupported;
use fleetdb_functions::values::zone::Zone;
use fleetdb_statement::Statement;
use fleetdb_statement::setting_names::setting_name;
use std::sync::Arc;
use std::time::Duration;

impl Session {
    /// Sets the client's initial settings, which RESET restores.
    ///
    /// # Errors
    /// Writes are to be shared, and the database is in no cluster.
    pub fn start_with(&self, settings: SessionSettings) -> Result<()> {
        // Where nothing can be written, the level does not matter.
        if let (Some(Durability::Shared), Ok(db)) = (settings.durability(), self.store.writer()) {
            db.check_shared()?;
        }
        self.restart_with(settings);
        Ok(())
    }

    /// Sets initial settings that fit the database.
    pub(super) fn restart_with(&self, mut settings: SessionSettings) {
        if self.store.writer().is_err() {
            settings.set_read_only();
        }
        settings.default_durability(self.store.settings().durability);
        self.transaction().settings = ScopedSettings::starting_with(settings);
    }

    /// The current settings.
    pub fn settings(&self) -> SessionSettings {
        self.transaction().settings.now().clone()
    }

    /// Whether a read may wait until what it shows is shared.
    pub fn waits_to_show(&self) -> bool {
        self.store.settings().durability == Durability::Shared
    }

    /// How durable the session wants its writes to be.
    pub fn durability(&self) -> Durability {
        self.transaction().settings.now().durability().unwrap_or(self.store.settings().durability)
    }

    /// The current zone.
    pub fn zone(&self) -> Zone {
        self.transaction().settings.now().zone()
    }

    /// The name of the current zone, if it differs from `known`.
    pub fn zone_changed_from(&self, known: &str) -> Option<String> {
        let transaction = self.transaction();
        let now = transaction.settings.now().zone_name();
        (now != known).then(|| now.to_owned())
    }

    /// The settings as they are now, for [`undo_settings`](Self::undo_settings); `None` in a
    /// transaction, because a ROLLBACK undoes its settings.
    pub fn settings_before(&self) -> Option<SettingsBefore> {
        let transaction = self.transaction();
        transaction.is_none().then(|| SettingsBefore(transaction.settings.clone()))
    }

    /// Undoes what was set since then. In a transaction that has begun since, ROLLBACK undoes it.
    pub fn undo_settings(&self, before: SettingsBefore) {
        self.transaction().undo_settings(before.0);
    }

    /// How long the client may be idle now; `None` means no limit.
    pub fn idle_limit(&self) -> Option<Duration> {
        let transaction = self.transaction();
        transaction.settings.now().idle_limit(!transaction.is_none())
    }

    /// The name and value of a setting of the session's dialect, as SHOW returns them; `None` if the
    /// setting is unknown.
    pub fn setting(&self, name: &str) -> Option<(&'static str, String)> {
        let (name, always) = self.dialect.setting(name)?;
        Some((name, self.transaction().setting(name).unwrap_or_else(|| always.to_owned())))
    }

    /// Runs a SET or RESET, except those of DataFusion's settings; returns a warning.
    ///
    /// # Errors
    /// The value is invalid, the setting cannot be changed, or a statement of the transaction has
    /// failed.
    pub fn set(&self, statement: &Statement) -> Result<Option<&'static str>> {
        let mut transaction = self.transaction();
        transaction.check()?;
        let sql = match &**statement.tree() {
            ParsedStatement::Reset(ResetStatement::Variable(name)) => {
                return transaction.change_setting(&setting_name(&name.to_string()), None, false);
            }
            ParsedStatement::Statement(sql) => sql.as_ref(),
            _ => return Ok(None),
        };
        let set = match sql {
            SqlStatement::Reset(reset) => {
                let name = match &reset.reset {
                    Reset::ALL => "all".to_owned(),
                    Reset::ConfigurationParameter(name) => setting_name(&name.to_string()),
                };
                return transaction.change_setting(&name, None, false);
            }
            SqlStatement::Set(set) => set,
            _ => return Ok(None),
        };
        match set {
            Set::SingleAssignment { scope, variable, values, .. } => {
                let value = values.iter().map(text_of).collect::<Vec<_>>().join(", ");
                let value = (!value.eq_ignore_ascii_case("default")).then_some(value.as_str());
                let is_local = *scope == Some(ContextModifier::Local);
                let name = setting_name(&variable.to_string());
                if name == "durability" && value.is_some_and(|value| value.parse() == Ok(Durability::Shared)) {
                    self.store.writer()?.check_shared()?;
                }
                transaction.change_setting(&name, value, is_local)
            }
            Set::SetTimeZone { local, value } => {
                let zone = zone_text(value);
                let is_default = matches!(value, Expr::Identifier(word) if is_default(&word.value));
                transaction.change_setting("timezone", (!is_default).then_some(zone.as_str()), *local)
            }
            Set::SetNames { charset_name, .. } => {
                transaction.change_setting("client_encoding", Some(&charset_name.value), false)
            }
            Set::SetTransaction { modes: given, session, .. } if !given.is_empty() => {
                if *session {
                    let (modes, warning) = transaction.settings.now().modes().with(given);
                    for what in ["transaction_read_only", "transaction_isolation"] {
                        transaction.change_setting(&format!("default_{what}"), Some(modes.get(what)), false)?;
                    }
                    return Ok(warning);
                }
                let (modes, warning) = transaction.modes().with(given);
                Ok(if transaction.set_modes(modes) { warning } else { Some(NO_TRANSACTION) })
            }
            Set::SetRole { role_name: None, .. } => Ok(None),
            Set::SetSessionAuthorization(to) if to.kind == SetSessionAuthorizationParamKind::Default => Ok(None),
            other => Err(unsupported(&other.to_string())),
        }
    }

    /// Runs a `SHOW` of a [setting](Self::setting).
    pub(crate) fn show(&self, name: &str) -> Result<Answer> {
        self.check_transaction()?;
        let (name, value) = self.setting(name).ok_or_else(|| unsupported(name))?;
        let column: ArrayRef = Arc::new(StringArray::from(vec![value]));
        let row = RecordBatch::try_from_iter([(name, column)])?;
        let stream = RecordBatchStreamAdapter::new(row.schema(), futures::stream::iter([Ok(row)]));
        Ok(Answer::rows(Box::pin(stream), Arc::clone(&self.runtime), self.limits.watch()))
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.transaction().modes().is_read_only
    }

    /// Fails if the transaction or the session is read-only.
    ///
    /// # Errors
    /// It, or the database, is read-only.
    pub fn check_may_write(&self, what: &str) -> Result<()> {
        self.store.writer()?;
        self.transaction().check_may_write(what)
    }
}

/// The value of a setting, without quotes.
fn text_of(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Literal::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(name) => name.value.clone(),
        other => other.to_string(),
    }
}

/// Whether a word of SET TIME ZONE stands for the initial zone.
fn is_default(word: &str) -> bool {
    ["default", "local"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// The zone that SET TIME ZONE names; for an interval, its number of hours.
fn zone_text(value: &Expr) -> String {
    let Expr::Interval(interval) = value else { return text_of(value) };
    let text = text_of(&interval.value);
    let (sign, clock) = match text.strip_prefix('-') {
        Some(clock) => ("-", clock),
        None => ("", text.strip_prefix('+').unwrap_or(&text)),
    };
    match clock.split_once(':').map(|(hours, minutes)| (hours.parse::<u32>(), minutes.parse::<u32>())) {
        Some((Ok(hours), Ok(minutes))) => format!("{sign}{}", f64::from(hours * 60 + minutes) / 60.0),
        _ => text,
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
