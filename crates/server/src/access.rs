//! Users with passwords and named tokens, stored in `access.json` in the database directory.
//!
//! 1. The file holds argon2 hashes of passwords and tokens, and for each user the salted password
//!    that SCRAM-SHA-256 needs (RFC 5802). The command line or an administrator replaces it as a
//!    whole; a server picks up the change with the next request.
//! 2. Verification is slow on purpose. A verified secret is remembered by its SHA-256 until the
//!    file changes. Only a few unknown secrets are verified at a time, and those from one address
//!    run one after another ([`LoginQueue`]). Hashing a token is fast, since 24 random bytes cannot
//!    be guessed, so a token never waits for a turn.
//! 3. A directory without the file has no users. Then everyone has all rights if the server listens
//!    on loopback only, and no one has any otherwise ([`AnonymousAccess`]).

use crate::login_queue::LoginQueue;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use fleetdb_engine::{Code, Error, Result};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use subtle::ConstantTimeEq;

/// The name of the file in the database directory.
pub const FILE: &str = "access.json";
/// Passwords from one address that may wait. The last one waits about a second, even if an attacker
/// sends all the others.
const MAX_PASSWORDS_WAITING: usize = 1_000;
/// Secrets from one address with slow hashes that may wait.
const MAX_HASHES_WAITING: usize = 16;
/// The largest number of verified secrets that are remembered.
const MAX_REMEMBERED: usize = 10_000;
/// A change this soon after another may leave the modification time of a directory as it is: some file
/// systems store it in steps of two seconds.
const TIME_STEP: Duration = Duration::from_secs(3);
/// Length of a user's salt.
const SALT_BYTES: usize = 16;
/// Length of a token's secret part.
const SECRET_BYTES: usize = 24;

/// The rights of a user or token. Each role includes the rights of the roles before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Run queries
    Read,
    /// Write rows: line protocol (which also creates tables), INSERT, UPDATE, DELETE
    Write,
    /// Everything, including tables, server files and backups
    Admin,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        })
    }
}

/// A user or token as stored in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The login name of a user, or the name of a token.
    pub name: String,
    /// Its rights.
    pub role: Role,
    /// Argon2 hash of the password or of the token's secret part.
    hash: String,
    /// Users only: salt and salted password for SCRAM, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    scram: Option<(String, String)>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entries {
    #[serde(default)]
    users: Vec<Entry>,
    #[serde(default)]
    tokens: Vec<Entry>,
}

impl Entries {
    fn is_empty(&self) -> bool {
        self.users.is_empty() && self.tokens.is_empty()
    }
}

/// The file, opened for changes from the command line.
pub struct AccessFile {
    path: PathBuf,
    entries: Entries,
}

impl AccessFile {
    /// Reads the file in a database directory. A missing file is empty.
    ///
    /// # Errors
    /// The file cannot be read or is malformed.
    pub fn open(data: &Path) -> Result<Self> {
        let path = data.join(FILE);
        let entries = read(&path)?;
        Ok(Self { path, entries })
    }

    /// Copies the users and tokens of a database to another directory, such as a backup.
    ///
    /// ```
    /// use fleetdb_server::access::{AccessFile, Role};
    /// let (data, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    /// AccessFile::open(data.path()).unwrap().set_user("ann", "secret", Role::Admin).unwrap();
    /// AccessFile::copy(data.path(), backup.path()).unwrap();
    /// assert_eq!(AccessFile::open(backup.path()).unwrap().users()[0].name, "ann");
    /// ```
    ///
    /// # Errors
    /// One of the files cannot be read, written or parsed.
    pub fn copy(from: &Path, to: &Path) -> Result<()> {
        let copy = Self { path: to.join(FILE), ..Self::open(from)? };
        if copy.entries.is_empty() && !copy.path.exists() { Ok(()) } else { copy.write() }
    }

    /// The users.
    pub fn users(&self) -> &[Entry] {
        &self.entries.users
    }

    /// The tokens.
    pub fn tokens(&self) -> &[Entry] {
        &self.entries.tokens
    }

    /// Adds a user, or replaces the password and role of an existing one.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if the name or password is invalid.
    pub fn set_user(&mut self, name: &str, password: &str, role: Role) -> Result<()> {
        check_name(name)?;
        if password.is_empty() {
            return Err(Error::invalid("the password must not be empty"));
        }
        let salt: [u8; SALT_BYTES] = random()?;
        let salted = pgwire::api::auth::sasl::scram::gen_salted_password(password, &salt, SCRAM_ITERATIONS);
        let scram = Some((STANDARD.encode(salt), STANDARD.encode(salted)));
        let entry = Entry { name: name.to_owned(), role, hash: hash(password, &Argon2::default())?, scram };
        self.entries.users.retain(|user| user.name != name);
        self.entries.users.push(entry);
        self.write()
    }

    /// Adds a token and returns it. The token itself is stored nowhere.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if the name is taken or invalid.
    pub fn add_token(&mut self, name: &str, role: Role) -> Result<String> {
        check_name(name)?;
        if self.entries.tokens.iter().any(|token| token.name == name) {
            return Err(Error::invalid(format!("token '{name}' already exists: remove it first")));
        }
        let secret = URL_SAFE_NO_PAD.encode(random::<SECRET_BYTES>()?);
        let entry = Entry { name: name.to_owned(), role, hash: hash(&secret, &for_tokens()?)?, scram: None };
        self.entries.tokens.push(entry);
        self.write()?;
        Ok(format!("{name}.{secret}"))
    }

    /// Removes a user.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if the user does not exist.
    pub fn remove_user(&mut self, name: &str) -> Result<()> {
        remove(&mut self.entries.users, "user", name)?;
        self.write()
    }

    /// Removes a token.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if the token does not exist.
    pub fn remove_token(&mut self, name: &str) -> Result<()> {
        remove(&mut self.entries.tokens, "token", name)?;
        self.write()
    }

    /// Replaces the file; only its owner can read it.
    fn write(&self) -> Result<()> {
        use std::os::unix::fs::OpenOptionsExt;
        let text = serde_json::to_string_pretty(&self.entries).map_err(|e| Error::bug(format!("{FILE}: {e}")))?;
        let failed = |e: std::io::Error| Error::io(format_args!("could not write {}", self.path.display()), &e);
        let new = self.path.with_extension("json.new");
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        std::fs::rename(&new, &self.path).map_err(failed)?;
        // The rename is durable once the directory is synced.
        let directory = self.path.parent().unwrap_or(Path::new("."));
        std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
    }
}

fn remove(entries: &mut Vec<Entry>, what: &str, name: &str) -> Result<()> {
    let before = entries.len();
    entries.retain(|entry| entry.name != name);
    if entries.len() == before { Err(Error::invalid(format!("{what} '{name}' does not exist"))) } else { Ok(()) }
}

fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '@');
    if name.is_empty() || name.len() > 63 || !name.chars().all(allowed) {
        return Err(Error::invalid(format!("invalid name '{name}': use 1 to 63 letters, digits, _, - or @")));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Entries> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|e| Error::invalid(format!("{}: {e}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Entries::default()),
        Err(error) => Err(Error::io(format_args!("could not read {}", path.display()), &error)),
    }
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| Error::bug(format!("could not generate random numbers: {e}")))?;
    Ok(bytes)
}

/// The cheapest argon2 parameters. A token's 24 random bytes cannot be guessed, so a slow hash
/// would only make wrong tokens costly to check.
fn for_tokens() -> Result<Argon2<'static>> {
    let params = Params::new(Params::MIN_M_COST, Params::MIN_T_COST, Params::MIN_P_COST, None);
    let params = params.map_err(|e| Error::bug(format!("argon2: {e}")))?;
    Ok(Argon2::new(Algorithm::default(), Version::default(), params))
}

fn hash(secret: &str, argon2: &Argon2<'_>) -> Result<String> {
    let hash = argon2.hash_password(secret.as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|e| Error::bug(format!("argon2: {e}")))
}

/// Iterations of SCRAM's password hash; RFC 7677 asks for at least 4,096.
pub(crate) const SCRAM_ITERATIONS: usize = 4_096;

/// An authenticated user or token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of the user or token; "anybody" if no login is required.
    pub name: String,
    /// Its rights.
    pub role: Role,
}

impl Identity {
    /// The identity as a session sees it; `number` is the client's number.
    pub(crate) fn session_user(&self, number: i32) -> fleetdb_postgres::SessionUser {
        fleetdb_postgres::SessionUser {
            number,
            user: self.name.clone(),
            is_admin: self.role == Role::Admin,
            may_end: true,
        }
    }

    fn anybody() -> Self {
        Self { name: "anybody".to_owned(), role: Role::Admin }
    }
}

/// Refuses a statement that the role `has` does not allow.
///
/// # Errors
/// [`Code::Denied`] with a message that names the required role.
pub(crate) fn check(name: &str, has: Role, takes: fleetdb_query::Access) -> Result<()> {
    let role = match takes {
        fleetdb_query::Access::Read => Role::Read,
        fleetdb_query::Access::Write => Role::Write,
        fleetdb_query::Access::Admin => Role::Admin,
    };
    if has >= role {
        return Ok(());
    }
    let message = format!("permission denied: the statement requires the role {role}, but '{name}' has {has}");
    Err(Error::new(Code::Denied, message))
}

/// How a client identifies itself.
pub enum Credentials {
    /// It does not.
    None,
    /// With name and password.
    Password(String, String),
    /// With a token.
    Token(String),
}

impl Credentials {
    /// The name the client claims, without the secret; `None` if it claims none.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Password(name, _) => Some(name),
            Self::Token(token) => Some(token.split_once('.').map_or("", |(name, _)| name)),
        }
    }
}

/// The stored value that a secret is compared with.
enum Verify {
    /// The salted password of SCRAM.
    Scram { salt: Vec<u8>, salted: Vec<u8> },
    /// An argon2 hash.
    Hash(String),
}

impl Verify {
    /// Whether verification takes only microseconds, as with the hashes of tokens.
    fn is_fast(&self) -> bool {
        let Self::Hash(hash) = self else { return false };
        let params = PasswordHash::new(hash).ok().and_then(|hash| Params::try_from(&hash.params).ok());
        params.is_some_and(|of| of.m_cost() == Params::MIN_M_COST && of.t_cost() == Params::MIN_T_COST)
    }

    fn is_right(&self, secret: &str) -> bool {
        match self {
            Self::Scram { salt, salted } => {
                let given = pgwire::api::auth::sasl::scram::gen_salted_password(secret, salt, SCRAM_ITERATIONS);
                bool::from(given.as_slice().ct_eq(salted.as_slice()))
            }
            Self::Hash(hash) => PasswordHash::new(hash)
                .is_ok_and(|hash| Argon2::default().verify_password(secret.as_bytes(), &hash).is_ok()),
        }
    }
}

/// Whether clients that do not authenticate have all rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnonymousAccess {
    /// They have; the server was started with `no_authentication`.
    Always,
    /// They have while there are no users, because no other machine can reach the server.
    WithoutUsers,
    /// They have not, even if the last user is removed while the server runs.
    Never,
}

/// The users and tokens that a server knows.
pub struct Access {
    path: PathBuf,
    /// Replacing the file changes the modification time of its directory, which costs less to read.
    /// Opened once the directory exists.
    directory: OnceLock<File>,
    anonymous_access: AnonymousAccess,
    cache: Mutex<AccessCache>,
    /// The queue for passwords compared by SCRAM's salted password, about a millisecond each.
    passwords: LoginQueue,
    /// The queue for argon2 hashes, some of which take tens of milliseconds and 19 MiB.
    hashes: LoginQueue,
    /// Seed of the salts of users that do not exist.
    decoy_secret: [u8; SECRET_BYTES],
}

#[derive(Default)]
struct AccessCache {
    /// Modification time and length of the file when it was read.
    stamp: Option<(SystemTime, u64)>,
    /// Modification time of the directory before the file was looked at; `None` to look again.
    directory: Option<SystemTime>,
    entries: Arc<Entries>,
    /// Verified secrets by the SHA-256 of name and secret, which reveals neither.
    verified: HashMap<[u8; 32], Identity>,
}

impl Access {
    /// Loads the users and tokens of a database directory.
    ///
    /// # Errors
    /// The file cannot be read or is malformed.
    pub fn new(data: &Path, anonymous_access: AnonymousAccess) -> Result<Self> {
        let access = Self {
            path: data.join(FILE),
            directory: OnceLock::new(),
            anonymous_access,
            cache: Mutex::default(),
            passwords: LoginQueue::new(MAX_PASSWORDS_WAITING),
            hashes: LoginQueue::new(MAX_HASHES_WAITING),
            decoy_secret: random()?,
        };
        access.entries()?;
        Ok(access)
    }

    /// Whether there is any user or token.
    ///
    /// # Errors
    /// The file cannot be read or is malformed.
    pub fn has_entries(&self) -> Result<bool> {
        Ok(!self.entries()?.is_empty())
    }

    /// Modification time and length of the file, which change when it is replaced; `None` if there
    /// is no file.
    pub(crate) fn stamp(&self) -> Option<(SystemTime, u64)> {
        std::fs::metadata(&self.path).ok().and_then(|meta| Some((meta.modified().ok()?, meta.len())))
    }

    /// Modification time of the directory; `None` if it does not exist.
    fn directory_stamp(&self) -> Option<SystemTime> {
        let directory = match self.directory.get() {
            Some(directory) => directory,
            None => {
                let opened = File::open(self.path.parent()?).ok()?;
                self.directory.get_or_init(|| opened)
            }
        };
        directory.metadata().and_then(|meta| meta.modified()).ok()
    }

    /// Looks at the file again, because it was changed and perhaps not replaced.
    pub(crate) fn look_again(&self) {
        self.cache.lock().directory = None;
    }

    /// The current entries, read again if the file has changed.
    fn entries(&self) -> Result<Arc<Entries>> {
        let directory = self.directory_stamp();
        let mut cache = self.cache.lock();
        if directory.is_some() && cache.directory == directory {
            return Ok(Arc::clone(&cache.entries));
        }
        let stamp = self.stamp();
        if cache.stamp != stamp {
            let entries = Arc::new(read(&self.path)?);
            *cache = AccessCache { stamp, directory: None, entries, verified: HashMap::new() };
        }
        cache.directory = directory.filter(|at| at.elapsed().is_ok_and(|age| age > TIME_STEP));
        Ok(Arc::clone(&cache.entries))
    }

    /// Whether no login is required.
    fn is_open(&self, entries: &Entries) -> bool {
        match self.anonymous_access {
            AnonymousAccess::Always => true,
            AnonymousAccess::WithoutUsers => entries.is_empty(),
            AnonymousAccess::Never => false,
        }
    }

    /// Identifies a client at `address`; `None` if it gave no credentials or wrong ones.
    ///
    /// # Errors
    /// The file cannot be read or is malformed, or too many secrets from the address are waiting.
    pub async fn identify(&self, credentials: Credentials, address: IpAddr) -> Result<Option<Identity>> {
        let entries = self.entries()?;
        if self.is_open(&entries) {
            return Ok(Some(Identity::anybody()));
        }
        let (list, name, secret) = match &credentials {
            Credentials::None => return Ok(None),
            Credentials::Password(name, password) => (&entries.users, name.as_str(), password.as_str()),
            // A token is `name.secret`, and a name holds no dot.
            Credentials::Token(token) => {
                let Some((name, secret)) = token.split_once('.') else { return Ok(None) };
                (&entries.tokens, name, secret)
            }
        };
        let kind = u8::from(matches!(credentials, Credentials::Token(_)));
        let digest = digest(&SHA256, &[&[kind], name.as_bytes(), &[0], secret.as_bytes()].concat());
        let digest: [u8; 32] = digest.as_ref().try_into().expect("SHA-256 has 32 bytes");
        if let Some(identity) = self.cache.lock().verified.get(&digest) {
            return Ok(Some(identity.clone()));
        }
        let entry = list.iter().find(|entry| entry.name == name);
        let (queue, verify) = match &credentials {
            Credentials::Password(..) if entry.is_none_or(|user| user.scram.is_some()) => {
                // An unknown user costs as much time as a wrong password.
                let (salt, salted) = self.scram(name)?.unwrap_or_else(|| self.decoy_credentials(name));
                (&self.passwords, Verify::Scram { salt, salted })
            }
            _ => match entry.or(list.first()).or(entries.users.first()) {
                Some(entry) => (&self.hashes, Verify::Hash(entry.hash.clone())),
                None => return Ok(None),
            },
        };
        let is_right = if verify.is_fast() {
            verify.is_right(secret)
        } else {
            let permit = queue.acquire(address).await?;
            // Another request may have verified it meanwhile.
            if let Some(identity) = self.cache.lock().verified.get(&digest) {
                return Ok(Some(identity.clone()));
            }
            let secret = secret.to_owned();
            let verify = move || {
                let is_right = verify.is_right(&secret);
                // Dropped here, because this closure runs to its end even if the request that waits
                // for it is cancelled.
                drop(permit);
                is_right
            };
            tokio::task::spawn_blocking(verify).await.unwrap_or(false)
        };
        let Some(entry) = entry.filter(|_| is_right) else { return Ok(None) };
        let identity = Identity { name: entry.name.clone(), role: entry.role };
        let mut cache = self.cache.lock();
        // Do not remember an identity that was read before the file changed.
        if Arc::ptr_eq(&cache.entries, &entries) && cache.verified.len() < MAX_REMEMBERED {
            cache.verified.insert(digest, identity.clone());
        }
        Ok(Some(identity))
    }

    /// Whether a client of the PostgreSQL protocol must log in.
    ///
    /// # Errors
    /// The file cannot be read or is malformed.
    pub(crate) fn requires_login(&self) -> Result<bool> {
        Ok(!self.is_open(&*self.entries()?))
    }

    /// Salt and salted password for a user that does not exist: always the same for a name, and no
    /// password produces them.
    pub(crate) fn decoy_credentials(&self, name: &str) -> (Vec<u8>, Vec<u8>) {
        let salted = digest(&SHA256, &[&self.decoy_secret, name.as_bytes()].concat());
        let salt = digest(&SHA256, salted.as_ref());
        (salt.as_ref()[..SALT_BYTES].to_vec(), salted.as_ref().to_vec())
    }

    /// A user's salt and salted password for SCRAM.
    pub(crate) fn scram(&self, name: &str) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let entries = self.entries()?;
        let Some(user) = entries.users.iter().find(|user| user.name == name) else { return Ok(None) };
        let decode = |text: &str| STANDARD.decode(text).map_err(|e| Error::invalid(format!("{FILE}: {name}: {e}")));
        match &user.scram {
            Some((salt, salted)) => Ok(Some((decode(salt)?, decode(salted)?))),
            None => Err(Error::invalid(format!("{FILE}: user {name} has no SCRAM password: set the password again"))),
        }
    }

    /// The current role of a user of the PostgreSQL protocol; `is_authenticated` says whether the
    /// client gave its password. `None` if the user no longer exists, or if a login is now required
    /// and the client has not logged in.
    ///
    /// # Errors
    /// The file cannot be read or is malformed.
    pub(crate) fn role(&self, name: &str, is_authenticated: bool) -> Result<Option<Role>> {
        let entries = self.entries()?;
        if self.is_open(&entries) {
            return Ok(Some(Role::Admin));
        }
        let user = entries.users.iter().find(|user| user.name == name);
        Ok(user.filter(|_| is_authenticated).map(|user| user.role))
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
