//! A fast path for prepared statements. Drivers run them with Bind, perhaps Describe, Execute, and
//! Sync, one or several in a row. These messages are handled in place in the read buffer, without
//! the copies and the portal that pgwire makes. Messages in any other form are left to pgwire.

use super::connection::Connection;
use super::extended::{Outcome, check_bind, feed_columns};
use super::rows::{self, Socket};
use super::values::Parameters;
use super::wire::Rest;
use pgwire::api::portal::Format;
use pgwire::api::query::ExtendedQueryHandler;
use pgwire::api::store::PortalStore;
use pgwire::api::{ClientInfo, ClientPortalStore, DEFAULT_NAME, PgWireConnectionState};
use pgwire::error::PgWireResult;
use pgwire::messages::Message;
use pgwire::messages::extendedquery::{BindComplete, Sync as PgSync};

/// Bytes of a message's type and length.
const HEAD_BYTES: usize = 5;

/// One run of a prepared statement.
struct Run<'a> {
    statement: &'a str,
    parameters: Parameters<'a>,
    /// The number of format codes for parameters and for columns.
    formats: (usize, usize),
    result_format: Format,
    /// Whether a Describe asks for the columns.
    is_described: bool,
    /// Length of all messages of the run.
    bytes: usize,
}

/// Handles the next messages if they are such a run or a Sync; returns `false` if they are not. The
/// first message must be complete and well-formed.
pub(super) async fn try_handle(socket: &mut Socket, connection: &Connection) -> PgWireResult<bool> {
    if !matches!(socket.state(), PgWireConnectionState::ReadyForQuery) {
        return Ok(false);
    }
    let buffered = socket.get_ref().buffered();
    if buffered.first() == Some(&b'S') {
        socket.get_mut().skip(HEAD_BYTES);
        connection.on_sync(socket, PgSync::new()).await?;
        return Ok(true);
    }
    let Some(run) = run_at(buffered) else { return Ok(false) };
    let Some(entry) = socket.portal_store().get_statement(run.statement) else { return Ok(false) };
    let Some(stored) = entry.value() else { return Ok(false) };
    if check_bind(&entry, run.parameters.values.len(), run.formats).is_err() {
        return Ok(false);
    }
    let fields = run.is_described.then(|| connection.columns(&stored.statement, &run.result_format));
    let Ok(fields) = fields.transpose() else { return Ok(false) };
    connection.set_busy();
    socket.portal_store().rm_portal(DEFAULT_NAME);
    let outcome = connection.outcome(&stored.statement, &run.parameters, &run.result_format).await;
    let bytes = run.bytes;
    socket.get_mut().skip(bytes);
    BindComplete::new().encode(socket.write_buffer_mut())?;
    if let Some(fields) = fields {
        feed_columns(socket, &fields).await?;
    }
    match outcome? {
        Outcome::Rows(running, fields) => {
            connection.warn_of(&running);
            rows::send(socket, connection, *running, &fields).await?;
        }
        Outcome::Other(response) => connection.answer(socket, response).await?,
    }
    Ok(true)
}

/// Parses the run at the front of a buffer: a Bind of the unnamed portal, perhaps a Describe of it
/// (libpq always sends one), and an Execute of all its rows. The portal must not be used again, so
/// the next message must start another run of a pipeline or be a Sync.
fn run_at(buffer: &[u8]) -> Option<Run<'_>> {
    let mut buffered = Rest(buffer);
    let mut bind = Rest(buffered.message(b'B')?);
    let describe = buffered.message(b'D');
    let mut execute = Rest(buffered.message(b'E')?);
    let bytes = buffer.len() - buffered.0.len();
    let of_unnamed = bind.text()?.is_empty() && execute.text()?.is_empty();
    let is_described = describe == Some(b"P\0");
    if !of_unnamed
        || is_described != describe.is_some()
        || execute.0 != [0; 4]
        || !matches!(buffered.0.first(), Some(b'B' | b'P' | b'S'))
    {
        return None;
    }
    let statement = str::from_utf8(bind.text()?).ok()?;
    let (format, parameter_formats) = bind.format()?;
    let count = bind.count()?;
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(bind.value()?);
    }
    let (result_format, column_formats) = bind.format()?;
    let parameters = Parameters { values, format };
    let formats = (parameter_formats, column_formats);
    bind.0.is_empty().then_some(Run { statement, parameters, formats, result_format, is_described, bytes })
}

impl Rest<'_> {
    /// Reads format codes; returns them and their number.
    fn format(&mut self) -> Option<(Format, usize)> {
        let count = self.count()?;
        let codes = self.take(size_of::<u16>() * count)?.as_chunks().0;
        let is_binary = |code: &[u8; 2]| u16::from_be_bytes(*code) == 1;
        let format = match codes {
            [] => Format::UnifiedText,
            [first, others @ ..] if others.iter().all(|other| is_binary(other) == is_binary(first)) => {
                Format::from(i16::from(is_binary(first)))
            }
            codes => Format::Individual(codes.iter().map(|code| i16::from(is_binary(code))).collect()),
        };
        Some((format, count))
    }
}

#[cfg(test)]
#[path = "fast_path_tests.rs"]
mod tests;
