//! Authenticates a client: by SCRAM-SHA-256 (RFC 5802, RFC 7677), or not at all if no login is
//! required.

use super::connection::Connection;
use super::startup;
use crate::access::{Access, Identity};
use crate::error::postgres_error;
use fleetdb_engine::Error;
use fleetdb_query::SessionSettings;
use futures::Sink;
use pgwire::api::auth::sasl::SASLAuthStartupHandler;
use pgwire::api::auth::sasl::scram::ScramAuth;
use pgwire::api::auth::{
    AuthSource, DefaultServerParameterProvider, LoginInfo, Password, ServerParameterProvider, StartupHandler,
    finish_authentication, protocol_negotiation, save_startup_parameters_to_metadata,
};
use pgwire::api::{ClientInfo, METADATA_USER, PgWireConnectionState, PidSecretKeyGenerator};
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

/// The login of one connection.
pub(super) struct Login {
    connection: Arc<Connection>,
    scram: SASLAuthStartupHandler<Told>,
}

impl Login {
    pub(super) fn new(connection: &Arc<Connection>) -> Self {
        let mut scram = ScramAuth::new(Arc::new(Passwords(Arc::clone(&connection.shared.access))));
        scram.set_iterations(crate::access::SCRAM_ITERATIONS);
        let numbers = Arc::clone(&connection.shared.clients);
        let scram = SASLAuthStartupHandler::new(Arc::new(Told(Arc::clone(connection))))
            .with_scram(scram)
            .with_pid_secret_key_generator(numbers);
        Self { connection: Arc::clone(connection), scram }
    }
}

/// The server parameters sent to a client. Drivers infer the server's features from the version.
struct Told(Arc<Connection>);

impl Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Told")
    }
}

impl ServerParameterProvider for Told {
    fn server_parameters<C: ClientInfo>(&self, client: &C) -> Option<HashMap<String, String>> {
        let mut parameters = DefaultServerParameterProvider::default();
        parameters.server_version = format!("16.6 (FleetDB {})", env!("CARGO_PKG_VERSION"));
        parameters.is_superuser = false;
        parameters.time_zone = self.0.first_zone();
        parameters.server_parameters(client)
    }
}

#[async_trait::async_trait]
impl StartupHandler for Login {
    async fn on_startup<C>(&self, client: &mut C, message: PgWireFrontendMessage) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        if let PgWireFrontendMessage::Startup(startup) = &message {
            let first = SessionSettings::with_timeout(self.connection.shared.config.statement_timeout);
            self.connection.set_startup_settings(startup::settings(first, &startup.parameters).map_err(fatal)?);
        }
        let access = &self.connection.shared.access;
        // A SCRAM exchange that has begun continues even if the file of users changes.
        let requires_login = match client.state() {
            PgWireConnectionState::AuthenticationInProgress => true,
            _ => access.requires_login().map_err(|e| postgres_error(&e))?,
        };
        if requires_login {
            if let Err(error) = self.scram.on_startup(client, message).await {
                let user = client.metadata().get(METADATA_USER).map_or("", String::as_str);
                self.connection.shared.login_failed("postgres", client.socket_addr().ip(), user);
                return Err(match error {
                    PgWireError::InvalidPassword(_) => wrong_login(user),
                    other => other,
                });
            }
        } else {
            self.let_anybody_in(client, message).await?;
        }
        if matches!(client.state(), PgWireConnectionState::ReadyForQuery) {
            let user = client.metadata().get(METADATA_USER).map_or("", String::as_str);
            let role =
                access.role(user, requires_login).map_err(|e| postgres_error(&e))?.ok_or_else(|| wrong_login(user))?;
            let (pid, secret) = client.pid_and_secret_key();
            // Without a login, the client may use any name.
            let identity = Identity { name: user.to_owned(), role };
            self.connection.logged_in(identity, requires_login, pid, secret.to_bytes().to_vec());
        }
        Ok(())
    }
}

impl Login {
    async fn let_anybody_in<C>(&self, client: &mut C, message: PgWireFrontendMessage) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let PgWireFrontendMessage::Startup(startup) = message else { return Ok(()) };
        protocol_negotiation(client, &startup).await?;
        save_startup_parameters_to_metadata(client, &startup);
        let (pid, secret) = self.connection.shared.clients.generate(client);
        client.set_pid_and_secret_key(pid, secret);
        finish_authentication(client, &Told(Arc::clone(&self.connection))).await
    }
}

/// The error for a wrong name or password, in PostgreSQL's words. It does not reveal whether the
/// user exists.
fn wrong_login(user: &str) -> PgWireError {
    let text = format!("password authentication failed for user \"{user}\"");
    PgWireError::UserError(Box::new(ErrorInfo::new("FATAL".to_owned(), "28P01".to_owned(), text)))
}

/// An error that ends the connection.
fn fatal(error: Error) -> PgWireError {
    let info = ErrorInfo::new("FATAL".to_owned(), "22023".to_owned(), error.to_string());
    PgWireError::UserError(Box::new(info))
}

/// Looks up the salted passwords for SCRAM.
struct Passwords(Arc<Access>);

impl Debug for Passwords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passwords")
    }
}

#[async_trait::async_trait]
impl AuthSource for Passwords {
    async fn get_password(&self, login: &LoginInfo) -> PgWireResult<Password> {
        let user = login.user().unwrap_or_default();
        let known = self.0.scram(user).map_err(|e| postgres_error(&e))?;
        // An unknown user fails at the same step as a user with a wrong password.
        let (salt, salted) = known.unwrap_or_else(|| self.0.decoy_credentials(user));
        Ok(Password::new(Some(salt), salted))
    }
}
