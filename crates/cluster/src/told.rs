//! What was told of an error that lasts.

use fleetdb_engine::Error;
use std::fmt::Display;

/// Tells each reason once: an outage may last for days.
#[derive(Default)]
pub struct Told(Option<Error>);

impl Told {
    /// Logs an error, with what failed, unless it was the last one.
    pub fn failed(&mut self, what: impl Display, error: Error) {
        if self.0.as_ref() != Some(&error) {
            tracing::warn!("{what}: {error}");
            self.0 = Some(error);
        }
    }

    /// There is no error any more. Returns whether there was one.
    pub fn ended(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// The error that lasts.
    pub fn error(&self) -> Option<&Error> {
        self.0.as_ref()
    }
}
