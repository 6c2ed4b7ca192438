//! The log: one line per event, on standard error.

use crate::options::Config;
use fleetdb_engine::{Error, Result};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// The filter that the option `log` describes.
pub(crate) fn filter(text: &str) -> Result<EnvFilter> {
    text.parse().map_err(|e| {
        Error::invalid(format!("invalid value '{text}' for option log: {e}; use error, warn, info or debug"))
    })
}

/// Logs to standard error from now on, as configured.
///
/// # Errors
/// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) for an invalid filter; an error if
/// logging is already set up.
pub fn log_to_stderr(config: &Config) -> Result<()> {
    let log = tracing_subscriber::fmt().with_env_filter(filter(&config.log)?).with_writer(std::io::stderr);
    // Colours are for terminals, not for files and journals.
    let log = log.with_ansi(std::io::stderr().is_terminal());
    let set = if config.log_json { log.json().try_init() } else { log.with_target(false).try_init() };
    set.map_err(|e| Error::bug(format!("logging is already set up: {e}")))
}
