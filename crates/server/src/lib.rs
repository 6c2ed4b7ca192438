//! The FleetDB server: serves a database directory over the protocols that agents and drivers
//! speak.
//!
//! 1. [`Options`] become a [`Config`] ([`options`]); [`Server::start`] opens the database and
//!    listens.
//! 2. Each protocol has a folder or file: [`http`] (line protocol, SQL, metrics), [`postgres`],
//!    [`line_sockets`] (line protocol over TCP and UDP). Each connection is a tokio task.
//! 3. Work that computes or may wait for a disk runs on a bounded number of threads ([`work`]). A
//!    write waits for its fsync without occupying a thread.
//! 4. [`access`] holds users and tokens, [`clients`] lists who is connected and what they run, and
//!    [`metrics`] counts events.
//!
//! The server acknowledges nothing before the engine has acknowledged it.

pub mod access;
mod clients;
mod error;
mod http;
mod line_sockets;
mod lines;
mod log;
mod login_queue;
mod metrics;
mod options;
mod owner;
mod postgres;
mod server;
mod sessions;
mod size;
mod stop_signal;
mod tls;
mod work;

pub use log::log_to_stderr;
pub use options::{Config, Options};
pub use owner::OwnerUrl;
pub use server::Server;
pub use size::Size;
pub use stop_signal::StopSignal;
