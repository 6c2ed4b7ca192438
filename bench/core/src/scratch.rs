//! Where a measurement runs: a directory of its own that is removed at the end.

use crate::Outcome;
use std::path::{Path, PathBuf};

/// A new directory, removed with everything in it when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A directory in `parent` that nobody else uses.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(parent: &Path) -> Outcome<Self> {
        let directory = parent.join(format!("fleetdb-bench-{}", std::process::id()));
        std::fs::create_dir(&directory)?;
        Ok(Self(directory))
    }

    /// Its path.
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
