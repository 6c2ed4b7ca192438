//! A directory for a measurement, removed at the end.

use crate::Outcome;
use std::path::{Path, PathBuf};

/// A new directory that is removed with its contents on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a directory in `parent` with a unique name.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn new(parent: &Path) -> Outcome<Self> {
        let directory = parent.join(format!("fleetdb-bench-{}", std::process::id()));
        std::fs::create_dir(&directory)?;
        Ok(Self(directory))
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If removal fails, the directory stays visible in its parent.
        std::fs::remove_dir_all(&self.0).ok();
    }
}
