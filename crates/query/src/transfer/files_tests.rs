use super::*;

#[test]
fn links_lead_nowhere_else() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = Files::below(vec![inside.path().to_owned()]);
    std::fs::create_dir(inside.path().join("deep")).unwrap();
    assert!(files.check(&inside.path().join("deep/rows.csv")).is_ok());
    std::os::unix::fs::symlink(outside.path(), inside.path().join("link")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("none"), inside.path().join("dangling")).unwrap();
    for path in ["link/rows.csv", "link", "dangling", "deep/../../rows.csv", "nowhere/rows.csv", ".", ".."] {
        let error = files.check(&inside.path().join(path)).unwrap_err().to_string();
        assert!(error.starts_with("permission denied"), "{path}: {error}");
    }
    assert!(Files::below(Vec::new()).check(&inside.path().join("rows.csv")).is_err());
}
