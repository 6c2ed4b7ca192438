//! What the default build depends on.

use crate::root;
use std::process::Command;

/// Nobody who stays on one machine pays for what is beyond it: the crate is in the command only with its
/// feature, and so are the crates that it needs.
#[test]
fn the_default_build_has_nothing_for_clusters() {
    let packages = |features: &[&str]| {
        let cargo = std::env::var("CARGO").expect("cargo sets it");
        let mut tree = Command::new(cargo);
        tree.args(["tree", "--locked", "--offline", "--edges", "normal,build", "--prefix", "none"]);
        tree.args(["--package", "fleetdb", "--format", "{p}"]).args(features).current_dir(root());
        let output = tree.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (default, cluster) = (packages(&[]), packages(&["--features", "cluster"]));
    for name in ["fleetdb-cluster v", "object_store v0.14", "reqwest v", "h2 v", "quick-xml v"] {
        let has = |all: &str| all.lines().any(|line| line.starts_with(name));
        assert!(!has(&default), "the default build depends on {name}");
        assert!(has(&cluster), "with the feature `cluster`, there is no {name}: the test looks for the wrong name");
    }
    assert!(default.lines().any(|line| line.starts_with("fleetdb-engine v")));
    // The command is not a library for other languages.
    for name in ["fleetdb-c v", "fleetdb-python v", "adbc_core v", "pyo3 v"] {
        assert!(!default.lines().any(|line| line.starts_with(name)), "the default build depends on {name}");
    }
}
