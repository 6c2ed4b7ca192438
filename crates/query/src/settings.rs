//! The settings of a session: `SET`, `RESET`, and transaction modes.
//!
//! [`SessionSettings`] holds the PostgreSQL settings that have an effect. SET of any other
//! PostgreSQL setting succeeds without effect, with a warning where a client might rely on it. As
//! in PostgreSQL, SET LOCAL lasts until the transaction ends, and ROLLBACK, including ROLLBACK TO
//! SAVEPOINT, undoes later changes.

use datafusion::sql::sqlparser::ast::{TransactionAccessMode, TransactionIsolationLevel, TransactionMode};
use fleetdb_engine::{Code, ColumnType, Durability, Error, Result, Value};
use fleetdb_functions::values::literals::value_of_text;
use fleetdb_functions::values::zone::Zone;
use fleetdb_plan::limits::{timeout, timeout_text};
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a name in bytes, as in PostgreSQL.
const NAME_BYTES: usize = 63;
pub(crate) const SERIALIZABLE: &str =
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
    pub(crate) fn with(mut self, given: &[TransactionMode]) -> (Self, Warning) {
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
    pub(crate) fn set(&mut self, what: &str, value: &str) -> Result<Warning> {
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

    pub(crate) fn get(self, what: &str) -> &'static str {
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

/// The settings of a session that have an effect. See [`Session::start_with`](crate::Session::start_with).
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
    /// The durability of the session's writes; that of the database if `None`.
    durability: Option<Durability>,
}

impl SessionSettings {
    /// Default settings with a statement timeout; `None` means no limit.
    pub fn with_timeout(timeout: Option<Duration>) -> Self {
        Self { timeout, ..Self::default() }
    }

    /// These settings with a durability of the session's writes.
    pub fn with_durability(self, durability: Durability) -> Self {
        Self { durability: Some(durability), ..self }
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
            "durability" => {
                let wrong = |e: Error| Error::new(Code::InvalidParameter, e.to_string());
                self.durability = Some(value.parse().map_err(wrong)?);
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

    /// Gives writes a durability, unless they have one.
    pub(crate) fn default_durability(&mut self, durability: Durability) {
        self.durability.get_or_insert(durability);
    }

    /// Makes transactions read-only, unless they are begun with other modes.
    pub(crate) fn set_read_only(&mut self) {
        self.modes.is_read_only = true;
    }

    /// Whether an INSERT outside a transaction is refused.
    pub fn is_read_only(&self) -> bool {
        self.modes.is_read_only
    }

    /// The application name the client gave.
    pub fn application_name(&self) -> &str {
        &self.application_name
    }

    /// The durability of the session's writes; that of the database if `None`.
    pub fn durability(&self) -> Option<Durability> {
        self.durability
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
            "durability" => self.durability = to.durability,
            "default_transaction_read_only" => self.modes.is_read_only = to.modes.is_read_only,
            "default_transaction_isolation" => self.modes.is_repeatable = to.modes.is_repeatable,
            _ => {}
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        Some(match name {
            "application_name" => self.application_name.clone(),
            "statement_timeout" => timeout_text(self.timeout),
            "idle_session_timeout" => timeout_text(self.idle_timeout),
            "idle_in_transaction_session_timeout" => timeout_text(self.idle_in_transaction_timeout),
            "timezone" => self.zone_name().to_owned(),
            "durability" => self.durability.unwrap_or_default().to_string(),
            "default_transaction_read_only" | "default_transaction_isolation" => {
                self.modes.get(name.trim_start_matches("default_")).to_owned()
            }
            _ => return None,
        })
    }
}

/// The settings of a session at one moment. See
/// [`Session::settings_before`](crate::Session::settings_before).
#[derive(Clone, Debug)]
pub struct SettingsBefore(pub(crate) ScopedSettings);

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
    pub(crate) fn change(&mut self, name: &str, value: Option<&str>, is_local: bool) -> Result<()> {
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

fn truth(name: &str, value: &str) -> Result<bool> {
    match value_of_text(value, ColumnType::Boolean) {
        Ok(Value::Boolean(truth)) => Ok(truth),
        _ => Err(Error::new(Code::InvalidParameter, format!("{name} = '{value}' does not fit: give on or off"))),
    }
}
