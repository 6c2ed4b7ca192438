//! Which files of the machine statements read and write: all of a program that has the database to itself, and for a server
//! only those below directories that it was told.

use fleetdb_engine::{Code, Error, Result};
use std::path::{Path, PathBuf};

/// See the module.
///
/// ```
/// use fleetdb_query::Files;
/// let directory = tempfile::tempdir().unwrap();
/// let files = Files::below(vec![directory.path().to_owned()]);
/// assert!(files.check(&directory.path().join("rows.csv")).is_ok());
/// assert!(files.check(&directory.path().join("../rows.csv")).is_err());
/// assert!(files.check("/etc/passwd".as_ref()).is_err());
/// assert!(Files::default().check("/etc/passwd".as_ref()).is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(Option<Vec<PathBuf>>);

impl Files {
    /// Those below these directories; none if there is no directory.
    pub fn below(directories: Vec<PathBuf>) -> Self {
        Self(Some(directories))
    }

    /// Refuses a path that is not below one of the directories, links followed. What it names need not be there, the
    /// directory that it is in must.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) that says what to do.
    pub fn check(&self, path: &Path) -> Result<()> {
        let Some(directories) = &self.0 else { return Ok(()) };
        let real = real(path);
        let is_below = |directory: &PathBuf| {
            let directory = directory.canonicalize().ok()?;
            Some(real.as_ref()?.starts_with(&directory) && *real.as_ref()? != directory)
        };
        if directories.iter().any(|directory| is_below(directory) == Some(true)) {
            return Ok(());
        }
        let names: Vec<_> = directories.iter().map(|directory| directory.display().to_string()).collect();
        let which =
            if names.is_empty() { "and it names none".to_owned() } else { format!("which are {}", names.join(", ")) };
        let message = format!(
            "permission denied: {} is not below a directory that the server's option files names, {which}; name its directory \
             there, or send the rows over the connection (COPY ... FROM STDIN, COPY ... TO STDOUT)",
            path.display()
        );
        Err(Error::new(Code::Denied, message))
    }
}

/// Where a path leads to; `None` if that cannot be known, as of a link to what is not there.
fn real(path: &Path) -> Option<PathBuf> {
    if path.symlink_metadata().is_ok() {
        return path.canonicalize().ok();
    }
    let name = path.file_name()?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(directory.canonicalize().ok()?.join(name))
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
