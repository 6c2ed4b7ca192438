//! Handles requests to end early: Ctrl-C and SIGTERM.

use fleetdb_bench_core::Outcome;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Sets the flag when this process is asked to end.
pub fn set_when_asked(stop: &Arc<AtomicBool>) -> Outcome<()> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// Forwards the request to end to a child: Ctrl-C in a terminal reaches all processes, but SIGTERM
/// reaches only this one.
#[derive(Default)]
pub struct Parent {
    is_asked: AtomicBool,
    child: Mutex<Option<Pid>>,
}

impl Parent {
    /// Starts to listen for signals.
    pub fn listen() -> Outcome<Arc<Self>> {
        let parent = Arc::new(Self::default());
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let of_thread = Arc::clone(&parent);
        std::thread::spawn(move || {
            for _ in signals.forever() {
                of_thread.is_asked.store(true, Ordering::Relaxed);
                tell(*of_thread.child.lock().unwrap_or_else(PoisonError::into_inner));
            }
        });
        Ok(parent)
    }

    /// Whether this process was asked to end.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Runs a command to its end and returns its output.
    pub fn output(&self, command: &mut Command) -> std::io::Result<Output> {
        let child = command.spawn()?;
        let set = |child| *self.child.lock().unwrap_or_else(PoisonError::into_inner) = child;
        set(pid(&child));
        // The request may have arrived before the child existed.
        if self.is_asked() {
            tell(pid(&child));
        }
        let output = child.wait_with_output();
        set(None);
        output
    }
}

fn tell(child: Option<Pid>) {
    // If the child has ended meanwhile, there is nothing to do.
    child.and_then(|child| kill(child, Signal::SIGTERM).ok());
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().map(Pid::from_raw)
}
