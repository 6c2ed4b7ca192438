//! Objects by name, in an object store (`s3://bucket/prefix`) or, for development, in a directory
//! (`file:///directory`).
//!
//! The client never repeats a request by itself. A write whose answer was lost may have been done,
//! and only its caller knows what to do then ([`Bucket::claim`]).

use crate::background::Background;
use bytes::Bytes;
use fleetdb_engine::{Code, Error, Result};
use futures::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    ClientOptions, GetOptions, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    RetryConfig, UpdateVersion,
};
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Time limit for one request, without the time that its bytes take.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// The least bandwidth at which a request is not given up, in bytes per second.
const MIN_BANDWIDTH: u64 = 8 << 10;

/// Time limit for a list of any length.
const LIST_LIMIT: Duration = Duration::from_secs(120);

/// Time limit for connecting.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The characters besides letters and digits that a prefix may have: stores and their clients disagree
/// about how others are written in a URL.
const PLAIN: &str = "/-_.=+,:@!()'$";

/// How often a claim is tried.
const MAX_TRIES: usize = 10;

/// Objects with a common prefix. Cloning it is cheap.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    url: String,
    /// The directory, if it is one. It cannot replace an object by its version, so it is locked
    /// meanwhile.
    directory: Option<PathBuf>,
    background: Arc<Background>,
}

/// The version of an object, by which it is replaced only if it is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(UpdateVersion);

/// What a conditional write did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object is there.
    Written(Version),
    /// Nothing was written: the object existed, or its version was another.
    Refused,
}

/// An object of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written, by the clock of the store.
    pub written: SystemTime,
}

/// A large object that is written in parts. It exists once it is [finished](Self::finish).
pub struct Upload {
    parts: Box<dyn MultipartUpload>,
    bucket: Bucket,
    name: String,
}

impl Upload {
    /// Sends the next part. All parts but the last have the same length, which is at least 5 MiB.
    ///
    /// # Errors
    /// As [`Bucket::create`]. The parts that were sent are given up.
    pub async fn send(&mut self, bytes: Bytes) -> Result<()> {
        let limit = limit_for(bytes.len() as u64);
        let sent = within(limit, self.parts.put_part(bytes.into())).await;
        self.or_give_up(sent).await
    }

    /// Makes the object of the parts. An object of this name is replaced.
    ///
    /// # Errors
    /// As [`Bucket::create`].
    pub async fn finish(mut self) -> Result<()> {
        let finished = within(REQUEST_LIMIT, self.parts.complete()).await;
        self.or_give_up(finished.map(|_| ())).await
    }

    async fn or_give_up(&mut self, done: object_store::Result<()>) -> Result<()> {
        if let Err(error) = done {
            // What cannot be given up stays until the store's own rules remove it.
            self.give_up().await.ok();
            return Err(self.bucket.failed("write", &self.name, error));
        }
        Ok(())
    }

    /// Gives up the parts that were sent.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn give_up(&mut self) -> Result<()> {
        within(REQUEST_LIMIT, self.parts.abort())
            .await
            .map_err(|error| self.bucket.failed("delete the parts of", &self.name, error))
    }
}

impl Bucket {
    /// Opens a bucket by its URL, with credentials, region and endpoint from the environment
    /// (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, and the
    /// others of [`AmazonS3Builder::from_env`]). Nothing is sent yet.
    ///
    /// ```
    /// use fleetdb_cluster::bucket::Bucket;
    /// let directory = tempfile::tempdir().unwrap();
    /// assert!(Bucket::open(&format!("file://{}", directory.path().display())).is_ok());
    /// assert!(Bucket::open("ftp://host/x").is_err());
    /// ```
    ///
    /// # Errors
    /// The URL or a setting is invalid, or the directory does not exist.
    pub fn open(url: &str) -> Result<Self> {
        if let Some(path) = url.strip_prefix("file://") {
            return Self::directory(url, path);
        }
        let Some(rest) = url.strip_prefix("s3://") else {
            return Err(Error::invalid(format!(
                "'{url}' is no bucket: use s3://BUCKET/PREFIX, or file:///DIRECTORY for development"
            )));
        };
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if name.is_empty() {
            return Err(Error::invalid(format!("'{url}' names no bucket: use s3://BUCKET/PREFIX")));
        }
        // reqwest asks for the process's provider of cryptography. One that is set already will do.
        rustls::crypto::ring::default_provider().install_default().ok();
        let builder = AmazonS3Builder::from_env().with_bucket_name(name);
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default();
        let client = ClientOptions::new()
            // Each request has a limit that depends on its length.
            .with_timeout_disabled()
            .with_connect_timeout(CONNECT_LIMIT)
            .with_allow_http(endpoint.starts_with("http://"));
        let retries = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let store = builder.with_client_options(client).with_retry(retries).build();
        let store = store.map_err(|e| Error::invalid(format!("{url}: {e}")))?;
        Self::new(Arc::new(store), prefix, url, None)
    }

    fn directory(url: &str, path: &str) -> Result<Self> {
        if !path.starts_with('/') {
            return Err(Error::invalid(format!("'{url}' is no directory: use file:///DIRECTORY, with three slashes")));
        }
        let store = LocalFileSystem::new_with_prefix(path);
        let store = store
            .map_err(|e| Error::invalid(format!("{url}: {}", in_short(&e))).with_hint("Create the directory first."))?;
        // As in a store, no folder stays when its last object is deleted.
        let store = store.with_automatic_cleanup(true);
        Self::new(Arc::new(store), "", url, Some(PathBuf::from(path)))
    }

    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        url: &str,
        directory: Option<PathBuf>,
    ) -> Result<Self> {
        if let Some(character) = prefix.chars().find(|c| !is_plain(*c)) {
            return Err(Error::invalid(format!(
                "{url} has the character {character:?} in its prefix: use letters from a to z, digits and {PLAIN}"
            )));
        }
        let prefix = Path::parse(prefix).map_err(|e| Error::invalid(format!("{url}: {e}")))?;
        let (url, background) = (url.trim_end_matches('/').to_owned(), Arc::default());
        Ok(Self { store, prefix, url, directory, background })
    }

    /// Checks that there is such a bucket and that its objects may be listed. Other requests take a
    /// bucket that does not exist for an empty one.
    ///
    /// # Errors
    /// There is none, or the store refuses the request or does not answer.
    pub async fn find(&self) -> Result<()> {
        // A read tells wrong keys and a store that is away from everything else.
        self.read("no such object").await?;
        match within(REQUEST_LIMIT, self.store.list(Some(&self.prefix)).try_next()).await {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::invalid(format!("could not list {}: {}", self.url, in_short(&error)))
                .with_hint("Does the bucket exist, and may the key list its objects?")),
        }
    }

    /// The thread for those who wait for answers.
    pub(crate) fn background(&self) -> &Background {
        &self.background
    }

    /// The URL by which it was opened, with the prefix that [`within`](Self::within) added.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The objects whose names begin with `name` and a slash.
    #[must_use]
    pub fn within(&self, name: &str) -> Self {
        let (prefix, url) = (self.path(name), format!("{}/{name}", self.url));
        Self { prefix, url, ..self.clone() }
    }

    /// Writes an object that does not exist yet.
    ///
    /// # Errors
    /// The store refuses the request ([`Code::Denied`], [`Code::Invalid`]). With any other error,
    /// the object may have been written, now or later.
    pub async fn create(&self, name: &str, bytes: Bytes) -> Result<Outcome> {
        self.put(name, bytes, PutMode::Create).await
    }

    /// Writes an object anew if its version is still this one.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub async fn replace(&self, name: &str, bytes: Bytes, version: &Version) -> Result<Outcome> {
        let Some(directory) = &self.directory else {
            return self.put(name, bytes, PutMode::Update(version.0.clone())).await;
        };
        let failed = |e| Error::io(format_args!("could not lock {}", directory.display()), &e);
        let opened = File::open(directory).map_err(failed)?;
        let locked = tokio::task::spawn_blocking(move || opened.lock().map(|()| opened)).await;
        let _locked = locked.map_err(|e| Error::bug(format!("a lock: {e}")))?.map_err(failed)?;
        match self.read(name).await? {
            Some((_, now)) if now == *version => self.put(name, bytes, PutMode::Overwrite).await,
            _ => Ok(Outcome::Refused),
        }
    }

    /// Writes an object, whether or not it exists.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub async fn write(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.put(name, bytes, PutMode::Overwrite).await.map(|_| ())
    }

    /// Begins to write a large object in parts.
    ///
    /// # Errors
    /// The store refuses the request, or does not answer.
    pub async fn upload(&self, name: &str) -> Result<Upload> {
        let parts = within(REQUEST_LIMIT, self.store.put_multipart(&self.path(name))).await;
        let parts = parts.map_err(|error| self.failed("write", name, error))?;
        Ok(Upload { parts, bucket: self.clone(), name: name.to_owned() })
    }

    async fn put(&self, name: &str, bytes: Bytes, mode: PutMode) -> Result<Outcome> {
        let version = self.directory.as_ref().map(|_| version_of(&bytes));
        let is_update = matches!(mode, PutMode::Update(_));
        let (path, limit) = (self.path(name), limit_for(bytes.len() as u64));
        let put = within(limit, self.store.put_opts(&path, bytes.into(), PutOptions::from(mode))).await;
        match put {
            Ok(put) => Ok(Outcome::Written(version.unwrap_or_else(|| Version(put.into())))),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(Outcome::Refused)
            }
            // There is nothing that the version could be of.
            Err(object_store::Error::NotFound { .. }) if is_update => Ok(Outcome::Refused),
            Err(error) => Err(self.failed("write", name, error)),
        }
    }

    /// Writes an object that does not exist yet, and if the answer is lost, finds out whether it
    /// was written: `true` if the object is this one. No one else may write the same bytes.
    ///
    /// # Errors
    /// The store refuses the request, or does not answer. Then the object may yet be written.
    pub async fn claim(&self, name: &str, bytes: &Bytes) -> Result<bool> {
        let mut lost = None;
        for _ in 0..MAX_TRIES {
            match self.create(name, bytes.clone()).await {
                Ok(Outcome::Written(_)) => return Ok(true),
                Ok(Outcome::Refused) if lost.is_none() => return Ok(false),
                Ok(Outcome::Refused) => {}
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => lost = Some(error),
            }
            match self.read(name).await {
                Ok(Some((found, _))) => return Ok(found == *bytes),
                Ok(None) => {}
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => lost = Some(error),
            }
        }
        Err(lost.expect("only a try whose answer is lost is repeated"))
    }

    /// The bytes and the version of an object; `None` if it does not exist.
    ///
    /// # Errors
    /// The store refuses the request, or does not answer.
    pub async fn read(&self, name: &str) -> Result<Option<(Bytes, Version)>> {
        let path = self.path(name);
        let got = match within(REQUEST_LIMIT, self.store.get_opts(&path, GetOptions::default())).await {
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.failed("read", name, error)),
        };
        let version = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
        let limit = limit_for(got.meta.size);
        let bytes = within(limit, got.bytes()).await.map_err(|error| self.failed("read", name, error))?;
        let version = if self.directory.is_some() { version_of(&bytes) } else { Version(version) };
        Ok(Some((bytes, version)))
    }

    /// Some of the bytes of an object.
    ///
    /// # Errors
    /// The object does not exist or is shorter, or the store does not answer.
    pub async fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let (path, limit) = (self.path(name), limit_for(range.end.saturating_sub(range.start)));
        within(limit, self.store.get_range(&path, range)).await.map_err(|error| self.failed("read", name, error))
    }

    /// The names of all objects, sorted.
    ///
    /// # Errors
    /// As [`objects`](Self::objects).
    pub async fn list(&self) -> Result<Vec<String>> {
        Ok(self.objects().await?.into_iter().map(|object| object.name).collect())
    }

    /// All objects, sorted by name.
    ///
    /// # Errors
    /// The store refuses the request, or does not answer.
    pub async fn objects(&self) -> Result<Vec<Listed>> {
        let listed = within(LIST_LIMIT, self.store.list(Some(&self.prefix)).try_collect()).await;
        self.listed(listed)
    }

    /// The objects whose names are after this one, sorted.
    ///
    /// # Errors
    /// As [`objects`](Self::objects).
    pub async fn objects_after(&self, name: &str) -> Result<Vec<Listed>> {
        let listed = self.store.list_with_offset(Some(&self.prefix), &self.path(name)).try_collect();
        let listed = within(LIST_LIMIT, listed).await;
        self.listed(listed)
    }

    /// The names of the folders directly below, sorted.
    ///
    /// # Errors
    /// As [`objects`](Self::objects).
    pub async fn folders(&self) -> Result<Vec<String>> {
        let listed = within(LIST_LIMIT, self.store.list_with_delimiter(Some(&self.prefix))).await;
        let listed = listed.map_err(|error| self.failed("list", "", error))?;
        let name = |folder: &Path| folder.filename().map(str::to_owned);
        let mut names: Vec<String> = listed.common_prefixes.iter().filter_map(name).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn listed(&self, listed: object_store::Result<Vec<ObjectMeta>>) -> Result<Vec<Listed>> {
        let listed = listed.map_err(|error| self.failed("list", "", error))?;
        let object = |object: &ObjectMeta| {
            let parts = object.location.prefix_match(&self.prefix)?;
            let name = parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
            Some(Listed { name, bytes: object.size, written: object.last_modified.into() })
        };
        let mut objects: Vec<Listed> = listed.iter().filter_map(object).collect();
        objects.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(objects)
    }

    /// Deletes objects; those that do not exist are none.
    ///
    /// # Errors
    /// The store refuses a request, or does not answer.
    pub async fn delete(&self, names: Vec<String>) -> Result<()> {
        const AT_A_TIME: usize = 16;
        let deleted = futures::stream::iter(names).map(|name| async move {
            match within(REQUEST_LIMIT, self.store.delete(&self.path(&name))).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(self.failed("delete", &name, error)),
            }
        });
        deleted.buffer_unordered(AT_A_TIME).try_collect().await
    }

    /// Whether a name may stand in a prefix.
    pub(crate) fn takes_name(name: &str) -> bool {
        name.chars().all(is_plain)
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.prefix))
    }

    fn failed(&self, verb: &str, name: &str, error: object_store::Error) -> Error {
        use object_store::Error as E;
        let code = match &error {
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => Code::Denied,
            E::NotFound { .. } | E::InvalidPath { .. } | E::NotSupported { .. } | E::NotImplemented { .. } => {
                Code::Invalid
            }
            _ => Code::Busy,
        };
        let error = Error::new(code, format!("could not {verb} {}/{name}: {}", self.url, in_short(&error)));
        match code {
            Code::Denied => error.with_hint(
                "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to a key that may read, write, list and delete there. \
                 Stores refuse the requests of a machine whose clock is wrong as well.",
            ),
            Code::Busy => error.with_hint(
                "Is the store up, and do AWS_ENDPOINT_URL and AWS_REGION name it? Without them, it is AWS in us-east-1.",
            ),
            _ => error,
        }
    }
}

/// The time that a request with this many bytes may take.
fn limit_for(bytes: u64) -> Duration {
    REQUEST_LIMIT + Duration::from_secs(bytes / MIN_BANDWIDTH)
}

/// Gives a request up after a time.
async fn within<T>(limit: Duration, request: impl Future<Output = object_store::Result<T>>) -> object_store::Result<T> {
    tokio::time::timeout(limit, request).await.unwrap_or_else(|_| {
        let source = format!("no answer within {} s", limit.as_secs()).into();
        Err(object_store::Error::Generic { store: "bucket", source })
    })
}

/// Whether trying again would give the same.
fn is_final(error: &Error) -> bool {
    error.code() != Code::Busy
}

/// An error for people: the code and the message of a store's answer if there is one, else the
/// error with its first cause.
fn in_short(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    let (whole, last) = (error.to_string(), last.to_string());
    let inside = |tag: &str| {
        let (_, rest) = whole.split_once(&format!("<{tag}>"))?;
        rest.split_once("</").map(|(text, _)| text)
    };
    if let (Some(code), Some(message)) = (inside("Code"), inside("Message")) {
        return format!("{code}: {message}");
    }
    if whole.contains(&last) { whole } else { format!("{whole}: {last}") }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || PLAIN.contains(character)
}

/// The version of a file is its content, as the ETag of an object is in most stores.
fn version_of(bytes: &Bytes) -> Version {
    Version(UpdateVersion { e_tag: Some(sha256(bytes)), version: None })
}

/// The SHA-256 of bytes, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
