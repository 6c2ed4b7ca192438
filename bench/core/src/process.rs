//! Where a measurement runs: a directory of its own that is removed at the end, a process of its own on one core.

use crate::Outcome;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A new directory, removed with everything in it when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A directory in `parent` that nobody else uses.
    pub fn new(parent: &Path) -> Outcome<Self> {
        let directory = parent.join(format!("fleetdb-bench-{}", std::process::id()));
        std::fs::create_dir(&directory)?;
        Ok(Self(directory))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is seen by whoever looks at the directory.
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// This program again, pinned to one core, with these arguments and `--directory`. `taskset` becomes the program it
/// starts, so the process that is spawned is the one that measures.
pub fn pinned(arguments: &[&str], directory: &Path) -> Outcome<Command> {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(std::env::current_exe()?).args(arguments).arg("--directory").arg(directory);
    Ok(command)
}

/// Runs [`pinned`], its output being this program's.
pub fn run_pinned(arguments: &[&str], directory: &Path) -> Outcome<()> {
    if pinned(arguments, directory)?.status()?.success() { Ok(()) } else { Err("the measurement failed".into()) }
}
