//! The header that C programs include is the one that the sources give.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

/// The most functions of the header.
const MAX_FUNCTIONS: usize = 20;

fn root() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
}

fn generated(root: &Path) -> String {
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config);
    let sources = ["src/c_api/types.rs", "src/c_api/ffi/mod.rs"];
    let builder = sources.iter().fold(builder, |builder, source| builder.with_src(root.join(source)));
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    String::from_utf8(header).unwrap()
}

/// FLEETDB_BLESS=1 writes the header that the sources give.
#[test]
fn the_header_is_the_one_that_the_sources_give() {
    let path = root().join("include/fleetdb.h");
    let given = generated(&root());
    if std::env::var_os("FLEETDB_BLESS").is_some() {
        std::fs::write(&path, &given).unwrap();
    }
    let header = std::fs::read_to_string(&path).unwrap();
    let differs = header.lines().zip(given.lines()).find(|(there, given)| there != given);
    assert!(header == given, "include/fleetdb.h: {differs:?}; repeat with FLEETDB_BLESS=1 to write it");
}

#[test]
fn the_header_has_at_most_twenty_functions_and_describes_each() {
    let header = std::fs::read_to_string(root().join("include/fleetdb.h")).unwrap();
    let lines: Vec<&str> = header.lines().collect();
    let is_function = |line: &str| {
        (line.starts_with("int fleetdb_") || line.starts_with("const char *fleetdb_")) && line.contains('(')
    };
    let functions: Vec<usize> = (0..lines.len()).filter(|&number| is_function(lines[number])).collect();
    assert_eq!(functions.len(), MAX_FUNCTIONS);
    for number in functions {
        assert!(lines[number - 1].starts_with("//"), "{} has no description", lines[number]);
    }
}
