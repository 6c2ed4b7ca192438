//! Runs each target of a bar in its own process on one core.

use fleetdb_bench_core::Outcome;
use std::path::Path;
use std::process::Command;

/// A bar of this program, pinned to one core, with these arguments and, if it writes,
/// `--directory`. `taskset` replaces itself with the program it starts, so the spawned process is
/// the one that measures.
pub fn pinned(arguments: &[&str], directory: Option<&Path>) -> Outcome<Command> {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(std::env::current_exe()?).arg("bars").args(arguments);
    if let Some(directory) = directory {
        command.arg("--directory").arg(directory);
    }
    Ok(command)
}

/// Runs [`pinned`] and passes its output on.
pub fn run_pinned(arguments: &[&str], directory: Option<&Path>) -> Outcome<()> {
    if pinned(arguments, directory)?.status()?.success() { Ok(()) } else { Err("the measurement failed".into()) }
}
