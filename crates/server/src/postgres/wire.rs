//! Messages on their way in: TLS is agreed on, and each message is looked at before pgwire reads it.
//!
//! pgwire 0.41 takes a message's own counts and lengths for true; wrong ones make it panic or read into the next message
//! (found by `crates/cli/tests/server/wrong.rs`). What is not a whole, well-formed message does not get there.

use super::connection::Connection;
use bytes::{Buf, BytesMut};
use fleetdb_engine::MemoryReservation;
use pgwire::error::ErrorInfo;
use pgwire::messages::PgWireBackendMessage;
use pgwire::tokio::server::MaybeTls;
use std::io::{Error, ErrorKind, Result};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// Codes in the place of a protocol version.
const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
const CANCEL_REQUEST: i32 = 80_877_102;
/// The longest first message, as in PostgreSQL.
const STARTUP_BYTES: usize = 10_000;
/// How long the rest of a first message may take that is refused.
const REST_LIMIT: Duration = Duration::from_secs(1);
/// What a connection keeps of its buffer when it has answered all.
const KEPT_BYTES: usize = 64 << 10;
/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// What is answered to one who does not ask for TLS where that is a must, as PostgreSQL says it.
fn without_tls() -> BytesMut {
    let text = "the connection is not encrypted: this server requires TLS (option tls); connect with sslmode=require \
                or verify-full";
    let error = ErrorInfo::new("FATAL".to_owned(), "28000".to_owned(), text.to_owned());
    let mut bytes = BytesMut::new();
    // It is written to memory.
    PgWireBackendMessage::ErrorResponse(error.into()).encode(&mut bytes).ok();
    bytes
}

/// Agrees on TLS, without which there is no connection if it is required; gives the connection, whether it is encrypted, and what has been read of the next message.
pub(super) async fn negotiate(
    mut stream: TcpStream,
    tls: Option<TlsAcceptor>,
    is_required: bool,
) -> Result<(MaybeTls, bool, BytesMut)> {
    let encrypted = |stream| (MaybeTls::Tls(Box::new(stream)), true, BytesMut::new());
    let mut first = [0; 8];
    if stream.peek(&mut first[..1]).await? == 1 && first[0] == TLS_HANDSHAKE {
        let tls = tls.ok_or_else(|| wrong("TLS is not configured"))?;
        return tls.accept(stream).await.map(encrypted);
    }
    // One request for TLS, and one for GSSAPI, in either order.
    for _ in 0..3 {
        stream.read_exact(&mut first).await?;
        match (i32_at(&first, 0), i32_at(&first, 4), &tls) {
            (Some(8), Some(SSL_REQUEST), Some(tls)) => {
                stream.write_all(b"S").await?;
                return tls.accept(stream).await.map(encrypted);
            }
            (Some(8), Some(SSL_REQUEST | GSS_REQUEST), _) => stream.write_all(b"N").await?,
            // libpq cancels without TLS, which takes a secret and gives nothing.
            (_, code, _) if is_required && code != Some(CANCEL_REQUEST) => {
                // What is read no more would have the answer lost.
                let rest = i32_at(&first, 0).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
                let mut rest = vec![0; rest.clamp(8, STARTUP_BYTES) - 8];
                tokio::time::timeout(REST_LIMIT, stream.read_exact(&mut rest)).await.ok();
                stream.write_all(&without_tls()).await?;
                stream.shutdown().await?;
                return Err(wrong("the client did not request TLS"));
            }
            _ => return Ok((MaybeTls::Plain(stream), false, BytesMut::from(&first[..]))),
        }
    }
    Err(wrong("a client may request TLS and GSSAPI only once each"))
}

/// A connection of which only well-formed messages are read.
pub(super) struct Checked {
    inner: MaybeTls,
    connection: Arc<Connection>,
    read: BytesMut,
    /// That of the message that is read, and then answered.
    memory: MemoryReservation,
    /// Bytes at the front that have been looked at.
    checked_bytes: usize,
    is_started: bool,
    /// Whether the first answer of a login has come.
    has_password: bool,
}

impl Checked {
    /// `read` has been read of it already.
    pub(super) fn new(inner: MaybeTls, read: BytesMut, connection: Arc<Connection>) -> Self {
        let memory = connection.shared.db.query_memory().reservation();
        Self { inner, connection, read, memory, checked_bytes: 0, is_started: false, has_password: false }
    }

    /// What has been read and not yet been taken.
    pub(super) fn buffered(&self) -> &[u8] {
        &self.read
    }

    /// Takes bytes from the front of what is buffered: whole messages.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.read.advance(bytes);
        self.checked_bytes = 0;
    }

    /// Whether the next message has come as a whole; the one before has been answered.
    ///
    /// # Errors
    /// It is not what its kind says, or there is no memory for it ([`ErrorKind::OutOfMemory`]).
    pub(super) fn has_message(&mut self) -> Result<bool> {
        if self.checked_bytes == 0 {
            self.checked_bytes = self.check()?.unwrap_or(0);
        }
        Ok(self.checked_bytes > 0)
    }

    /// Waits for more bytes; gives how many have come, 0 if none will.
    pub(super) async fn fill(&mut self) -> Result<usize> {
        std::future::poll_fn(|context| self.poll_fill(context)).await
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<Result<usize>> {
        let mut part = [MaybeUninit::uninit(); 8 << 10];
        let mut part = ReadBuf::uninit(&mut part);
        ready!(Pin::new(&mut self.inner).poll_read(context, &mut part))?;
        self.read.extend_from_slice(part.filled());
        Poll::Ready(Ok(part.filled().len()))
    }

    /// Gives back what a long message took.
    fn forget_long_message(&mut self) {
        self.memory.release();
        if self.read.capacity() > KEPT_BYTES {
            self.read = BytesMut::new();
        }
    }

    /// Looks at the next message; gives its bytes, or `None` if it has not come as a whole.
    fn check(&mut self) -> Result<Option<usize>> {
        let kind_bytes = usize::from(self.is_started);
        if self.read.is_empty() {
            self.forget_long_message();
        }
        let Some(length) = i32_at(&self.read, kind_bytes) else { return Ok(None) };
        let most = if self.is_started { self.connection.most_message_bytes() } else { STARTUP_BYTES };
        let length = usize::try_from(length).ok().filter(|length| (4..=most).contains(length));
        let length = length.ok_or_else(|| wrong("a message has an invalid length"))?;
        let whole = kind_bytes + length;
        // As bytes here, and in pgwire's buffer.
        let held = self.memory.grow_to("a message", 2 * whole);
        held.map_err(|error| Error::new(ErrorKind::OutOfMemory, error))?;
        if self.read.len() < whole {
            return Ok(None);
        }
        let body = &self.read[kind_bytes + 4..whole];
        let is_well_formed = if self.is_started {
            let first_password = self.read[0] == b'p' && !std::mem::replace(&mut self.has_password, true);
            is_message(self.read[0], body, first_password)
        } else {
            self.is_started = true;
            is_startup(body)
        };
        if is_well_formed { Ok(Some(whole)) } else { Err(wrong("malformed message")) }
    }
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// What is left of a message.
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    pub(super) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        self.take(end + 1).map(|text| &text[..end])
    }

    pub(super) fn count(&mut self) -> Option<usize> {
        self.take(2)?.first_chunk().map(|count| usize::from(u16::from_be_bytes(*count)))
    }

    /// A length and so many bytes; a negative length has none, and is NULL.
    pub(super) fn value(&mut self) -> Option<Option<&'a [u8]>> {
        let length = i32_at(self.take(4)?, 0)?;
        match usize::try_from(length) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Some(None),
        }
    }

    /// The body of the next message, if it is a whole one of this kind.
    pub(super) fn message(&mut self, kind: u8) -> Option<&'a [u8]> {
        let length = usize::try_from(i32_at(self.0, 1)?).ok()?;
        if self.0.first() != Some(&kind) || length < 4 {
            return None;
        }
        self.take(1 + length).map(|message| &message[5..])
    }
}

/// The first message: a version, pairs of texts and an empty one, or a number and a secret.
fn is_startup(body: &[u8]) -> bool {
    let mut rest = Rest(body);
    let parsed = (|| {
        let version = i32_at(rest.take(4)?, 0)?;
        if version == CANCEL_REQUEST {
            rest.take(8)?;
        } else {
            while !rest.text()?.is_empty() {
                rest.text()?;
            }
        }
        Some(())
    })();
    parsed.is_some() && rest.0.is_empty()
}

/// Whether a body has the form of its kind.
fn is_message(kind: u8, body: &[u8], first_password: bool) -> bool {
    let mut rest = Rest(body);
    let parsed = (|| {
        match kind {
            b'Q' | b'f' => drop(rest.text()?),
            b'P' => {
                rest.text()?;
                rest.text()?;
                let types = rest.count()?;
                rest.take(4 * types)?;
            }
            b'B' => {
                rest.text()?;
                rest.text()?;
                let formats = rest.count()?;
                rest.take(2 * formats)?;
                for _ in 0..rest.count()? {
                    rest.value()?;
                }
                let formats = rest.count()?;
                rest.take(2 * formats)?;
            }
            b'D' | b'C' => {
                rest.take(1)?;
                rest.text()?;
            }
            b'E' => {
                rest.text()?;
                rest.take(4)?;
            }
            b'S' | b'H' | b'c' | b'X' => {}
            b'p' if first_password => {
                rest.text()?;
                rest.value()?;
            }
            b'p' | b'd' => drop(rest.take(body.len())?),
            _ => return None,
        }
        Some(())
    })();
    parsed.is_some() && rest.0.is_empty()
}

impl AsyncRead for Checked {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        loop {
            if this.has_message()? {
                let bytes = this.checked_bytes.min(out.remaining());
                out.put_slice(&this.read[..bytes]);
                this.read.advance(bytes);
                this.checked_bytes -= bytes;
                return Poll::Ready(Ok(()));
            }
            if ready!(this.poll_fill(context))? == 0 {
                // What has come of a message that was cut off is nothing.
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Checked {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
