//! Lists each running HTTP statement as a client, since an HTTP client has no session to list.

use crate::access::Identity;
use crate::clients::{Connected, shown};
use axum::http::{HeaderMap, header};
use fleetdb_postgres::{Client, ClientState};
use fleetdb_query::Canceller;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

/// The address a request comes from.
#[derive(Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Length limit of a program's name, as for PostgreSQL's `application_name`.
const PROGRAM_BYTES: usize = 63;

/// The sender of a statement.
pub(super) struct Requester {
    pub(super) identity: Identity,
    /// The program's name, from the header `User-Agent`.
    program: String,
    address: SocketAddr,
}

impl Requester {
    pub(super) fn new(identity: Identity, headers: &HeaderMap, Peer(address): Peer) -> Self {
        let program = headers.get(header::USER_AGENT).and_then(|program| program.to_str().ok()).unwrap_or_default();
        let program = program[..program.floor_char_boundary(PROGRAM_BYTES)].to_owned();
        Self { identity, program, address }
    }
}

/// A running statement.
pub(super) struct Statement {
    requester: Requester,
    text: Arc<str>,
    began: SystemTime,
    canceller: Canceller,
}

impl Statement {
    /// A statement that begins now; `canceller` cancels it.
    pub(super) fn new(requester: Requester, text: &str, canceller: Canceller) -> Self {
        Self { requester, text: shown(text), began: SystemTime::now(), canceller }
    }
}

impl Connected for Statement {
    fn client(&self, number: i32) -> Client {
        Client {
            number,
            user: self.user(),
            application_name: self.requester.program.clone(),
            address: Some(self.requester.address),
            came: self.began,
            transaction_began: None,
            statement_began: Some(self.began),
            changed: self.began,
            state: ClientState::Active,
            statement: self.text.to_string(),
        }
    }

    fn user(&self) -> String {
        self.requester.identity.name.clone()
    }

    fn cancel(&self) {
        self.canceller.cancel();
    }

    fn end(&self) {
        self.cancel();
    }
}
