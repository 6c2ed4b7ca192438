//! Progress of a run: a bar for the current phase and its rate, shown only on a terminal.

use fleetdb_bench_core::driver::Watch;
use fleetdb_bench_core::experiment::Size;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const DRAW: Duration = Duration::from_millis(200);

/// The phase being shown.
struct Shown {
    size: Size,
    begin: Instant,
    operations: u64,
    rows: u64,
}

/// Draws until it is dropped.
pub struct Progress {
    bar: ProgressBar,
    shown: Arc<Mutex<Option<Shown>>>,
    watch: Arc<Watch>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts to draw for a target.
    pub fn new(target: &str, watch: &Arc<Watch>) -> Self {
        let bar = ProgressBar::new(0).with_prefix(target.to_owned());
        // The template is valid.
        if let Ok(style) = ProgressStyle::with_template("{prefix:<15} {msg:<44} {wide_bar} {percent:>3} %") {
            bar.set_style(style);
        }
        let (shown, ended) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let thread = {
            let (bar, shown, watch, ended) = (bar.clone(), Arc::clone(&shown), Arc::clone(watch), Arc::clone(&ended));
            std::thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    draw(&bar, &shown, &watch);
                    std::thread::park_timeout(DRAW);
                }
            })
        };
        Self { bar, shown, watch: Arc::clone(watch), ended, thread: Some(thread) }
    }

    /// Starts to show a phase.
    pub fn announce(&self, phase: &str, size: Size) {
        let operations = self.watch.operations.load(Ordering::Relaxed);
        let rows = self.watch.rows.load(Ordering::Relaxed);
        let shown = Shown { size, begin: Instant::now(), operations, rows };
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        self.bar.set_message(phase.to_owned());
    }
}

fn draw(bar: &ProgressBar, shown: &Mutex<Option<Shown>>, watch: &Watch) {
    let shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(shown) = shown.as_ref() else { return };
    let spent = shown.begin.elapsed();
    let rows = watch.rows.load(Ordering::Relaxed) - shown.rows;
    let (length, position) = match shown.size {
        Size::Operations(all) => (all, watch.operations.load(Ordering::Relaxed) - shown.operations),
        Size::Seconds(all) => (all * 1_000, spent.as_millis() as u64),
    };
    bar.set_length(length.max(1));
    bar.set_position(position.min(length));
    let phase = bar.message();
    let phase = phase.split(" at ").next().unwrap_or_default();
    if rows > 0 && spent > DRAW {
        bar.set_message(format!("{phase} at {:.0} rows/s", rows as f64 / spent.as_secs_f64()));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().ok();
        }
        self.bar.finish_and_clear();
    }
}
