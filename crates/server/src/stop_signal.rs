//! Waits until the process is told to stop.

use fleetdb_engine::{Error, Result};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives SIGTERM and SIGINT. From its creation on, these no longer end the process, and one that
/// arrives while nobody waits is kept.
pub struct StopSignal {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignal {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// They cannot be installed.
    pub fn new() -> Result<Self> {
        let failed = |e: std::io::Error| Error::io("could not install signal handlers", &e);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (terminate, interrupt) = {
            let _inside = runtime.enter();
            (signal(SignalKind::terminate()).map_err(failed)?, signal(SignalKind::interrupt()).map_err(failed)?)
        };
        Ok(Self { runtime, terminate, interrupt })
    }

    /// Waits for `other`; `None` if a signal comes first.
    pub fn wait_or<T>(&mut self, other: impl Future<Output = T>) -> Option<T> {
        let Self { runtime, terminate, interrupt } = self;
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = terminate.recv() => tracing::info!("received SIGTERM, shutting down"),
                _ = interrupt.recv() => tracing::info!("received SIGINT, shutting down"),
                other = other => return Some(other),
            }
            None
        })
    }
}
