//! Who may do what: users with passwords and tokens with names, in the file `access.json` of the database's directory.
//!
//! 1. The file holds argon2 hashes of passwords and tokens, and for each user what SCRAM-SHA-256 needs (RFC 5802: a
//!    salted password). It is replaced as a whole, by the command line or by hand; a server sees the change with the next
//!    request.
//! 2. Verifying is slow on purpose. What was verified once is remembered by its SHA-256 until the file changes; no more
//!    than a few strangers are verified at a time, those of an address one after the other ([`Turns`]). A token's hash is
//!    not slow, as nobody guesses 24 random bytes: it waits for nobody.
//! 3. A directory without the file has no users: then everybody has all rights if the server is reached from its own
//!    machine only, and nobody any if it is not ([`Strangers`]).

use crate::turns::Turns;
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
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use subtle::ConstantTimeEq;

/// The file's name.
pub const FILE: &str = "access.json";
/// Passwords of an address that wait: the last of them for about a second, even if one who guesses them sends the others.
const MOST_PASSWORDS_WAITING: usize = 1_000;
/// Others of an address that wait, whose hashes are slow.
const MOST_HASHES_WAITING: usize = 16;
/// Verified secrets that are remembered.
const MOST_REMEMBERED: usize = 10_000;
/// Bytes of a user's salt.
const SALT_BYTES: usize = 16;
/// Bytes of a token's secret part.
const SECRET_BYTES: usize = 24;

/// What a user or token may do; each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Queries
    Read,
    /// Rows: line protocol (which makes tables), INSERT, UPDATE, DELETE
    Write,
    /// Everything: tables, server files, backup
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

/// A user or token as the file has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The name: what a user logs in with, and what a token is called.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Argon2 of the password or of the token's secret part.
    hash: String,
    /// Users only: salt and salted password for SCRAM, base64.
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

/// The file, to be changed from the command line.
pub struct AccessFile {
    path: PathBuf,
    entries: Entries,
}

impl AccessFile {
    /// Reads the file of a database's directory; there may be none.
    ///
    /// # Errors
    /// The file cannot be read, or is not what it should be.
    pub fn open(data: &Path) -> Result<Self> {
        let path = data.join(FILE);
        let entries = read(&path)?;
        Ok(Self { path, entries })
    }

    /// Gives another directory, as of a backup, the users and tokens of a database.
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
    /// One of the files cannot be read or written, or is not what it should be.
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

    /// Adds a user, or gives one that is there a new password and role.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) for a name or password that cannot be one.
    pub fn set_user(&mut self, name: &str, password: &str, role: Role) -> Result<()> {
        check_name(name)?;
        if password.is_empty() {
            return Err(Error::input("an empty password lets everybody in: give another"));
        }
        let salt: [u8; SALT_BYTES] = random()?;
        let salted = pgwire::api::auth::sasl::scram::gen_salted_password(password, &salt, SCRAM_ITERATIONS);
        let scram = Some((STANDARD.encode(salt), STANDARD.encode(salted)));
        let entry = Entry { name: name.to_owned(), role, hash: hash(password, &Argon2::default())?, scram };
        self.entries.users.retain(|user| user.name != name);
        self.entries.users.push(entry);
        self.write()
    }

    /// Adds a token. Gives the token itself, which stands nowhere else.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) for a name that is taken or cannot be one.
    pub fn add_token(&mut self, name: &str, role: Role) -> Result<String> {
        check_name(name)?;
        if self.entries.tokens.iter().any(|token| token.name == name) {
            return Err(Error::input(format!("there is a token '{name}' already: remove it first")));
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
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if there is none.
    pub fn remove_user(&mut self, name: &str) -> Result<()> {
        remove(&mut self.entries.users, "user", name)?;
        self.write()
    }

    /// Removes a token.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if there is none.
    pub fn remove_token(&mut self, name: &str) -> Result<()> {
        remove(&mut self.entries.tokens, "token", name)?;
        self.write()
    }

    /// Replaces the file, readable by its owner only.
    fn write(&self) -> Result<()> {
        use std::os::unix::fs::OpenOptionsExt;
        let text = serde_json::to_string_pretty(&self.entries).map_err(|e| Error::bug(format!("{FILE}: {e}")))?;
        let failed = |e: std::io::Error| Error::io(format_args!("write {}", self.path.display()), &e);
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
        // The new name is durable when its directory is.
        let directory = self.path.parent().unwrap_or(Path::new("."));
        std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
    }
}

fn remove(entries: &mut Vec<Entry>, what: &str, name: &str) -> Result<()> {
    let before = entries.len();
    entries.retain(|entry| entry.name != name);
    if entries.len() == before { Err(Error::input(format!("there is no {what} '{name}'"))) } else { Ok(()) }
}

fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '@');
    if name.is_empty() || name.len() > 63 || !name.chars().all(allowed) {
        return Err(Error::input(format!("'{name}' cannot be a name: 1 to 63 letters, digits, _, - and @")));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Entries> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|e| Error::input(format!("{}: {e}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Entries::default()),
        Err(error) => Err(Error::io(format_args!("read {}", path.display()), &error)),
    }
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| Error::bug(format!("no random numbers: {e}")))?;
    Ok(bytes)
}

/// A token's 24 random bytes cannot be guessed: their hash need not be slow, so that wrong tokens cost little.
fn for_tokens() -> Result<Argon2<'static>> {
    let params = Params::new(Params::MIN_M_COST, Params::MIN_T_COST, Params::MIN_P_COST, None);
    let params = params.map_err(|e| Error::bug(format!("argon2: {e}")))?;
    Ok(Argon2::new(Algorithm::default(), Version::default(), params))
}

fn hash(secret: &str, argon2: &Argon2<'_>) -> Result<String> {
    let hash = argon2.hash_password(secret.as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|e| Error::bug(format!("argon2: {e}")))
}

/// What SCRAM runs its hash so often for; RFC 7677 asks for 4,096 at least.
pub(crate) const SCRAM_ITERATIONS: usize = 4_096;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's or token's name; "anybody" if nobody has to say it.
    pub name: String,
    /// What it may do.
    pub role: Role,
}

impl Identity {
    /// As a session knows it; a client has this number.
    pub(crate) fn asker(&self, number: i32) -> fleetdb_query::Asker {
        fleetdb_query::Asker { number, user: self.name.clone(), is_admin: self.role == Role::Admin, may_end: true }
    }

    fn anybody() -> Self {
        Self { name: "anybody".to_owned(), role: Role::Admin }
    }
}

/// Refuses a statement that its sender may not run.
///
/// # Errors
/// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) that says which role it takes.
pub(crate) fn check(name: &str, has: Role, takes: fleetdb_query::Access) -> Result<()> {
    let role = match takes {
        fleetdb_query::Access::Read => Role::Read,
        fleetdb_query::Access::Write => Role::Write,
        fleetdb_query::Access::Admin => Role::Admin,
    };
    if has >= role {
        return Ok(());
    }
    let message = format!("permission denied: the statement takes the role {role}, and '{name}' has {has}");
    Err(Error::coded(Code::Denied, message))
}

/// How somebody says who he is.
pub enum Credentials {
    /// Not at all.
    None,
    /// By name and password.
    Password(String, String),
    /// By a token.
    Token(String),
}

impl Credentials {
    /// As whom, without the secret; `None` if that is not said.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Password(name, _) => Some(name),
            Self::Token(token) => Some(token.split_once('.').map_or("", |(name, _)| name)),
        }
    }
}

/// What a secret is compared with.
enum Verify {
    /// SCRAM's salted password.
    Scram { salt: Vec<u8>, salted: Vec<u8> },
    /// A hash of argon2.
    Hash(String),
}

impl Verify {
    /// Whether it takes some microseconds, as the hash that tokens have.
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

/// Whether those who do not say who they are have all rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strangers {
    /// They have: the server is told so.
    Always,
    /// As long as there are no users: nobody else's machine reaches the server.
    WithoutUsers,
    /// Never, also if the last user is removed while the server runs.
    Never,
}

/// What a server knows of users and tokens.
pub struct Access {
    path: PathBuf,
    strangers: Strangers,
    known: Mutex<Known>,
    /// At passwords, which are compared by SCRAM's salted password: about a millisecond each.
    passwords: Turns,
    /// At hashes of argon2, some of which take tens of milliseconds and 19 MiB.
    hashes: Turns,
    /// What the salts of users who are not there are made of.
    nobody: [u8; SECRET_BYTES],
}

#[derive(Default)]
struct Known {
    /// The file's time and length when it was read.
    stamp: Option<(SystemTime, u64)>,
    entries: Arc<Entries>,
    /// Verified secrets by the SHA-256 of name and secret, which says nothing about either.
    verified: HashMap<[u8; 32], Identity>,
}

impl Access {
    /// The users and tokens of a database's directory.
    ///
    /// # Errors
    /// The file is broken.
    pub fn new(data: &Path, strangers: Strangers) -> Result<Self> {
        let access = Self {
            path: data.join(FILE),
            strangers,
            known: Mutex::default(),
            passwords: Turns::new(MOST_PASSWORDS_WAITING),
            hashes: Turns::new(MOST_HASHES_WAITING),
            nobody: random()?,
        };
        access.entries()?;
        Ok(access)
    }

    /// Whether there is anybody to log in as.
    ///
    /// # Errors
    /// The file is broken.
    pub fn has_entries(&self) -> Result<bool> {
        Ok(!self.entries()?.is_empty())
    }

    /// What says that the file has changed: its time and length; `None` if there is none.
    pub(crate) fn stamp(&self) -> Option<(SystemTime, u64)> {
        std::fs::metadata(&self.path).ok().and_then(|meta| Some((meta.modified().ok()?, meta.len())))
    }

    /// The entries as the file has them now.
    fn entries(&self) -> Result<Arc<Entries>> {
        let stamp = self.stamp();
        let mut known = self.known.lock();
        if known.stamp != stamp {
            *known = Known { stamp, entries: Arc::new(read(&self.path)?), verified: HashMap::new() };
        }
        Ok(Arc::clone(&known.entries))
    }

    /// Whether nobody has to say who he is.
    fn is_open(&self, entries: &Entries) -> bool {
        match self.strangers {
            Strangers::Always => true,
            Strangers::WithoutUsers => entries.is_empty(),
            Strangers::Never => false,
        }
    }

    /// Who somebody at this address is; `None` if he did not say it, or it is not true.
    ///
    /// # Errors
    /// The file is broken, or too many of the address wait for the same.
    pub async fn identify(&self, credentials: Credentials, address: IpAddr) -> Result<Option<Identity>> {
        let entries = self.entries()?;
        if self.is_open(&entries) {
            return Ok(Some(Identity::anybody()));
        }
        let (list, name, secret) = match &credentials {
            Credentials::None => return Ok(None),
            Credentials::Password(name, password) => (&entries.users, name.as_str(), password.as_str()),
            // A name has no dot.
            Credentials::Token(token) => {
                let Some((name, secret)) = token.split_once('.') else { return Ok(None) };
                (&entries.tokens, name, secret)
            }
        };
        let kind = u8::from(matches!(credentials, Credentials::Token(_)));
        let digest = digest(&SHA256, &[&[kind], name.as_bytes(), &[0], secret.as_bytes()].concat());
        let digest: [u8; 32] = digest.as_ref().try_into().expect("SHA-256 has 32 bytes");
        if let Some(identity) = self.known.lock().verified.get(&digest) {
            return Ok(Some(identity.clone()));
        }
        let entry = list.iter().find(|entry| entry.name == name);
        let (turns, verify) = match &credentials {
            Credentials::Password(..) if entry.is_none_or(|user| user.scram.is_some()) => {
                // Somebody who is not there costs as much time as a wrong password.
                let (salt, salted) = self.scram(name)?.unwrap_or_else(|| self.nobody(name));
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
            let turn = turns.turn(address).await?;
            // It may have been verified meanwhile.
            if let Some(identity) = self.known.lock().verified.get(&digest) {
                return Ok(Some(identity.clone()));
            }
            let secret = secret.to_owned();
            let verify = move || {
                let is_right = verify.is_right(&secret);
                // Here, as it goes on if nobody waits for it any more.
                drop(turn);
                is_right
            };
            tokio::task::spawn_blocking(verify).await.unwrap_or(false)
        };
        let Some(entry) = entry.filter(|_| is_right) else { return Ok(None) };
        let identity = Identity { name: entry.name.clone(), role: entry.role };
        let mut known = self.known.lock();
        // What was read before the file changed is not remembered.
        if Arc::ptr_eq(&known.entries, &entries) && known.verified.len() < MOST_REMEMBERED {
            known.verified.insert(digest, identity.clone());
        }
        Ok(Some(identity))
    }

    /// Whether a user of the PostgreSQL protocol has to say who he is.
    ///
    /// # Errors
    /// The file is broken.
    pub(crate) fn asks(&self) -> Result<bool> {
        Ok(!self.is_open(&*self.entries()?))
    }

    /// Salt and salted password of a user who is not there: always the same, and no password gives them.
    pub(crate) fn nobody(&self, name: &str) -> (Vec<u8>, Vec<u8>) {
        let salted = digest(&SHA256, &[&self.nobody, name.as_bytes()].concat());
        let salt = digest(&SHA256, salted.as_ref());
        (salt.as_ref()[..SALT_BYTES].to_vec(), salted.as_ref().to_vec())
    }

    /// A user's salt and salted password for SCRAM.
    pub(crate) fn scram(&self, name: &str) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let entries = self.entries()?;
        let Some(user) = entries.users.iter().find(|user| user.name == name) else { return Ok(None) };
        let decode = |text: &str| STANDARD.decode(text).map_err(|e| Error::input(format!("{FILE}: {name}: {e}")));
        match &user.scram {
            Some((salt, salted)) => Ok(Some((decode(salt)?, decode(salted)?))),
            None => Err(Error::input(format!("{FILE}: user {name} has no scram: set the password again"))),
        }
    }

    /// What a user of the PostgreSQL protocol may do now; `has_proven` says whether it has given its password. `None` if there
    /// is no such user any more, or if one must log in by now who did not.
    ///
    /// # Errors
    /// The file is broken.
    pub(crate) fn role(&self, name: &str, has_proven: bool) -> Result<Option<Role>> {
        let entries = self.entries()?;
        if self.is_open(&entries) {
            return Ok(Some(Role::Admin));
        }
        let user = entries.users.iter().find(|user| user.name == name);
        Ok(user.filter(|_| has_proven).map(|user| user.role))
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
