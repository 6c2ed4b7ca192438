use super::*;

#[test]
fn a_wrong_url_says_what_to_do() {
    for (url, says) in [
        ("fleet", "use s3://BUCKET/PREFIX"),
        ("s3:///prefix", "names no bucket"),
        ("file://relative", "three slashes"),
        ("file:///there/is/no/such/directory", "No such file or directory"),
        ("s3://bucket/a//b", "s3://bucket/a//b"),
    ] {
        let error = Bucket::open(url).err().unwrap().to_string();
        assert!(error.contains(says), "{url}: {error}");
    }
}

#[test]
fn objects_of_a_directory_are_read_replaced_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let bucket = Bucket::open(&format!("file://{}", directory.path().display())).unwrap().within("p/07");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let Outcome::Written(first) = bucket.create("owner", Bytes::from_static(b"ann 1")).await.unwrap() else {
            panic!("refused");
        };
        assert_eq!(bucket.create("owner", Bytes::from_static(b"bob 1")).await.unwrap(), Outcome::Refused);
        assert!(!bucket.claim("owner", &Bytes::from_static(b"bob 1")).await.unwrap());
        assert_eq!(bucket.read("owner").await.unwrap(), Some((Bytes::from_static(b"ann 1"), first.clone())));
        let replaced = bucket.replace("owner", Bytes::from_static(b"bob 2"), &first).await.unwrap();
        assert!(matches!(replaced, Outcome::Written(_)));
        assert_eq!(bucket.replace("owner", Bytes::from_static(b"ann 2"), &first).await.unwrap(), Outcome::Refused);
        assert_eq!(&bucket.read_range("owner", 1..5).await.unwrap()[..], b"ob 2");
        assert!(bucket.claim("wal/1/2", &Bytes::from_static(b"frames")).await.unwrap());
        assert_eq!(bucket.list().await.unwrap(), ["owner", "wal/1/2"]);
        assert_eq!(bucket.within("wal").list().await.unwrap(), ["1/2"]);
        bucket.delete(vec!["owner".to_owned(), "nobody".to_owned()]).await.unwrap();
        assert_eq!(bucket.read("owner").await.unwrap(), None);
        assert_eq!(bucket.list().await.unwrap(), ["wal/1/2"]);
    });
}
