//! Who is connected and what they do: what `pg_stat_activity` shows, and what ends it.

use fleetdb_query::Client;
use parking_lot::Mutex;
use pgwire::api::{ClientInfo, PidSecretKeyGenerator, RandomPidSecretKeyGenerator};
use pgwire::messages::startup::SecretKey;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};
use subtle::ConstantTimeEq;

/// One who is connected.
pub(crate) trait Connected: Send + Sync {
    /// What it is and does; it has this number.
    fn client(&self, number: i32) -> Client;

    /// Who it is.
    fn user(&self) -> String;

    /// Cancels the statement that runs.
    fn cancel(&self);

    /// Ends the connection.
    fn end(&self);

    /// Users have been changed: one who was removed goes.
    fn users_changed(&self) {}
}

struct Known {
    /// What somebody must know who is not connected to cancel a statement; nobody may without one.
    secret: Option<Vec<u8>>,
    client: Weak<dyn Connected>,
}

/// All of a server's, by number.
#[derive(Default)]
pub(crate) struct Clients {
    last: AtomicI32,
    secrets: RandomPidSecretKeyGenerator,
    known: Mutex<BTreeMap<i32, Known>>,
}

/// A client is known as long as this lives.
pub(crate) struct Listed {
    number: i32,
    clients: Arc<Clients>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.clients.known.lock().remove(&self.number);
    }
}

impl Clients {
    /// A number that no other has.
    pub(crate) fn number(&self) -> i32 {
        // Two thousand million later they begin anew.
        (self.last.fetch_add(1, Ordering::Relaxed) & i32::MAX).wrapping_add(1).max(1)
    }

    /// Makes a client known.
    pub(crate) fn list(self: &Arc<Self>, number: i32, secret: Option<Vec<u8>>, client: Weak<dyn Connected>) -> Listed {
        self.known.lock().insert(number, Known { secret, client });
        Listed { number, clients: Arc::clone(self) }
    }

    /// Cancels the statement of a client, for one who knows its secret; the time it takes says nothing about that.
    pub(crate) fn cancel_by(&self, number: i32, secret: &[u8]) {
        let client = self.known.lock().get(&number).and_then(|known| {
            let is_right = bool::from(known.secret.as_deref()?.ct_eq(secret));
            is_right.then(|| known.client.upgrade()).flatten()
        });
        if let Some(client) = client {
            client.cancel();
        }
    }

    /// Without the lock, as a client may have to wait for others' to say what it does.
    fn find(&self, number: i32) -> Option<Arc<dyn Connected>> {
        self.known.lock().get(&number)?.client.upgrade()
    }
}

impl Clients {
    /// All of them, without the lock.
    fn connected(&self) -> Vec<(i32, Arc<dyn Connected>)> {
        let known = self.known.lock();
        known.iter().filter_map(|(number, of)| Some((*number, of.client.upgrade()?))).collect()
    }

    /// Has all of them look whether they are still users.
    pub(crate) fn users_changed(&self) {
        self.connected().iter().for_each(|(_, client)| client.users_changed());
    }
}

impl fleetdb_query::Clients for Clients {
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

/// What is shown of a statement's text.
pub(crate) fn shown(statement: &str) -> Arc<str> {
    statement[..statement.floor_char_boundary(Client::STATEMENT_BYTES)].into()
}
