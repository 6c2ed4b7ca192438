use super::*;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Conditions are taken and ignored.
    IgnoresConditions,
    /// If-Match alone is ignored.
    IgnoresVersions,
    /// It looks whether an object is there, and writes it a moment later.
    LooksBeforeItWrites,
    /// The newest object is not listed.
    ListsLate,
    /// A read gives the object of before the last replacement.
    ReadsStale,
    /// A long object lacks its last byte.
    CutsObjects,
    /// In races, every third write is done, but fails for the client.
    LosesAnswers,
    /// The key may not write.
    DeniesWrites,
}

/// A store in memory with a fault.
#[derive(Debug)]
struct Faulty {
    store: InMemory,
    fault: Fault,
    /// What objects were before they were replaced.
    before: InMemory,
    writes: AtomicU64,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.fault)
    }
}

fn lost(path: &Path) -> object_store::Error {
    object_store::Error::Generic { store: "test", source: format!("no answer for {path}").into() }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, path: &Path, payload: PutPayload, mut options: PutOptions) -> StoreResult<PutResult> {
        if let Ok(now) = self.store.get(path).await {
            self.before.put(path, now.bytes().await?.into()).await?;
        }
        let is_absent = self.store.head(path).await.is_err();
        match (self.fault, &options.mode) {
            (Fault::DeniesWrites, _) => {
                let source = "the key may only read".into();
                return Err(object_store::Error::PermissionDenied { path: path.to_string(), source });
            }
            (Fault::IgnoresConditions, PutMode::Create) => options.mode = PutMode::Overwrite,
            (Fault::IgnoresConditions | Fault::IgnoresVersions, PutMode::Update(_)) => {
                // As long as a request takes: all clients have read when the first one writes.
                tokio::time::sleep(Duration::from_millis(2)).await;
                options.mode = PutMode::Overwrite;
            }
            (Fault::LooksBeforeItWrites, PutMode::Create) if is_absent => {
                tokio::time::sleep(Duration::from_millis(2)).await;
                options.mode = PutMode::Overwrite;
            }
            _ => {}
        }
        let put = self.store.put_opts(path, payload, options).await?;
        let is_race = path.as_ref().contains("race/") || path.as_ref().ends_with("gathered");
        if self.fault == Fault::LosesAnswers && is_race && self.writes.fetch_add(1, Ordering::Relaxed) % 3 == 1 {
            return Err(lost(path));
        }
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> StoreResult<GetResult> {
        match self.fault {
            Fault::ReadsStale if self.before.head(path).await.is_ok() => self.before.get_opts(path, options).await,
            Fault::CutsObjects if self.store.head(path).await?.size > 100_000 => {
                let bytes = self.store.get(path).await?.bytes().await?;
                let cut = InMemory::new();
                cut.put(path, bytes.slice(..bytes.len() - 1).into()).await?;
                cut.get_opts(path, options).await
            }
            _ => self.store.get_opts(path, options).await,
        }
    }

    fn delete_stream(&self, paths: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        let listed = self.store.list(prefix);
        if self.fault != Fault::ListsLate {
            return listed;
        }
        let without_newest = async move {
            let mut all: Vec<ObjectMeta> = listed.try_collect().await?;
            all.pop();
            Ok::<_, object_store::Error>(futures::stream::iter(all).map(Ok))
        };
        futures::stream::once(without_newest).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.store.copy_opts(from, to, options).await
    }
}

const SHORT: Effort = Effort { clients: 8, rounds: 5, time_per_size: Duration::ZERO, price_per_million: 5.0 };

fn faulty(fault: Fault) -> (Arc<Faulty>, Bucket) {
    let (store, before) = (InMemory::new(), InMemory::new());
    let store = Arc::new(Faulty { store, fault, before, writes: AtomicU64::new(0) });
    (Arc::clone(&store), Bucket::new(store, "fleet", "test://fleet", None).unwrap())
}

/// The numbers of the promises that a store with this fault breaks.
fn broken(fault: Fault) -> Vec<usize> {
    let (_, bucket) = faulty(fault);
    let report = check(&bucket, &SHORT, || {}).unwrap();
    let broken = report.promises.iter().enumerate().filter(|(_, promise)| promise.broken.is_some());
    broken.map(|(number, _)| number).collect()
}

#[test]
fn each_fault_breaks_the_promises_that_it_should() {
    assert_eq!(broken(Fault::None), [0; 0]);
    assert_eq!(broken(Fault::LosesAnswers), [0; 0], "what a client can find out is no fault");
    assert_eq!(broken(Fault::CutsObjects), [0]);
    assert_eq!(broken(Fault::ListsLate), [1]);
    assert_eq!(broken(Fault::IgnoresConditions), [2, 3, 4, 5]);
    assert_eq!(broken(Fault::LooksBeforeItWrites), [3]);
    assert_eq!(broken(Fault::IgnoresVersions), [4, 5]);
    let stale = broken(Fault::ReadsStale);
    assert!(stale.contains(&6), "{stale:?}");
}

#[test]
fn a_check_deletes_what_it_wrote_and_nothing_else() {
    let (store, bucket) = faulty(Fault::None);
    let steps = std::cell::Cell::new(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(store.store.put(&Path::from("fleet/theirs"), Bytes::from_static(b"x").into())).unwrap();
    let report = check(&bucket, &SHORT, || steps.set(steps.get() + 1)).unwrap();
    assert_eq!((steps.get(), report.writes.len()), (STEPS, 8));
    let left: Vec<ObjectMeta> = runtime.block_on(store.store.list(None).try_collect()).unwrap();
    assert_eq!(left.iter().map(|object| object.location.as_ref()).collect::<Vec<_>>(), ["fleet/theirs"]);
}

#[test]
fn a_key_without_rights_is_an_error() {
    let (_, bucket) = faulty(Fault::DeniesWrites);
    let error = check(&bucket, &SHORT, || {}).unwrap_err();
    assert_eq!(error.code(), fleetdb_engine::Code::Denied);
    assert!(error.hint().unwrap().contains("AWS_ACCESS_KEY_ID"), "{error}");
}

#[test]
fn a_directory_keeps_all_promises() {
    let directory = tempfile::tempdir().unwrap();
    let bucket = Bucket::open(&format!("file://{}", directory.path().display())).unwrap();
    let report = check(&bucket, &SHORT, || {}).unwrap();
    assert_eq!(report.broken().count(), 0, "{:?}", report.promises);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the check left something behind");
}
