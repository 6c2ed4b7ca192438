//! Being asked to end early, by Ctrl-C or SIGTERM.

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

/// Hands the wish to end on to a child: a terminal's Ctrl-C reaches all of its processes, SIGTERM this one only.
#[derive(Default)]
pub struct Parent {
    is_asked: AtomicBool,
    child: Mutex<Option<Pid>>,
}

impl Parent {
    /// Begins to listen.
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

    /// Whether it is to end.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Runs a command to its end, and gives what it printed.
    pub fn output(&self, command: &mut Command) -> std::io::Result<Output> {
        let child = command.spawn()?;
        let set = |child| *self.child.lock().unwrap_or_else(PoisonError::into_inner) = child;
        set(pid(&child));
        // Asked before there was a child to be told.
        if self.is_asked() {
            tell(pid(&child));
        }
        let output = child.wait_with_output();
        set(None);
        output
    }
}

fn tell(child: Option<Pid>) {
    // Where it has ended meanwhile, there is nobody to be told.
    child.and_then(|child| kill(child, Signal::SIGTERM).ok());
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().map(Pid::from_raw)
}
