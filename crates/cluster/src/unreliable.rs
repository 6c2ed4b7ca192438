//! A store for tests that fails at random.

use crate::bucket::Bucket;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result as StoreResult,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

/// A store in memory that fails at random, and has a clock of its own.
#[derive(Debug)]
pub(crate) struct Unreliable {
    store: InMemory,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    random: Xoshiro256PlusPlus,
    /// One request in this many fails; 0 for none.
    pub(crate) failing: u64,
    /// Nothing succeeds until the test ends it.
    pub(crate) outage: bool,
    /// Writes whose answers were lost, and which are done later.
    late: Vec<(Path, PutPayload, PutOptions)>,
    pub(crate) hours: u64,
    written: HashMap<Path, u64>,
    pub(crate) reads: u64,
    /// Lists are never answered.
    pub(crate) hangs: bool,
    pub(crate) hanging: u64,
}

/// What happens to a request.
#[derive(PartialEq)]
enum Fate {
    Done,
    Refused,
    AnswerLost,
    Late,
}

impl Unreliable {
    pub(crate) fn new(seed: u64) -> (Arc<Self>, Bucket) {
        let state = State {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            failing: 0,
            outage: false,
            late: Vec::new(),
            hours: 0,
            written: HashMap::new(),
            reads: 0,
            hangs: false,
            hanging: 0,
        };
        let store = Arc::new(Self { store: InMemory::new(), state: Mutex::new(state) });
        let bucket = Bucket::new(Arc::clone(&store) as Arc<dyn ObjectStore>, "fleet", "test://fleet", None).unwrap();
        (store, bucket)
    }

    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn fate(&self) -> Fate {
        let mut state = self.state();
        let (failing, number) = (state.failing, state.random.next_u64() >> 8);
        let fails = failing > 0 && (number / 3).is_multiple_of(failing);
        state.outage |= fails && (number / 64).is_multiple_of(8);
        match number % 3 {
            _ if !fails && !state.outage => Fate::Done,
            0 => Fate::Refused,
            1 => Fate::AnswerLost,
            _ => Fate::Late,
        }
    }

    /// Some of the writes that are still on their way.
    fn arriving(&self) -> Vec<(Path, PutPayload, PutOptions)> {
        let state = &mut *self.state();
        let State { late, random, outage, .. } = state;
        late.extract_if(.., |_| !*outage && random.next_u64() >> 8 & 3 == 0).collect()
    }

    async fn put(&self, path: &Path, payload: PutPayload, options: PutOptions) -> StoreResult<PutResult> {
        let put = self.store.put_opts(path, payload, options).await?;
        let mut state = self.state();
        let hours = state.hours;
        state.written.insert(path.clone(), hours);
        Ok(put)
    }
}

impl fmt::Display for Unreliable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unreliable")
    }
}

fn no_answer(path: &Path) -> object_store::Error {
    object_store::Error::Generic { store: "test", source: format!("no answer for {path}").into() }
}

#[async_trait::async_trait]
impl ObjectStore for Unreliable {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> StoreResult<PutResult> {
        for (path, payload, options) in self.arriving() {
            self.put(&path, payload, options).await.ok();
        }
        match self.fate() {
            Fate::Done => return self.put(path, payload, options).await,
            Fate::Refused => {}
            Fate::AnswerLost => drop(self.put(path, payload, options).await),
            Fate::Late => self.state().late.push((path.clone(), payload, options)),
        }
        Err(no_answer(path))
    }

    async fn put_multipart_opts(&self, path: &Path, of: PutMultipartOptions) -> StoreResult<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(path, of).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> StoreResult<GetResult> {
        self.state().reads += 1;
        if self.fate() != Fate::Done {
            return Err(no_answer(path));
        }
        self.store.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        let written = {
            let mut state = self.state();
            if state.hangs {
                state.hanging += 1;
                return futures::stream::pending().boxed();
            }
            state.written.clone()
        };
        let dated = move |object: StoreResult<ObjectMeta>| {
            let mut object = object?;
            if let Some(hours) = written.get(&object.location) {
                object.last_modified = (UNIX_EPOCH + Duration::from_secs(hours * 3600)).into();
            }
            Ok(object)
        };
        self.store.list(prefix).map(dated).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.store.copy_opts(from, to, options).await
    }
}
