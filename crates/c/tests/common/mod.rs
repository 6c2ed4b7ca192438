//! Finds the library that C programs and Python load.

use std::path::{Path, PathBuf};

/// The folder of the crate.
pub fn root() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
}

/// Puts the library into a folder under the name that it is distributed as.
pub fn put_library(folder: &Path) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = format!("{}fleetdb_c{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    // Cargo builds it for the tests, next to them. In the folder above there may be one of another build.
    let built = test.ancestors().skip(1).map(|folder| folder.join(&name)).find(|library| library.exists());
    let built = built.unwrap_or_else(|| panic!("{name} is not built"));
    let library = folder.join(name.replace("fleetdb_c", "fleetdb"));
    std::os::unix::fs::symlink(built, &library).unwrap();
    library
}

/// What a program said.
pub fn said(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
