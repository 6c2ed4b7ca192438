//! Incoming messages: TLS is negotiated, and each message is checked before pgwire parses it.
//!
//! pgwire 0.41 trusts the counts and lengths in a message. Wrong ones make it panic or read into
//! the next message (found by `crates/cli/tests/server/wrong.rs`), so it receives only complete,
//! well-formed messages.

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

/// Request codes that stand in place of a protocol version.
const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
const CANCEL_REQUEST: i32 = 80_877_102;
/// Maximum length of the first message, as in PostgreSQL.
const STARTUP_BYTES: usize = 10_000;
/// Time limit for receiving the rest of a first message that is refused.
const REST_LIMIT: Duration = Duration::from_secs(1);
/// The buffer capacity that a connection keeps when everything is answered.
const KEPT_BYTES: usize = 64 << 10;
/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// The error message for a client that does not request TLS although it is required.
fn without_tls() -> BytesMut {
    let text = "the connection is not encrypted: this server requires TLS (option tls); connect with sslmode=require \
                or verify-full";
    let error = ErrorInfo::new("FATAL".to_owned(), "28000".to_owned(), text.to_owned());
    let mut bytes = BytesMut::new();
    // Writing to memory cannot fail.
    PgWireBackendMessage::ErrorResponse(error.into()).encode(&mut bytes).ok();
    bytes
}

/// Negotiates TLS, and refuses clients without it if it is required. Returns the connection,
/// whether it is encrypted, and the bytes already read of the next message.
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
    // A client may request TLS once and GSSAPI once, in either order.
    for _ in 0..3 {
        stream.read_exact(&mut first).await?;
        match (i32_at(&first, 0), i32_at(&first, 4), &tls) {
            (Some(8), Some(SSL_REQUEST), Some(tls)) => {
                stream.write_all(b"S").await?;
                return tls.accept(stream).await.map(encrypted);
            }
            (Some(8), Some(SSL_REQUEST | GSS_REQUEST), _) => stream.write_all(b"N").await?,
            // libpq cancels without TLS. A cancel request needs a secret and returns nothing.
            (_, code, _) if is_required && code != Some(CANCEL_REQUEST) => {
                // If the rest stayed unread, closing the connection would discard the answer.
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

/// A connection from which only well-formed messages are read.
pub(super) struct Checked {
    inner: MaybeTls,
    connection: Arc<Connection>,
    read: BytesMut,
    /// Memory of the current message, until it is answered.
    memory: MemoryReservation,
    /// Bytes at the front of `read` that have been checked.
    checked_bytes: usize,
    is_started: bool,
    /// Whether the client has sent the first message of a login.
    has_password: bool,
}

impl Checked {
    /// `read` holds bytes already read from the connection.
    pub(super) fn new(inner: MaybeTls, read: BytesMut, connection: Arc<Connection>) -> Self {
        let memory = connection.shared.store.query_memory().reservation();
        Self { inner, connection, read, memory, checked_bytes: 0, is_started: false, has_password: false }
    }

    /// Bytes that have been received but not consumed.
    pub(super) fn buffered(&self) -> &[u8] {
        &self.read
    }

    /// Consumes bytes at the front of the buffer. They must be whole messages.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.read.advance(bytes);
        self.checked_bytes = 0;
    }

    /// Whether the next message has arrived completely. The previous message must have been
    /// answered.
    ///
    /// # Errors
    /// The message is malformed, or there is no memory for it ([`ErrorKind::OutOfMemory`]).
    pub(super) fn has_message(&mut self) -> Result<bool> {
        if self.checked_bytes == 0 {
            self.checked_bytes = self.check()?.unwrap_or(0);
        }
        Ok(self.checked_bytes > 0)
    }

    /// Waits for more bytes; returns how many arrived, 0 at the end of the stream.
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

    /// Releases the memory of a long message.
    fn forget_long_message(&mut self) {
        self.memory.release();
        if self.read.capacity() > KEPT_BYTES {
            self.read = BytesMut::new();
        }
    }

    /// Checks the next message; returns its length in bytes, or `None` if it is still incomplete.
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
        // The message is held here and in pgwire's buffer.
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

/// The unread part of a message.
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

    /// Takes a length and that many bytes. A negative length stands for NULL and has no bytes.
    pub(super) fn value(&mut self) -> Option<Option<&'a [u8]>> {
        let length = i32_at(self.take(4)?, 0)?;
        match usize::try_from(length) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Some(None),
        }
    }

    /// Takes the body of the next message, if it is complete and of this kind.
    pub(super) fn message(&mut self, kind: u8) -> Option<&'a [u8]> {
        let length = usize::try_from(i32_at(self.0, 1)?).ok()?;
        if self.0.first() != Some(&kind) || length < 4 {
            return None;
        }
        self.take(1 + length).map(|message| &message[5..])
    }
}

/// Whether a first message is well formed: a version and pairs of texts, ended by an empty text; or
/// a cancel request with a number and a secret.
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

/// Whether a message of this kind has a well-formed body.
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
                // A message that was cut off is dropped.
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
