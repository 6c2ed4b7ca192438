//! Starting and stopping the server.
//!
//! On stop, new clients are refused, idle connections are closed, and running requests finish;
//! those that have not finished after `stop_timeout` are cut off. Then the database is closed,
//! which makes everything acknowledged durable.

use crate::access::Access;
use crate::clients::Clients;
use crate::metrics::{Metrics, Protocol};
use crate::options::Config;
use crate::sessions::Sessions;
use crate::stop_signal::StopSignal;
use crate::work::JobLimiter;
use crate::{http, line_sockets, postgres, tls};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Acknowledged, Batch, Database, Error, PendingSync, Reader, Result, TryCommit, View};
use fleetdb_query::{InsertValues, KeptMemory, KeyedWrite, Refresh, Statement, Store, Zone};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Idle time after which the operating system probes whether the peer is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Rough number of database files open at a time: segments and logs.
const FILES_OF_DATABASE: usize = 4_000;
/// Delay before accepting again after an accept failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// How often to check for changed users, on behalf of idle connections.
const USERS_LOOK: Duration = Duration::from_millis(500);

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) config: Config,
    pub(crate) access: Arc<Access>,
    pub(crate) metrics: Metrics,
    pub(crate) work: JobLimiter,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) clients: Arc<Clients>,
    /// The memory of plans that connections keep.
    pub(crate) kept_memory: Arc<KeptMemory>,
    pub(crate) stopping: watch::Receiver<bool>,
    connections: Arc<Semaphore>,
}

/// An open connection, counted while it is alive.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    protocol: &'static str,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.metrics.connections.get_or_create(&Protocol { protocol: self.protocol }).dec();
    }
}

/// A batch that has been queued for writing.
pub(crate) struct Committing(oneshot::Receiver<Result<Acknowledged>>);

impl Committing {
    /// Waits, without occupying a thread, until the batch has the server's durability.
    ///
    /// # Errors
    /// The log failed.
    pub(crate) async fn done(self) -> Result<Acknowledged> {
        self.0.await.unwrap_or_else(|_| Err(Error::closed("the log stopped without reporting a result")))
    }
}

/// A completion callback for a batch, and the receiver of its result.
fn outcome() -> (impl FnOnce(Result<Acknowledged>) + Send + 'static, oneshot::Receiver<Result<Acknowledged>>) {
    let (done, outcome) = oneshot::channel();
    // The receiver is gone if the client is gone.
    (move |fate| drop(done.send(fate)), outcome)
}

impl Shared {
    /// Admits a connection; `None` if there are too many.
    pub(crate) fn admit(self: &Arc<Self>, protocol: &'static str) -> Option<Connection> {
        let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else {
            self.metrics.refused_connections.inc();
            return None;
        };
        self.metrics.connections.get_or_create(&Protocol { protocol }).inc();
        Some(Connection { shared: Arc::clone(self), protocol, _permit: permit })
    }

    /// The next connection; `None` when the server is stopping.
    pub(crate) async fn accept(&self, listener: &TcpListener) -> Option<TcpStream> {
        loop {
            let accepted = tokio::select! {
                () = self.stopped() => return None,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    stream.set_nodelay(true).ok();
                    let keep_alive = socket2::TcpKeepalive::new().with_time(KEEP_ALIVE);
                    socket2::SockRef::from(&stream).set_tcp_keepalive(&keep_alive).ok();
                    return Some(stream);
                }
                // The usual cause is a lack of file descriptors, which does not pass at once.
                Err(error) => {
                    tracing::warn!("failed to accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    /// Starts to write a batch. It blocks while the memtables are full, so call it only on threads
    /// that may block.
    ///
    /// # Errors
    /// As [`Database::commit_async`].
    pub(crate) fn begin_commit(&self, batch: Batch) -> Result<Committing> {
        let (done, outcome) = outcome();
        self.store.writer()?.commit_async(batch, done)?;
        Ok(Committing(outcome))
    }

    /// Runs a sync that no other writer shares on this thread, which saves waking two threads. The
    /// thread's other tasks move to another one, unless there is a single connection: then waking that
    /// thread only costs processor time. A connection that is accepted during the sync waits for it.
    fn sync_here(&self, pending: PendingSync<'_>) {
        match self.connections.available_permits() + 1 < self.config.max_connections {
            true => tokio::task::block_in_place(|| pending.sync()),
            false => pending.sync(),
        }
    }

    /// Writes a batch. No thread waits for it, except one of [`JobLimiter`] while the memtables are
    /// full, and this one if it syncs the batch ([`sync_here`](Self::sync_here)).
    ///
    /// # Errors
    /// As [`Database::commit`], or those of [`JobLimiter::run`].
    pub(crate) async fn commit(self: &Arc<Self>, batch: Batch) -> Result<Acknowledged> {
        let (done, outcome) = outcome();
        match self.store.writer()?.try_commit(&batch, done)? {
            TryCommit::Queued => {}
            TryCommit::NeedsSync(pending) => self.sync_here(pending),
            TryCommit::Full => {
                let shared = Arc::clone(self);
                return self.work.run(move || shared.begin_commit(batch)).await??.done().await;
            }
        }
        // Drop the batch before waiting: the task may continue on another thread, and memory is
        // freed fastest on the thread that allocated it.
        drop(batch);
        Committing(outcome).done().await
    }

    /// Reads and writes atomically ([`Database::transact`]); returns what `change` gives besides the
    /// batch, once that is durable. No thread waits for it, except one of [`JobLimiter`] if `change` may
    /// take long, while the memtables are full, or while a long write holds the commit lock.
    ///
    /// # Errors
    /// Those of `change`, of [`Database::transact`] and of [`JobLimiter::run`].
    pub(crate) async fn transact<T: Send + 'static>(
        self: &Arc<Self>,
        may_be_long: bool,
        mut change: impl FnMut(&View) -> Result<(Batch, T)> + Send + 'static,
    ) -> Result<T> {
        let mut kept = move |view: &View, to: &mut Option<T>| {
            let (batch, given) = change(view)?;
            *to = Some(given);
            Ok(batch)
        };
        let (done, committing) = outcome();
        let mut given = None;
        let tried = match may_be_long {
            true => TryCommit::Full,
            false => self.store.writer()?.try_transact(|view| kept(view, &mut given), done)?,
        };
        let (committing, given) = match tried {
            TryCommit::Queued => (Committing(committing), given),
            TryCommit::NeedsSync(pending) => {
                self.sync_here(pending);
                (Committing(committing), given)
            }
            TryCommit::Full => {
                let shared = Arc::clone(self);
                let begin = move || {
                    let (done, committing) = outcome();
                    let mut given = None;
                    shared.store.writer()?.transact_async(|view| kept(view, &mut given), done)?;
                    Ok::<_, Error>((Committing(committing), given))
                };
                self.work.run(begin).await??
            }
        };
        committing.done().await?;
        given.ok_or_else(|| Error::bug("a change was written without being made"))
    }

    /// An INSERT of plain values, which needs no plan; `None` if the statement is another, or the database
    /// is only read, which the session then says.
    ///
    /// # Errors
    /// As [`InsertValues::of`].
    pub(crate) fn insert_values(&self, statement: &Statement, zone: Zone) -> Result<Option<InsertValues>> {
        self.store.writer().map_or(Ok(None), |db| InsertValues::of(statement, db, zone))
    }

    /// A write by primary keys; `None` as for [`insert_values`](Self::insert_values).
    pub(crate) fn keyed_write(&self, statement: &Statement, zone: Zone) -> Option<KeyedWrite> {
        KeyedWrite::of(statement, self.store.writer().ok()?, zone)
    }

    /// Counts a failed login and logs its address and name.
    pub(crate) fn login_failed(&self, protocol: &'static str, address: IpAddr, name: &str) {
        self.metrics.failed_logins.get_or_create(&Protocol { protocol }).inc();
        tracing::warn!(protocol, %address, name = name.escape_debug().take(63).collect::<String>(), "login failed");
    }

    /// Checks regularly whether users have changed, and ends the connections of removed users.
    async fn watch_users(self: Arc<Self>) {
        let mut known = self.access.stamp();
        loop {
            tokio::select! {
                () = self.stopped() => return,
                () = tokio::time::sleep(USERS_LOOK) => {}
            }
            let now = self.access.stamp();
            if std::mem::replace(&mut known, now) != now {
                self.access.look_again();
                self.clients.users_changed();
            }
        }
    }

    /// Reads regularly what another process has written.
    async fn refresh(self: Arc<Self>, reader: Arc<Reader>) {
        let mut last = None;
        loop {
            tokio::select! {
                () = self.stopped() => return,
                () = tokio::time::sleep(self.config.refresh_interval) => {}
            }
            let reader = Arc::clone(&reader);
            let Ok(read) = tokio::task::spawn_blocking(move || reader.refresh()).await else { return };
            let error = read.err();
            // Each reason once: an outage may last for days.
            match &error {
                Some(error) if last.as_ref() != Some(error) => {
                    tracing::warn!("could not read what was written since; queries see what was read before: {error}");
                }
                None if last.is_some() => tracing::info!("reads what is written again"),
                _ => {}
            }
            last = error;
        }
    }

    /// Waits until the server is to stop.
    pub(crate) async fn stopped(&self) {
        // The sender lives as long as the server.
        self.stopping.clone().wait_for(|stopping| *stopping).await.ok();
    }
}

/// Raises the limit of open files, as far as the system allows, to cover all connections and the
/// files of the database.
fn make_room_for_files(max_connections: usize) {
    let wanted = (max_connections + FILES_OF_DATABASE) as u64;
    match rlimit::increase_nofile_limit(wanted) {
        Ok(limit) if limit >= wanted => {}
        Ok(limit) => tracing::warn!(
            "the limit of open files is {limit}, but {wanted} may be needed: raise the limit, or lower max_connections"
        ),
        Err(error) => tracing::warn!("could not raise the limit of open files: {error}"),
    }
}

/// A running server.
///
/// ```
/// use fleetdb_server::{Config, Options, Server};
/// let directory = tempfile::tempdir().unwrap();
/// let any = Some("127.0.0.1:0".to_owned());
/// let options = Options { data: Some(directory.path().into()), http: any.clone(), postgres: any, ..Options::default() };
/// let server = Server::start(Config::new(options).unwrap()).unwrap();
/// assert!(server.address("http").is_some());
/// server.stop().unwrap();
/// ```
pub struct Server {
    runtime: Runtime,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    addresses: Vec<(&'static str, SocketAddr)>,
}

impl Server {
    /// Opens the database and listens.
    ///
    /// # Errors
    /// The database does not open, an address is in use, or the configuration lets other machines
    /// in without a login.
    pub fn start(config: Config) -> Result<Self> {
        let io = Io::files(&config.data);
        Self::start_on(config, io)
    }

    /// Opens the database on an [`Io`], which need not be that of `config.data`, and listens.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_on(config: Config, io: Io) -> Result<Self> {
        let settings = config.settings.clone();
        match config.read_only {
            false => Self::start_store(config, || Ok(Store::Writer(Arc::new(Database::open_with(io, settings)?)))),
            true => {
                Self::start_store(config, || Ok(Store::Reader(Arc::new(Reader::open(io, settings)?), Refresh::ByOwner)))
            }
        }
    }

    /// Listens for clients of a database that is open. It was opened with the settings of `config`, and
    /// [`stop`](Self::stop) closes it unless someone else has it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(config: Config, db: Arc<Database>) -> Result<Self> {
        Self::start_store(config, || Ok(Store::Writer(db)))
    }

    fn start_store(config: Config, open: impl FnOnce() -> Result<Store>) -> Result<Self> {
        let access = Arc::new(Access::new(&config.users, config.anonymous_access())?);
        config.check_exposure(access.has_entries()?)?;
        make_room_for_files(config.max_connections);
        let tls = |protocols: &[&[u8]]| -> Result<Option<TlsAcceptor>> {
            config.tls.as_ref().map(|(certificate, key)| tls::acceptor(certificate, key, protocols)).transpose()
        };
        let (http_tls, postgres_tls) = (tls(&[b"http/1.1"])?, tls(&[b"postgresql"])?);
        let store = open()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("fleetdb-server")
            .enable_all()
            .build()
            .map_err(|e| Error::io("could not start the server's threads", &e))?;
        let (stop, stopping) = watch::channel(false);
        let metrics = Metrics::new(&store);
        let clients = Arc::<Clients>::default();
        let shared = Arc::new(Shared {
            sessions: Arc::new(Sessions::new(&store, &clients, config.statement_timeout, config.files.clone())),
            clients,
            kept_memory: Arc::new(KeptMemory::new(&store.query_memory())),
            store,
            access,
            work: JobLimiter::new(
                config.max_running,
                config.max_waiting,
                metrics.running.clone(),
                metrics.waiting.clone(),
            ),
            metrics,
            connections: Arc::new(Semaphore::new(config.max_connections)),
            config,
            stopping,
        });
        let mut server = Self { runtime, shared, stop, tasks: JoinSet::new(), addresses: Vec::new() };
        match server.listen(http_tls, postgres_tls) {
            Ok(()) => Ok(server),
            Err(error) => {
                server.stop()?;
                Err(error)
            }
        }
    }

    fn listen(&mut self, http_tls: Option<TlsAcceptor>, postgres_tls: Option<TlsAcceptor>) -> Result<()> {
        let Self { runtime, shared, tasks, addresses, .. } = self;
        let _inside = runtime.enter();
        tasks.spawn(Arc::clone(shared).watch_users());
        if let Store::Reader(reader, _) = &shared.store {
            tasks.spawn(Arc::clone(shared).refresh(Arc::clone(reader)));
        }
        for (name, address) in shared.config.listeners() {
            let failed =
                |e: std::io::Error| Error::io(format_args!("could not listen on {address} (option {name})"), &e);
            let shared = Arc::clone(shared);
            if name == "line_udp" {
                let socket = runtime.block_on(UdpSocket::bind(address)).map_err(failed)?;
                addresses.push((name, socket.local_addr().map_err(failed)?));
                tasks.spawn(line_sockets::udp(shared, socket));
                continue;
            }
            let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
            addresses.push((name, listener.local_addr().map_err(failed)?));
            match name {
                "http" => drop(tasks.spawn(http::serve(shared, listener, http_tls.clone()))),
                "postgres" => drop(tasks.spawn(postgres::serve(shared, listener, postgres_tls.clone()))),
                _ => drop(tasks.spawn(line_sockets::tcp(shared, listener))),
            }
        }
        for (name, address) in addresses {
            tracing::info!(%address, "listening for {name}");
        }
        Ok(())
    }

    /// The address of an option's protocol; `None` if it is off.
    pub fn address(&self, option: &str) -> Option<SocketAddr> {
        self.addresses.iter().find(|(name, _)| *name == option).map(|(_, address)| *address)
    }

    /// The database, as long as the server has it open for writing.
    pub fn database(&self) -> Weak<Database> {
        self.shared.store.writer().map(Arc::downgrade).unwrap_or_default()
    }

    /// Waits until the process is told to stop (SIGTERM, SIGINT).
    ///
    /// # Errors
    /// Signal handlers cannot be installed.
    pub fn wait(&self) -> Result<()> {
        StopSignal::new()?.wait_or(std::future::pending::<()>());
        Ok(())
    }

    /// Lets running requests finish, and closes the database.
    ///
    /// # Errors
    /// As [`Database::close`].
    pub fn stop(self) -> Result<()> {
        self.stop_after(|_| ())
    }

    /// As [`stop`](Self::stop); `last` is called with the database once nothing writes to it any more.
    ///
    /// # Errors
    /// As [`Database::close`].
    pub fn stop_after(mut self, last: impl FnOnce(&Database)) -> Result<()> {
        self.stop.send_replace(true);
        let (tasks, limit) = (&mut self.tasks, self.shared.config.stop_timeout);
        let all = async { while tasks.join_next().await.is_some() {} };
        if self.runtime.block_on(async { tokio::time::timeout(limit, all).await }).is_err() {
            tracing::warn!("aborting the requests that are still running after {} ms", limit.as_millis());
        }
        // The remaining tasks end here; a statement that is computing ends with its next batch.
        self.runtime.shutdown_timeout(Duration::from_secs(5));
        let Some(shared) = Arc::into_inner(self.shared) else {
            tracing::warn!(
                "a statement is still running: unflushed rows are in the log and are replayed at the next start"
            );
            return Ok(());
        };
        match shared.store {
            Store::Writer(db) => {
                last(&db);
                Arc::into_inner(db).map_or(Ok(()), Database::close)
            }
            Store::Reader(..) => Ok(()),
        }
    }
}
