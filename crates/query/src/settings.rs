//! The settings of a session: `SET`, `RESET`, and transaction modes.
//!
//! [`SessionSettings`] holds the PostgreSQL settings that have an effect. SET of any other
//! PostgreSQL setting succeeds without effect, with a warning where a client might rely on it. As
//! in PostgreSQL, SET LOCAL lasts until the transaction ends, and ROLLBACK, including ROLLBACK TO
//! SAVEPOINT, undoes later changes.

use crate::answer::Answer;
use crate::session::Session;
use crate::setting_names::setting_name;
use crate::statement::Statement;
use crate::transaction::Transaction;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::{ResetStatement, Statement as ParsedStatement};
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, Reset, Set, SetSessionAuthorizationParamKind, Statement as SqlStatement,
    TransactionAccessMode, TransactionIsolationLevel, TransactionMode, Value as Literal,
};
use fleetdb_engine::{Code, ColumnType, Error, Result, Value};
use fleetdb_plan::errors::unsupported;
use fleetdb_plan::limits::{timeout, timeout_text};
use fleetdb_plan::literals::value_of_text;
use fleetdb_plan::zone::Zone;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const ENCODING: &str = "texts are UTF-8: setting client_encoding changes nothing";
/// Maximum length of a name in bytes, as in PostgreSQL.
const NAME_BYTES: usize = 63;
const NO_TRANSACTION: &str = "this is for a transaction, and there is none: it changes nothing";
const SERIALIZABLE: &str =
    "SERIALIZABLE is REPEATABLE READ here: COMMIT compares rows that statements change, not those that they only read";

/// What a transaction sees, and whether it may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransactionModes {
    /// Whether all statements see the same view as the first one (REPEATABLE READ). Otherwise each
    /// sees what is committed when it starts.
    pub(crate) is_repeatable: bool,
    pub(crate) is_read_only: bool,
}

impl TransactionModes {
    /// Applies the modes of a statement; returns the new modes and a warning.
    fn with(mut self, given: &[TransactionMode]) -> (Self, Warning) {
        let mut warning = None;
        for mode in given {
            match mode {
                TransactionMode::AccessMode(access) => {
                    self.is_read_only = *access == TransactionAccessMode::ReadOnly;
                }
                TransactionMode::IsolationLevel(level) => {
                    use TransactionIsolationLevel as Level;
                    self.is_repeatable = !matches!(level, Level::ReadUncommitted | Level::ReadCommitted);
                    warning = (*level == Level::Serializable).then_some(SERIALIZABLE);
                }
            }
        }
        (self, warning)
    }

    /// Sets one of PostgreSQL's two settings for modes, by the end of its name.
    fn set(&mut self, what: &str, value: &str) -> Result<Warning> {
        match what {
            "transaction_read_only" => self.is_read_only = truth(what, value)?,
            _ => {
                self.is_repeatable = match value.to_ascii_lowercase().as_str() {
                    "read uncommitted" | "read committed" => false,
                    "repeatable read" => true,
                    "serializable" => {
                        self.is_repeatable = true;
                        return Ok(Some(SERIALIZABLE));
                    }
                    _ => {
                        return Err(Error::new(
                            Code::InvalidParameter,
                            format!("{what} = '{value}' does not fit: give 'read committed' or 'repeatable read'"),
                        ));
                    }
                }
            }
        }
        Ok(None)
    }

    fn get(self, what: &str) -> &'static str {
        match (what, self.is_read_only, self.is_repeatable) {
            ("transaction_read_only", true, _) => "on",
            ("transaction_read_only", false, _) => "off",
            (_, _, true) => "repeatable read",
            (_, _, false) => "read committed",
        }
    }
}

/// A warning in the answer to a statement.
pub(crate) type Warning = Option<&'static str>;

/// The settings of a session that have an effect. See [`Session::start_with`].
///
/// ```
/// use fleetdb_query::SessionSettings;
/// let mut settings = SessionSettings::default();
/// assert!(settings.set("statement_timeout", "5s").unwrap());
/// assert!(!settings.set("datestyle", "ISO").unwrap(), "it changes nothing here");
/// assert!(settings.set("default_transaction_read_only", "perhaps").is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSettings {
    application_name: String,
    timeout: Option<Duration>,
    idle_timeout: Option<Duration>,
    idle_in_transaction_timeout: Option<Duration>,
    /// The session's zone and its name; UTC if `None`.
    zone: Option<(Zone, String)>,
    /// The modes of transactions that do not set their own, and of statements outside a
    /// transaction.
    modes: TransactionModes,
}

impl SessionSettings {
    /// Default settings with a statement timeout; `None` means no limit.
    pub fn with_timeout(timeout: Option<Duration>) -> Self {
        Self { timeout, ..Self::default() }
    }

    /// Changes a setting, as PostgreSQL's SET does; `false` if no setting with an effect has this
    /// name.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if the value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        match name {
            "application_name" => {
                value[..value.floor_char_boundary(NAME_BYTES)].clone_into(&mut self.application_name);
            }
            "statement_timeout" => self.timeout = timeout(name, value)?,
            "idle_session_timeout" => self.idle_timeout = timeout(name, value)?,
            "idle_in_transaction_session_timeout" => self.idle_in_transaction_timeout = timeout(name, value)?,
            "timezone" => {
                let zone = Zone::of_setting(value);
                let wrong = || format!("invalid value for parameter \"TimeZone\": \"{value}\"");
                self.zone = Some(zone.ok_or_else(|| Error::new(Code::InvalidParameter, wrong()))?);
            }
            "default_transaction_read_only" | "default_transaction_isolation" => {
                self.modes.set(name.trim_start_matches("default_"), value)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The session's zone.
    pub fn zone(&self) -> Zone {
        self.zone.as_ref().map_or(Zone::Utc, |(zone, _)| *zone)
    }

    /// The zone's name, as SHOW returns it.
    pub fn zone_name(&self) -> &str {
        self.zone.as_ref().map_or("UTC", |(_, name)| name)
    }

    /// Whether an INSERT outside a transaction is refused.
    pub fn is_read_only(&self) -> bool {
        self.modes.is_read_only
    }

    /// The application name the client gave.
    pub fn application_name(&self) -> &str {
        &self.application_name
    }

    /// How long a client may be idle, inside or outside a transaction; `None` means no limit.
    pub fn idle_limit(&self, is_in_transaction: bool) -> Option<Duration> {
        if is_in_transaction { self.idle_in_transaction_timeout } else { self.idle_timeout }
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    pub(crate) fn modes(&self) -> TransactionModes {
        self.modes
    }

    /// Copies one setting, or all, from `to`.
    fn take(&mut self, name: &str, to: &Self) {
        match name {
            "all" => self.clone_from(to),
            "application_name" => self.application_name.clone_from(&to.application_name),
            "statement_timeout" => self.timeout = to.timeout,
            "idle_session_timeout" => self.idle_timeout = to.idle_timeout,
            "idle_in_transaction_session_timeout" => self.idle_in_transaction_timeout = to.idle_in_transaction_timeout,
            "timezone" => self.zone.clone_from(&to.zone),
            "default_transaction_read_only" => self.modes.is_read_only = to.modes.is_read_only,
            "default_transaction_isolation" => self.modes.is_repeatable = to.modes.is_repeatable,
            _ => {}
        }
    }

    fn get(&self, name: &str) -> Option<String> {
        Some(match name {
            "application_name" => self.application_name.clone(),
            "statement_timeout" => timeout_text(self.timeout),
            "idle_session_timeout" => timeout_text(self.idle_timeout),
            "idle_in_transaction_session_timeout" => timeout_text(self.idle_in_transaction_timeout),
            "timezone" => self.zone_name().to_owned(),
            "default_transaction_read_only" | "default_transaction_isolation" => {
                self.modes.get(name.trim_start_matches("default_")).to_owned()
            }
            _ => return None,
        })
    }
}

/// The settings of a session at one moment. See [`Session::settings_before`].
#[derive(Clone, Debug)]
pub struct SettingsBefore(ScopedSettings);

/// A session's settings in their scopes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScopedSettings {
    /// The values that RESET restores.
    first: Arc<SessionSettings>,
    session: Arc<SessionSettings>,
    /// The settings including those of SET LOCAL, until the transaction ends.
    local: Option<Arc<SessionSettings>>,
}

impl ScopedSettings {
    pub(crate) fn starting_with(settings: SessionSettings) -> Self {
        let first = Arc::new(settings);
        Self { session: Arc::clone(&first), first, local: None }
    }

    pub(crate) fn now(&self) -> &SessionSettings {
        self.local.as_ref().unwrap_or(&self.session)
    }

    /// Ends the scope of SET LOCAL when the transaction ends.
    pub(crate) fn end_local(&mut self) {
        self.local = None;
    }

    /// Changes a setting, or resets it if there is no value.
    fn change(&mut self, name: &str, value: Option<&str>, is_local: bool) -> Result<()> {
        let mut changed = self.now().clone();
        match value {
            Some(value) => changed.set(name, value).map(drop)?,
            None => changed.take(name, &self.first),
        }
        if !is_local {
            let mut session = SessionSettings::clone(&self.session);
            session.take(name, &changed);
            self.session = Arc::new(session);
        }
        if is_local || self.local.is_some() {
            self.local = Some(Arc::new(changed));
        }
        Ok(())
    }
}

impl Transaction {
    /// The value of a setting that can change; `None` for others.
    pub(crate) fn setting(&self, name: &str) -> Option<String> {
        match setting_name(name).as_str() {
            name @ ("transaction_read_only" | "transaction_isolation") => Some(self.modes().get(name).to_owned()),
            name => self.settings.now().get(name),
        }
    }

    /// Changes a PostgreSQL setting, or resets it if there is no value; returns a warning.
    pub(crate) fn change_setting(&mut self, name: &str, value: Option<&str>, is_local: bool) -> Result<Warning> {
        if is_local && self.is_none() {
            return Ok(Some(NO_TRANSACTION));
        }
        match (name, value) {
            ("transaction_read_only" | "transaction_isolation", Some(value)) => {
                let mut modes = self.modes();
                let warning = modes.set(name, value)?;
                Ok(if self.set_modes(modes) { warning } else { Some(NO_TRANSACTION) })
            }
            ("client_encoding", Some(encoding)) if !is_utf8(encoding) => Ok(Some(ENCODING)),
            _ => self.settings.change(name, value, is_local).map(|()| None),
        }
    }
}

/// The settings of a session, for functions that read or change them while it runs a statement.
#[derive(Clone)]
pub struct SharedSettings(Arc<Mutex<Transaction>>);

impl SharedSettings {
    /// The value of a setting that can change; `None` for others.
    pub fn get(&self, name: &str) -> Option<String> {
        self.lock().setting(name)
    }

    /// Changes a setting as SET does, or SET LOCAL.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn change(&self, name: &str, value: Option<&str>, is_local: bool) -> Result<()> {
        self.lock().change_setting(&setting_name(name), value, is_local).map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, Transaction> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// The session's settings, for a [`Dialect`](crate::Dialect)'s functions.
    pub fn shared_settings(&self) -> SharedSettings {
        SharedSettings(Arc::clone(&self.transaction))
    }

    /// Sets the client's initial settings, which RESET restores.
    pub fn start_with(&self, settings: SessionSettings) {
        self.transaction().settings = ScopedSettings::starting_with(settings);
    }

    /// The current settings.
    pub fn settings(&self) -> SessionSettings {
        self.transaction().settings.now().clone()
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

    /// The name and value of a PostgreSQL setting as SHOW returns them; `None` if the setting is
    /// unknown.
    ///
    /// ```
    /// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
    /// use fleetdb_query::Session;
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
    /// session.sql("SET statement_timeout = 5000").unwrap();
    /// assert_eq!(session.setting("statement_timeout"), Some(("statement_timeout", "5s".to_owned())));
    /// assert_eq!(session.setting("TIME ZONE"), Some(("TimeZone", "UTC".to_owned())));
    /// assert_eq!(session.setting("work_mem"), None);
    /// ```
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
        let sql = match &*statement.0 {
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
                transaction.change_setting(&setting_name(&variable.to_string()), value, is_local)
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

    /// Runs a BEGIN with its modes; returns a warning.
    ///
    /// # Errors
    /// Those of [`begin`](Self::begin).
    pub fn begin_as(&self, statement: &Statement) -> Result<Option<&'static str>> {
        let given = match statement.sql() {
            Some(SqlStatement::StartTransaction { modes, .. }) => modes.as_slice(),
            _ => &[],
        };
        self.begin()?;
        let mut transaction = self.transaction();
        let (modes, warning) = transaction.modes().with(given);
        transaction.set_modes(modes);
        Ok(warning)
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
    /// It is read-only.
    pub fn check_may_write(&self, what: &str) -> Result<()> {
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

fn truth(name: &str, value: &str) -> Result<bool> {
    match value_of_text(value, ColumnType::Boolean) {
        Ok(Value::Boolean(truth)) => Ok(truth),
        _ => Err(Error::new(Code::InvalidParameter, format!("{name} = '{value}' does not fit: give on or off"))),
    }
}

fn is_utf8(encoding: &str) -> bool {
    ["utf8", "utf-8", "unicode"].iter().any(|name| encoding.eq_ignore_ascii_case(name))
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
