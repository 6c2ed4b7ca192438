//! Controls which local files statements may read and write: all of them for a program that embeds
//! the database, and for a server only those below configured directories.

use fleetdb_engine::{Code, Error, Result};
use std::path::{Path, PathBuf};

/// The accessible files. See the module documentation.
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
    /// Only files below these directories; none if the list is empty.
    pub fn below(directories: Vec<PathBuf>) -> Self {
        Self(Some(directories))
    }

    /// Rejects a path that is not below one of the directories after symbolic links are resolved.
    /// The file need not exist, but its directory must.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input), with the remedy in its message.
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

/// Resolves a path; `None` if it cannot be resolved, as for a dangling symbolic link.
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
