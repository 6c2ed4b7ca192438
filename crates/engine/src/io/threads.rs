//! The real machine's threads.

#![allow(clippy::disallowed_methods, reason = "this is the one place that starts threads")]

use super::{Joiner, Spawn};
use crate::error::{Error, Result};

/// The stack of a thread.
const STACK_BYTES: usize = 2 << 20;

/// Background work has threads of its own.
pub(super) struct Threads;

impl Spawn for Threads {
    fn has_threads(&self) -> bool {
        true
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Joiner> {
        start(name, 0, work)
    }
}

/// Starts a thread that helps a caller with reading, and ends before the caller goes on. It gets
/// `stack_bytes` in addition to the usual stack. As it changes nothing, there are such threads also
/// where background work has none.
pub(crate) fn start_helper(stack_bytes: usize, work: impl FnOnce() + Send + 'static) -> Result<Joiner> {
    start("fleetdb-scan", stack_bytes, Box::new(work))
}

/// The processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn start(name: &str, stack_bytes: usize, work: Box<dyn FnOnce() + Send>) -> Result<Joiner> {
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES + stack_bytes);
    let handle = thread.spawn(work).map_err(|e| Error::io(format_args!("could not start thread {name}"), &e))?;
    Ok(Box::new(move || {
        // The panic hook has already printed a panic of the thread; we only need to wait.
        handle.join().ok();
    }))
}
