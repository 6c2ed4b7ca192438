//! Line protocol over plain TCP and UDP. Nothing is answered: an invalid line is logged and
//! counted.
//!
//! A TCP connection is not read while its lines are being written, so a client that sends too fast
//! waits. Over UDP the operating system drops what arrives meanwhile.

use crate::lines;
use crate::server::Shared;
use fleetdb_engine::{LineSplitter, Precision};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

/// Bytes to gather before a write, if more data is available at once.
const GATHERED_BYTES: usize = 1 << 20;
/// The longest line that is accepted.
const LINE_BYTES: usize = 1 << 20;
/// The longest possible datagram.
const DATAGRAM_BYTES: usize = 64 << 10;

/// Accepts connections until the server stops.
pub(crate) async fn tcp(shared: Arc<Shared>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Some(stream) = shared.accept(&listener).await {
        // Forget the connections that have ended.
        while connections.try_join_next().is_some() {}
        if let Some(admitted) = shared.admit("line_tcp") {
            let shared = Arc::clone(&shared);
            connections.spawn(async move {
                take_lines(&shared, stream).await;
                drop(admitted);
            });
        }
    }
    while connections.join_next().await.is_some() {}
}

async fn take_lines(shared: &Arc<Shared>, mut stream: TcpStream) {
    let mut lines = Vec::with_capacity(64 << 10);
    // `line_ends` finds the ends of lines, `seen` is how far it has looked, `ends` is the last end.
    let (mut line_ends, mut seen, mut ends) = (LineSplitter::default(), 0, 0);
    // Whether the client closed its side properly. A connection that broke off may have cut a line
    // in two.
    let mut is_complete = false;
    let mut is_open = true;
    while is_open {
        let read = tokio::select! {
            () = shared.stopped() => None,
            read = stream.read_buf(&mut lines) => read.ok(),
        };
        (is_open, is_complete) = (read.is_some_and(|bytes| bytes > 0), read == Some(0));
        // Write together what has already arrived.
        while is_open && lines.len() < GATHERED_BYTES && stream.try_read_buf(&mut lines).is_ok_and(|bytes| bytes > 0) {}
        while let Some(end) = line_ends.find(&lines[seen..]) {
            seen += end;
            ends = seen;
        }
        if lines.len() - ends > LINE_BYTES {
            tracing::warn!("line_tcp: connection closed: a line exceeds {LINE_BYTES} bytes");
            shared.metrics.lines("line_tcp", 0, 1);
            is_open = false;
        }
        let rest = lines.split_off(ends);
        (seen, ends) = (rest.len(), 0);
        write(shared, "line_tcp", std::mem::replace(&mut lines, rest)).await;
    }
    if is_complete {
        write(shared, "line_tcp", lines).await;
    }
    stream.shutdown().await.ok();
}

/// Takes datagrams until the server stops.
pub(crate) async fn udp(shared: Arc<Shared>, socket: UdpSocket) {
    let mut datagram = vec![0; DATAGRAM_BYTES];
    let mut lines = Vec::new();
    loop {
        let received = tokio::select! {
            () = shared.stopped() => break,
            received = socket.recv(&mut datagram) => received,
        };
        let Ok(bytes) = received else { continue };
        add_datagram(&shared, &mut lines, &datagram[..bytes]);
        while lines.len() < GATHERED_BYTES {
            let Ok(bytes) = socket.try_recv(&mut datagram) else { break };
            add_datagram(&shared, &mut lines, &datagram[..bytes]);
        }
        write(&shared, "line_udp", std::mem::take(&mut lines)).await;
    }
}

/// Adds the lines of a datagram. A string that is still open at its end would continue into the
/// next datagram, so the line that holds it is dropped.
fn add_datagram(shared: &Arc<Shared>, lines: &mut Vec<u8>, datagram: &[u8]) {
    let (mut line_ends, mut whole) = (LineSplitter::default(), 0);
    while let Some(end) = line_ends.find(&datagram[whole..]) {
        whole += end;
    }
    if line_ends.is_in_text() {
        lines.extend_from_slice(&datagram[..whole]);
        tracing::warn!("line_udp: a line was dropped: the datagram ends within a string");
        shared.metrics.lines("line_udp", 0, 1);
    } else {
        lines.extend_from_slice(datagram);
        lines.push(b'\n');
    }
}

async fn write(shared: &Arc<Shared>, protocol: &'static str, body: Vec<u8>) {
    if body.is_empty() {
        return;
    }
    match lines::write(shared, body, Precision::Nanosecond, None).await {
        Ok(written) => {
            shared.metrics.lines(protocol, written.kept, written.dropped);
            for wrong in written.wrong.iter().take(1) {
                tracing::warn!("{protocol}: {} lines were dropped; the first error: {}", written.dropped, wrong.reason);
            }
        }
        Err(error) => {
            shared.metrics.requests.get_or_create(&crate::metrics::Outcome { protocol, outcome: "failed" }).inc();
            tracing::warn!("{protocol}: lines were lost: {error}");
        }
    }
}
