use super::*;

#[test]
fn a_directory_is_opened_once_and_shared_until_the_last_one_closes_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new").to_str().unwrap().to_owned();
    let first = Opened::open(&path, &Options::default()).unwrap();
    let second = Opened::open(&format!("{path}/../new"), &Options::default()).unwrap();
    assert!(Arc::ptr_eq(first.store().writer().unwrap(), second.store().writer().unwrap()));
    let other = Options::parse("memory_limit=67108864").unwrap();
    assert_eq!(Opened::open(&path, &other).err().unwrap().code(), Code::InvalidParameter);
    first.close().unwrap();
    second.close().unwrap();
    let again = Opened::open(&path, &other).unwrap();
    assert_eq!(again.store().settings().memory_limit, 67_108_864);
}

#[test]
fn databases_in_memory_are_apart_unless_shared() {
    let options = Options::parse("durability=os profile=edge").unwrap();
    let (one, two) = (Opened::open(MEMORY, &options).unwrap(), Opened::open(MEMORY, &options).unwrap());
    assert!(!Arc::ptr_eq(one.store().writer().unwrap(), two.store().writer().unwrap()));
    let shared = one.share();
    assert!(Arc::ptr_eq(one.store().writer().unwrap(), shared.store().writer().unwrap()));
}

#[test]
fn options_that_do_not_fit_are_refused() {
    for text in ["speed=11", "memory_limit=64MiB", "durability=perhaps", "profile=server", "read_only=1", "edge"] {
        assert_eq!(Options::parse(text).unwrap_err().code(), Code::InvalidParameter, "{text}");
    }
    let options = Options::parse(" read_only=true  sync_interval_ms=5 ").unwrap();
    assert_eq!(options.get("read_only").as_deref(), Some("true"));
    assert_eq!(options.get("sync_interval_ms").as_deref(), Some("5"));
    assert_eq!(options.get("memory_limit"), None);
    for path in ["", "s3://bucket/prefix"] {
        assert!(Opened::open(path, &Options::default()).is_err(), "{path}");
    }
}
