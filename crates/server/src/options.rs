//! How a server is configured: a TOML file, environment variables and flags, all with the same
//! names. Flags override variables, variables override the file, and the file overrides the
//! defaults.

use crate::access::{Access, AnonymousAccess};
use crate::owner::OwnerUrl;
use crate::size::Size;
use fleetdb_engine::{Durability, Error, Result, Settings};
use fleetdb_query::Files;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Declares each option once: as a flag and variable (clap), as a key of the file (serde), and in
/// the merge of two sets.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $variable:literal,)*) => {
        /// The options given to a server. Options that are not given have a default; see
        /// [`Config`].
        #[derive(clap::Args, Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Options {
            $($(#[$doc])* #[arg(long, env = $variable)] pub $name: Option<$type>,)*
        }

        impl Options {
            /// These options, with those that are not given taken from `others`.
            #[must_use]
            pub fn or(self, others: Self) -> Self {
                Self { $($name: self.$name.or(others.$name),)* }
            }
        }
    };
}

options! {
    /// Directory of the database [default: fleetdb-data]
    data: PathBuf = "FLEETDB_DATA",
    /// Only read the database, which another process may be writing [default: false]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    read_only: bool = "FLEETDB_READ_ONLY",
    /// With read_only: time between two looks at what was written since, in milliseconds [default:
    /// 1000]
    refresh_interval_ms: u64 = "FLEETDB_REFRESH_INTERVAL_MS",
    /// Directory that has the users and tokens [default: the directory of the database]
    users: PathBuf = "FLEETDB_USERS",
    /// Address for HTTP (line protocol, SQL, metrics); "off" for none [default: 127.0.0.1:8086]
    http: String = "FLEETDB_HTTP",
    /// Address for the PostgreSQL protocol; "off" for none [default: 127.0.0.1:5432]
    postgres: String = "FLEETDB_POSTGRES",
    /// Address for line protocol over TCP, without acknowledgements [default: off]
    line_tcp: String = "FLEETDB_LINE_TCP",
    /// Address for line protocol over UDP, without acknowledgements [default: off]
    line_udp: String = "FLEETDB_LINE_UDP",
    /// Durability at which a write is acknowledged: sync, interval or os; on a node of a cluster also
    /// shared, or local, which is sync [default: sync]
    durability: String = "FLEETDB_DURABILITY",
    /// Memory for everything that grows with the data: 4GiB, 500MB, or bytes [default: 1GiB]
    memory_limit: Size = "FLEETDB_MEMORY_LIMIT",
    /// Number of tables at which line protocol stops creating new ones; one for each kind of device
    /// is enough [default: 1000]
    max_tables: usize = "FLEETDB_MAX_TABLES",
    /// Number of columns of a table at which line protocol stops adding new ones [default: 1000]
    max_columns: usize = "FLEETDB_MAX_COLUMNS",
    /// Give all rights to everyone who can reach the server, even from other machines [default:
    /// false]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    no_authentication: bool = "FLEETDB_NO_AUTHENTICATION",
    /// TLS certificate chain, a PEM file; together with tls_key it enables TLS for HTTP and the
    /// PostgreSQL protocol
    tls_certificate: PathBuf = "FLEETDB_TLS_CERTIFICATE",
    /// TLS private key, a PEM file
    tls_key: PathBuf = "FLEETDB_TLS_KEY",
    /// Whether the PostgreSQL protocol requires TLS: require, or allow [default: require if there
    /// is a certificate and the address is not loopback]
    tls: String = "FLEETDB_TLS",
    /// Directory below which statements and backups may read and write server files; separate
    /// several with commas [default: none]
    #[arg(value_delimiter = ',')]
    files: Vec<PathBuf> = "FLEETDB_FILES",
    /// Host name under which browsers reach the server over HTTP, in addition to its address;
    /// separate several with commas [default: localhost]
    #[arg(value_delimiter = ',')]
    hosts: Vec<String> = "FLEETDB_HOSTS",
    /// Maximum number of open connections, all protocols together [default: 12000]
    max_connections: usize = "FLEETDB_MAX_CONNECTIONS",
    /// Maximum number of statements and request bodies processed at a time; others wait [default:
    /// twice the cores, at least 4]
    max_running: usize = "FLEETDB_MAX_RUNNING",
    /// Maximum number of requests that wait to be processed; further requests are told to retry
    /// [default: 1000]
    max_waiting: usize = "FLEETDB_MAX_WAITING",
    /// Maximum size of a request body, before and after decompression: 64MiB, 500KB, or bytes
    /// [default: 64MiB]
    max_body_bytes: Size = "FLEETDB_MAX_BODY_BYTES",
    /// Time limit for a statement in milliseconds; 0 for none [default: 0]
    statement_timeout_ms: u64 = "FLEETDB_STATEMENT_TIMEOUT_MS",
    /// Time that running requests have to finish when the server stops, in milliseconds [default:
    /// 30000]
    stop_timeout_ms: u64 = "FLEETDB_STOP_TIMEOUT_MS",
    /// Log level: error, warn, info, debug, or a filter in the syntax of the crate tracing
    /// [default: info]
    log: String = "FLEETDB_LOG",
    /// Log format: text or json [default: text]
    log_format: String = "FLEETDB_LOG_FORMAT",
}

impl Options {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) with line and column.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_with(path, &[]).map(|(options, IgnoredAny)| options)
    }

    /// Reads a TOML file in which these keys belong to a `T`.
    ///
    /// # Errors
    /// As [`read`](Self::read). If the file has one of these keys, the error has no line.
    pub fn read_with<T: DeserializeOwned>(path: &Path, keys: &[&str]) -> Result<(Self, T)> {
        let wrong = |e: toml::de::Error| Error::invalid(format!("{}: {e}", path.display()));
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::io(format_args!("could not read {}", path.display()), &e))?;
        let mut own: toml::Table = toml::from_str(&text).map_err(wrong)?;
        let others: toml::Table = keys.iter().filter_map(|key| own.remove_entry(*key)).collect();
        let options = if others.is_empty() { toml::from_str(&text) } else { own.try_into() };
        Ok((options.map_err(wrong)?, others.try_into().map_err(wrong)?))
    }
}

/// The checked configuration of a server.
///
/// ```
/// use fleetdb_server::{Config, Options};
/// let config = Config::new(Options::default()).unwrap();
/// assert_eq!(config.http.unwrap().to_string(), "127.0.0.1:8086");
/// let options = Options { http: Some("8086".into()), ..Options::default() };
/// assert!(Config::new(options).unwrap_err().to_string().starts_with("invalid value '8086' for option http"));
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// The database directory.
    pub data: PathBuf,
    /// Whether the database is only read.
    pub read_only: bool,
    /// Time between two looks at what was written since.
    pub refresh_interval: Duration,
    /// Where clients that write are sent. Only on a node of a cluster that stands by.
    pub owner: Option<OwnerUrl>,
    /// The directory that has the users and tokens.
    pub users: PathBuf,
    /// Address for HTTP.
    pub http: Option<SocketAddr>,
    /// Address for the PostgreSQL protocol.
    pub postgres: Option<SocketAddr>,
    /// Address for line protocol over TCP.
    pub line_tcp: Option<SocketAddr>,
    /// Address for line protocol over UDP.
    pub line_udp: Option<SocketAddr>,
    /// The engine's settings.
    pub settings: Settings,
    /// Whether no login is required.
    pub no_authentication: bool,
    /// The files with the certificate and the key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether the PostgreSQL protocol requires TLS.
    pub requires_tls: bool,
    /// The server files that statements and backups may read and write.
    pub files: Files,
    /// Host names under which browsers reach the server.
    pub hosts: Vec<String>,
    /// Maximum number of open connections.
    pub max_connections: usize,
    /// Maximum number of statements and bodies processed at a time.
    pub max_running: usize,
    /// Maximum number of requests that wait to be processed.
    pub max_waiting: usize,
    /// Maximum size of a request body.
    pub max_body_bytes: usize,
    /// Time limit for a statement.
    pub statement_timeout: Option<Duration>,
    /// Time limit for stopping.
    pub stop_timeout: Duration,
    /// The log level or filter.
    pub log: String,
    /// Whether the log is JSON.
    pub log_json: bool,
}

impl Config {
    /// Checks options and fills in the defaults.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) that names the option, its value and
    /// the allowed values.
    pub fn new(options: Options) -> Result<Self> {
        let address = |name: &str, given: Option<String>, default: &str| -> Result<Option<SocketAddr>> {
            let text = given.unwrap_or_else(|| default.to_owned());
            if text == "off" {
                return Ok(None);
            }
            text.parse().map(Some).map_err(|_| {
                Error::invalid(format!(
                    "invalid value '{text}' for option {name}: use an address and port such as 127.0.0.1:8086, or off"
                ))
            })
        };
        let mut settings = match options.memory_limit {
            Some(Size(bytes)) => Settings::with_memory_limit(bytes),
            None => Settings::default(),
        };
        if let Some(durability) = &options.durability {
            settings.durability = durability.parse::<Durability>().map_err(|e| e.context("option durability"))?;
        }
        settings.max_tables = options.max_tables.unwrap_or(settings.max_tables);
        settings.max_columns = options.max_columns.unwrap_or(settings.max_columns);
        settings.validate()?;
        let tls = match (options.tls_certificate, options.tls_key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(Error::invalid("set both tls_certificate and tls_key, or neither")),
        };
        let postgres = address("postgres", options.postgres, "127.0.0.1:5432")?;
        let requires_tls = match options.tls.as_deref() {
            None => tls.is_some() && postgres.is_some_and(|address| !address.ip().is_loopback()),
            Some("allow") => false,
            Some("require") if tls.is_some() => true,
            Some("require") => {
                return Err(Error::invalid("option tls = 'require' requires tls_certificate and tls_key"));
            }
            Some(other) => {
                return Err(Error::invalid(format!("invalid value '{other}' for option tls: use require or allow")));
            }
        };
        let log_json = match options.log_format.as_deref() {
            None | Some("text") => false,
            Some("json") => true,
            Some(other) => {
                return Err(Error::invalid(format!("invalid value '{other}' for option log_format: use text or json")));
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let at_least_one = |name: &str, value: usize| {
            if value > 0 {
                Ok(value)
            } else {
                Err(Error::invalid(format!("option {name} is 0, but must be at least 1")))
            }
        };
        let data = options.data.unwrap_or_else(|| "fleetdb-data".into());
        let refresh_interval_ms = options.refresh_interval_ms.unwrap_or(1_000);
        if refresh_interval_ms == 0 {
            return Err(Error::invalid("option refresh_interval_ms is 0, but must be at least 1"));
        }
        Ok(Self {
            read_only: options.read_only.unwrap_or(false),
            refresh_interval: Duration::from_millis(refresh_interval_ms),
            owner: None,
            users: options.users.unwrap_or_else(|| data.clone()),
            data,
            http: address("http", options.http, "127.0.0.1:8086")?,
            postgres,
            line_tcp: address("line_tcp", options.line_tcp, "off")?,
            line_udp: address("line_udp", options.line_udp, "off")?,
            settings,
            no_authentication: options.no_authentication.unwrap_or(false),
            tls,
            requires_tls,
            files: Files::below(options.files.unwrap_or_default()),
            hosts: options.hosts.unwrap_or_default(),
            max_connections: at_least_one("max_connections", options.max_connections.unwrap_or(12_000))?,
            max_running: at_least_one("max_running", options.max_running.unwrap_or((2 * cores).max(4)))?,
            max_waiting: options.max_waiting.unwrap_or(1_000),
            max_body_bytes: at_least_one("max_body_bytes", options.max_body_bytes.map_or(64 << 20, |size| size.0))?,
            statement_timeout: options.statement_timeout_ms.filter(|ms| *ms > 0).map(Duration::from_millis),
            stop_timeout: Duration::from_millis(options.stop_timeout_ms.unwrap_or(30_000)),
            log: options.log.unwrap_or_else(|| "info".to_owned()),
            log_json,
        })
    }

    /// Checks what the options refer to: the files they name, and whether the server would be open
    /// to other machines.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) that names the file or option.
    pub fn check(&self) -> Result<()> {
        if let Some((certificate, key)) = &self.tls {
            crate::tls::acceptor(certificate, key, &[])?;
        }
        self.check_exposure(Access::new(&self.users, self.anonymous_access())?.has_entries()?)?;
        crate::log::filter(&self.log).map(|_| ())
    }

    /// The addresses to listen on, each with the name of its option.
    pub fn listeners(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let all = [
            ("http", self.http),
            ("postgres", self.postgres),
            ("line_tcp", self.line_tcp),
            ("line_udp", self.line_udp),
        ];
        all.into_iter().filter_map(|(name, address)| Some((name, address?)))
    }

    /// Whether clients that do not authenticate have all rights.
    pub fn anonymous_access(&self) -> AnonymousAccess {
        let is_exposed = self.listeners().any(|(_, address)| !address.ip().is_loopback());
        match (self.no_authentication, is_exposed) {
            (true, _) => AnonymousAccess::Always,
            (false, false) => AnonymousAccess::WithoutUsers,
            (false, true) => AnonymousAccess::Never,
        }
    }

    /// Refuses a configuration that lets other machines in without a login.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) that says what to do.
    pub fn check_exposure(&self, has_users: bool) -> Result<()> {
        if self.no_authentication {
            return Ok(());
        }
        for (name, address) in self.listeners().filter(|(_, address)| !address.ip().is_loopback()) {
            if name.starts_with("line_") {
                return Err(Error::invalid(format!(
                    "option {name} = '{address}': this protocol has no authentication and would be open to other \
                     machines; listen on loopback, or set no_authentication = true"
                )));
            }
            if !has_users {
                return Err(Error::invalid(format!(
                    "option {name} = '{address}': without users the server would be open to other machines; add a user \
                     with 'fleetdb user add NAME --data {}', listen on loopback, or set no_authentication = true",
                    self.users.display()
                )));
            }
        }
        Ok(())
    }
}
