//! A thread that does the same again and again.

use crate::requests::Stop;
use fleetdb_engine::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that works at intervals. It ends when it is dropped.
pub struct IntervalThread {
    stop: Stop,
    /// Dropped to end the wait for the next time.
    waiting: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl IntervalThread {
    /// Starts to work, now and then at intervals, until `work` gives `false`. `stop` ends the
    /// requests that `work` waits for.
    pub(crate) fn start(
        name: &str,
        stop: Stop,
        interval: Duration,
        mut work: impl FnMut() -> bool + Send + 'static,
    ) -> Result<Self> {
        let (waiting, wait) = channel();
        let run = move || {
            // After a fault of this program, the next time may go well.
            while catch_unwind(AssertUnwindSafe(&mut work)).unwrap_or(true) {
                match wait.recv_timeout(interval) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|e| Error::io(format_args!("could not start the thread {name}"), &e))?;
        Ok(Self { stop, waiting: Some(waiting), thread: Some(thread) })
    }
}

impl Drop for IntervalThread {
    /// Stops what is running and waits for the thread. What was sent stays.
    fn drop(&mut self) {
        self.stop.stop();
        self.waiting = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
