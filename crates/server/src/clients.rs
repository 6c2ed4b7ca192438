//! The connected clients: what `pg_stat_activity` shows, and how their statements are cancelled.

use fleetdb_postgres::Client;
use parking_lot::Mutex;
use pgwire::api::{ClientInfo, PidSecretKeyGenerator, RandomPidSecretKeyGenerator};
use pgwire::messages::startup::SecretKey;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};
use subtle::ConstantTimeEq;

/// A connected client.
pub(crate) trait Connected: Send + Sync {
    /// Describes the client and what it is doing; `number` is its number.
    fn client(&self, number: i32) -> Client;

    /// The name of its user.
    fn user(&self) -> String;

    /// Cancels the running statement.
    fn cancel(&self);

    /// Ends the connection.
    fn end(&self);

    /// Called when users have changed. A client whose user was removed disconnects.
    fn users_changed(&self) {}
}

struct ClientEntry {
    /// The secret that a cancel request must present, which arrives on a connection that has not
    /// logged in. Without a secret no cancel request is accepted.
    secret: Option<Vec<u8>>,
    client: Weak<dyn Connected>,
}

/// The clients of a server by number.
#[derive(Default)]
pub(crate) struct Clients {
    last: AtomicI32,
    secrets: RandomPidSecretKeyGenerator,
    entries: Mutex<BTreeMap<i32, ClientEntry>>,
}

/// Keeps a client listed while it is alive.
pub(crate) struct Registration {
    number: i32,
    clients: Arc<Clients>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.clients.entries.lock().remove(&self.number);
    }
}

impl Clients {
    /// Returns a number that no other client has.
    pub(crate) fn number(&self) -> i32 {
        // Numbers start over after about two billion clients.
        (self.last.fetch_add(1, Ordering::Relaxed) & i32::MAX).wrapping_add(1).max(1)
    }

    /// Registers a client.
    pub(crate) fn register(
        self: &Arc<Self>,
        number: i32,
        secret: Option<Vec<u8>>,
        client: Weak<dyn Connected>,
    ) -> Registration {
        self.entries.lock().insert(number, ClientEntry { secret, client });
        Registration { number, clients: Arc::clone(self) }
    }

    /// Cancels a client's statement if `secret` is the client's secret. The comparison takes
    /// constant time.
    pub(crate) fn cancel_by(&self, number: i32, secret: &[u8]) {
        let client = self.entries.lock().get(&number).and_then(|entry| {
            let is_right = bool::from(entry.secret.as_deref()?.ct_eq(secret));
            is_right.then(|| entry.client.upgrade()).flatten()
        });
        if let Some(client) = client {
            client.cancel();
        }
    }

    /// Returns without holding the lock, because a client may wait for other clients' locks to
    /// describe itself.
    fn find(&self, number: i32) -> Option<Arc<dyn Connected>> {
        self.entries.lock().get(&number)?.client.upgrade()
    }
}

impl Clients {
    /// All clients. The lock is released before they are used.
    fn connected(&self) -> Vec<(i32, Arc<dyn Connected>)> {
        let entries = self.entries.lock();
        entries.iter().filter_map(|(number, of)| Some((*number, of.client.upgrade()?))).collect()
    }

    /// Tells every client to check whether its user still exists.
    pub(crate) fn users_changed(&self) {
        self.connected().iter().for_each(|(_, client)| client.users_changed());
    }
}

impl fleetdb_postgres::Clients for Clients {
    fn all(&self) -> Vec<Client> {
        self.connected().into_iter().map(|(number, client)| client.client(number)).collect()
    }

    fn user(&self, number: i32) -> Option<String> {
        Some(self.find(number)?.user())
    }

    fn cancel(&self, number: i32) {
        if let Some(client) = self.find(number) {
            client.cancel();
        }
    }

    fn end(&self, number: i32) {
        if let Some(client) = self.find(number) {
            client.end();
        }
    }
}

impl PidSecretKeyGenerator for Clients {
    fn generate(&self, client: &dyn ClientInfo) -> (i32, SecretKey) {
        (self.number(), self.secrets.generate(client).1)
    }
}

/// The part of a statement's text that other clients see.
pub(crate) fn shown(statement: &str) -> Arc<str> {
    statement[..statement.floor_char_boundary(Client::STATEMENT_BYTES)].into()
}
