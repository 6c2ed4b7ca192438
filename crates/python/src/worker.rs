//! The thread that does a connection's work, and how callers wait for it.
//!
//! 1. [`Worker::run`] hands a job to the thread and waits, without the GIL, for a slice of time
//!    after another. Between two slices it looks for Ctrl-C and tells the caller's progress.
//! 2. If there is a Ctrl-C, a job that has not begun is withdrawn. A running one is told to stop
//!    ([`Ticket::is_stopped`], and the session's canceller), and awaited.
//! 3. [`Worker::run_outside`] does the same for callers of Arrow's C stream interface, who may or
//!    may not hold the GIL. It needs Python only if it waits for long on Python's main thread.
//!
//! A job never needs the GIL, except one whose caller waits in [`Worker::run`]. After a fork the
//! child has no such thread: it gets an error, and nothing of the database is closed there.

use crate::errors::{closed, forked, plain, raised};
use crate::state::State;
use fleetdb_engine::{Error, Result};
use fleetdb_query::Canceller;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

/// Time between two looks for Ctrl-C.
const SLICE: Duration = Duration::from_millis(50);

/// Jobs that end before are not worth a message about their progress.
const SHORT: Duration = Duration::from_secs(1);

/// Python's main thread, which is the only one that gets Ctrl-C.
static MAIN: OnceLock<ThreadId> = OnceLock::new();

/// Remembers this thread, if it is Python's main thread.
///
/// # Errors
/// Python's module `threading` is missing.
pub(crate) fn note_main_thread(py: Python<'_>) -> PyResult<()> {
    let threading = py.import("threading")?;
    let (main, this) = (threading.call_method0("main_thread")?, threading.call_method0("current_thread")?);
    if main.is(&this) {
        MAIN.get_or_init(|| thread::current().id());
    }
    Ok(())
}

/// What the caller and the thread both know of a job.
#[derive(Default)]
pub(crate) struct Ticket {
    stage: AtomicU8,
    stopped: AtomicBool,
    rows: AtomicU64,
}

/// The job waits for its turn.
const WAITING: u8 = 0;
/// The thread has begun it.
const BEGUN: u8 = 1;
/// Its caller no longer wants it.
const WITHDRAWN: u8 = 2;

impl Ticket {
    fn change(&self, to: u8) -> bool {
        self.stage.compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the job must stop as soon as it can.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Adds to the rows that the caller's progress shows.
    pub(crate) fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }
}

/// Python's function that shows the progress of a job: it is called with the number of rows.
pub(crate) struct Progress {
    show: Py<PyAny>,
    begun: Instant,
}

impl Progress {
    pub(crate) fn new(show: Py<PyAny>) -> Self {
        Self { show, begun: Instant::now() }
    }

    /// Shows the number of rows that are done, if it takes long.
    ///
    /// # Errors
    /// That of the function.
    pub(crate) fn tell(&self, py: Python<'_>, rows: u64) -> PyResult<()> {
        if self.begun.elapsed() > SHORT {
            self.show.call1(py, (rows,))?;
        }
        Ok(())
    }
}

struct Job {
    work: Box<dyn FnOnce(&mut State) + Send>,
    ticket: Arc<Ticket>,
}

/// A connection's thread. Dropping it cancels what runs there and waits for the end of the thread.
pub(crate) struct Worker {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The job that runs.
    running: Arc<Mutex<Option<Arc<Ticket>>>>,
    canceller: Canceller,
    /// The number of cancellations so far.
    cancels: AtomicU64,
    /// The process that has the thread.
    process: u32,
}

/// Why a job has no outcome.
pub(crate) enum Failure {
    Engine(Error),
    /// Such as KeyboardInterrupt.
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn start(mut state: State) -> Result<Arc<Self>> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let (canceller, running) = (state.session.canceller(), Arc::new(Mutex::new(None)));
        let of_thread = Arc::clone(&running);
        let work = move || {
            for Job { work, ticket } in jobs {
                if !ticket.change(BEGUN) {
                    continue;
                }
                *of_thread.lock() = Some(Arc::clone(&ticket));
                work(&mut state);
                *of_thread.lock() = None;
                if ticket.is_stopped() {
                    state.end_limits();
                }
            }
        };
        let thread = thread::Builder::new().name("fleetdb-python".to_owned()).spawn(work);
        let thread = thread.map_err(|e| Error::io("could not start a thread", &e))?;
        Ok(Arc::new(Self {
            jobs: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            running,
            canceller,
            cancels: AtomicU64::new(0),
            process: std::process::id(),
        }))
    }

    /// Hands a job to the thread; returns what will have its outcome.
    fn hand_over<T: Send + 'static>(
        &self,
        ticket: &Arc<Ticket>,
        job: impl FnOnce(&mut State, &Ticket) -> T + Send + 'static,
    ) -> Result<Receiver<T>> {
        self.check_process()?;
        let (sender, outcome) = mpsc::channel();
        let of_job = Arc::clone(ticket);
        // A caller that is gone does not want the outcome.
        let work = Box::new(move |state: &mut State| drop(sender.send(job(state, &of_job))));
        let jobs = self.jobs.lock();
        let sent = jobs.as_ref().map(|jobs| jobs.send(Job { work, ticket: Arc::clone(ticket) }));
        match sent {
            Some(Ok(())) => Ok(outcome),
            Some(Err(_)) | None => Err(closed()),
        }
    }

    /// Does a job on the thread and waits for it.
    ///
    /// # Errors
    /// The connection is closed, the job fails, or there is a Ctrl-C.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        progress: Option<&Progress>,
        job: impl FnOnce(&mut State, &Ticket) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let ticket = Arc::default();
        let outcome = self.hand_over(&ticket, job).map_err(|error| plain(py, &error))?;
        self.wait(py, &ticket, outcome, progress)?.map_err(|error| plain(py, &error))
    }

    /// As [`run`](Self::run), for a job about a statement with this text.
    ///
    /// # Errors
    /// As [`run`](Self::run). An error of the engine has its position in the text.
    pub(crate) fn run_text<T: Send + 'static>(
        &self,
        py: Python<'_>,
        text: &str,
        progress: Option<&Progress>,
        job: impl FnOnce(&mut State, &Ticket) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let ticket = Arc::default();
        let outcome = self.hand_over(&ticket, job).map_err(|error| plain(py, &error))?;
        let outcome = self.wait(py, &ticket, outcome, progress)?;
        outcome.map_err(|error| raised(py, &error, Some(text)))
    }

    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        ticket: &Arc<Ticket>,
        mut outcome: Receiver<Result<T>>,
        progress: Option<&Progress>,
    ) -> PyResult<Result<T>> {
        let mut interrupt = None;
        loop {
            let received;
            (outcome, received) = py.detach(move || {
                let received = outcome.recv_timeout(SLICE);
                (outcome, received)
            });
            match received {
                Ok(_) | Err(RecvTimeoutError::Disconnected) if interrupt.is_some() => {}
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Disconnected) => return Ok(Err(lost())),
                Err(RecvTimeoutError::Timeout) => {
                    if interrupt.is_none() {
                        interrupt = self.look(py, ticket, progress).err();
                    }
                    // Again and again: one that comes before the statement begins has no effect.
                    if ticket.is_stopped() {
                        self.cancel_running(ticket);
                    }
                    if !ticket.is_stopped() || ticket.stage.load(Ordering::Acquire) != WITHDRAWN {
                        continue;
                    }
                }
            }
            if let Some(interrupt) = interrupt {
                return Err(interrupt);
            }
        }
    }

    /// Looks for Ctrl-C, and shows the progress. If there is a Ctrl-C, stops the job.
    fn look(&self, py: Python<'_>, ticket: &Arc<Ticket>, progress: Option<&Progress>) -> PyResult<()> {
        let rows = ticket.rows.load(Ordering::Relaxed);
        let looked = py.check_signals().and_then(|()| progress.map_or(Ok(()), |progress| progress.tell(py, rows)));
        if looked.is_err() {
            ticket.stopped.store(true, Ordering::Release);
            ticket.change(WITHDRAWN);
        }
        looked
    }

    /// Does a job as [`run`](Self::run) does, for a caller who may or may not hold the GIL.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn run_outside<T: Send + 'static>(
        &self,
        progress: Option<&Progress>,
        job: impl FnOnce(&mut State, &Ticket) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Failure> {
        let ticket = Arc::default();
        let outcome = self.hand_over(&ticket, job)?;
        match outcome.recv_timeout(SLICE) {
            Ok(done) => return done.map_err(Failure::Engine),
            Err(RecvTimeoutError::Disconnected) => return Err(lost().into()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if MAIN.get() != Some(&thread::current().id()) {
            return outcome.recv().unwrap_or_else(|_| Err(lost())).map_err(Failure::Engine);
        }
        // Without Python, which is ending, nobody sends Ctrl-C.
        match Python::try_attach(|py| self.wait(py, &ticket, outcome, progress)) {
            Some(Ok(done)) => done.map_err(Failure::Engine),
            Some(Err(interrupt)) => Err(Failure::Python(interrupt)),
            None => Err(closed().into()),
        }
    }

    /// Hands the thread a job whose outcome nobody needs.
    pub(crate) fn leave(&self, job: impl FnOnce(&mut State) + Send + 'static) {
        self.hand_over(&Arc::default(), |state, _| job(state)).ok();
    }

    /// The number of cancellations so far. A call of several jobs compares it between them, and ends when
    /// it has changed.
    pub(crate) fn cancels(&self) -> u64 {
        self.cancels.load(Ordering::Acquire)
    }

    /// Cancels what runs, if something does.
    pub(crate) fn cancel(&self) {
        // A thread that a fork does not have may hold the lock.
        if self.is_forked() {
            return;
        }
        self.cancels.fetch_add(1, Ordering::AcqRel);
        let running = self.running.lock();
        if let Some(ticket) = running.as_ref() {
            ticket.stopped.store(true, Ordering::Release);
            self.canceller.cancel();
        }
    }

    /// Cancels this job, if it runs.
    fn cancel_running(&self, ticket: &Arc<Ticket>) {
        let running = self.running.lock();
        if running.as_ref().is_some_and(|running| Arc::ptr_eq(running, ticket)) {
            self.canceller.cancel();
        }
    }

    /// Whether this process is a fork of the one that has the thread.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// Refuses a process that is a fork of the one that has the thread. It comes before each lock,
    /// which a thread that the fork does not have may hold.
    ///
    /// # Errors
    /// This process is a fork.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_forked() { Err(forked(self.process)) } else { Ok(()) }
    }

    /// Ends the thread: cancels what runs there, and waits.
    pub(crate) fn stop(&self) {
        drop(self.jobs.lock().take());
        let Some(thread) = self.thread.lock().take() else { return };
        while !thread.is_finished() {
            self.cancel();
            thread::sleep(Duration::from_millis(1));
        }
        thread.join().ok();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.is_forked() {
            // It must not close what the other process uses.
            std::mem::forget(self.jobs.get_mut().take());
            std::mem::forget(self.thread.get_mut().take());
            return;
        }
        self.stop();
    }
}

/// The error of a job whose thread ended.
fn lost() -> Error {
    Error::bug("the thread of the connection has ended")
}
