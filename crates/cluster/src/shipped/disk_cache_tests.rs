use super::*;
use std::cell::Cell;

const LEN: u64 = 3 * BLOCK_BYTES + 1_000;

fn object() -> Vec<u8> {
    (0..LEN).map(|n| (n * n / 7) as u8).collect()
}

/// Reads ranges, and compares them; gives the number of requests.
fn requests<const N: usize>(cache: &DiskCache, name: &str, ranges: [(u64, u64); N]) -> u64 {
    let (object, requests) = (object(), Cell::new(0));
    for range in ranges.map(|(start, end)| start..end) {
        let fetch = |range: Range<u64>| {
            requests.set(requests.get() + 1);
            Ok(Bytes::copy_from_slice(&object[range.start as usize..range.end as usize]))
        };
        let read = cache.read(name, LEN, range.clone(), fetch).unwrap();
        assert!(read == object[range.start as usize..range.end as usize], "{range:?}");
    }
    requests.get()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let folder = fs::read_dir(directory).unwrap().next().unwrap().unwrap().path();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| !file.ends_with(LOCK)).collect()
}

#[test]
fn what_was_read_is_read_once_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = || DiskCache::open(directory.path(), "s3://a/b", 1 << 30).unwrap();
    let cache = open();
    assert_eq!(requests(&cache, "x/1", [(10, 20), (0, 30), (BLOCK_BYTES - 1, BLOCK_BYTES), (5, 5)]), 1);
    // The missing blocks around one that is there, with the end of the object.
    assert_eq!(requests(&cache, "x/1", [(BLOCK_BYTES * 2, BLOCK_BYTES * 2 + 1)]), 1);
    assert_eq!(requests(&cache, "x/1", [(0, LEN), (LEN - 8, LEN)]), 2);
    assert_eq!(requests(&cache, "x/2", [(0, LEN)]), 1);
    // A cache has one owner.
    assert!(DiskCache::open(directory.path(), "s3://a/b", 1).err().unwrap().to_string().contains("another process"));
    drop(cache);
    assert_eq!(requests(&open(), "x/1", [(0, LEN), (7, LEN - 7)]), 0);
    // Another bucket has blocks of its own.
    assert_eq!(requests(&DiskCache::open(directory.path(), "s3://a/c", 1 << 30).unwrap(), "x/1", [(0, LEN)]), 1);
}

#[test]
fn damaged_and_missing_files_are_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let open = || DiskCache::open(directory.path(), "s3://a/b", 1 << 30).unwrap();
    requests(&open(), "x", [(0, LEN)]);
    let all = files(directory.path());
    assert_eq!(all.len(), 4);
    let mut bytes = fs::read(&all[0]).unwrap();
    bytes[3] ^= 1;
    fs::write(&all[0], bytes).unwrap();
    fs::write(&all[1], b"x").unwrap();
    fs::write(all[1].with_file_name("7.tmp"), b"half").unwrap();
    let cache = open();
    fs::remove_file(&all[2]).unwrap();
    assert!((1..=3).contains(&requests(&cache, "x", [(0, LEN)])));
    assert_eq!(requests(&cache, "x", [(0, LEN)]), 0);
    // A directory that takes no files is a cache that has none.
    fs::remove_dir_all(all[0].parent().unwrap()).unwrap();
    assert_eq!(requests(&cache, "y", [(0, LEN), (0, LEN)]), 2);
}

#[test]
fn the_least_recently_used_blocks_go() {
    let directory = tempfile::tempdir().unwrap();
    let block = BLOCK_BYTES + 4;
    let cache = DiskCache::open(directory.path(), "s3://a/b", 2 * block).unwrap();
    let nth = |n: u64| (n * BLOCK_BYTES, n * BLOCK_BYTES + 1);
    requests(&cache, "x", [nth(0), nth(1), nth(0), nth(2)]);
    assert_eq!(files(directory.path()).len(), 2);
    assert_eq!(requests(&cache, "x", [nth(0), nth(2)]), 0);
    assert_eq!(requests(&cache, "x", [nth(1)]), 1);
    // A smaller limit takes effect when the cache is opened.
    drop(cache);
    let cache = DiskCache::open(directory.path(), "s3://a/b", block).unwrap();
    assert_eq!((files(directory.path()).len(), requests(&cache, "x", [nth(1)])), (1, 0));
}
