//! A proxy between a node and the store, which fails as a network or a store does.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// What goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Way {
    /// Everything.
    Open,
    /// Nothing. What was sent meanwhile arrives when the way is open again.
    Cut,
    /// Requests, but no answers.
    NoAnswers,
    /// Nothing: the store seems to answer that it is busy.
    Busy,
    /// Nothing: the store seems to answer that another request is in the way.
    Conflict,
    /// The proxy ends.
    Ended,
}

const WAYS: [Way; 6] = [Way::Open, Way::Cut, Way::NoAnswers, Way::Busy, Way::Conflict, Way::Ended];

/// A proxy. It ends with the test.
pub struct Proxy {
    pub port: u16,
    way: Arc<AtomicU8>,
}

impl Proxy {
    /// Starts a proxy in front of a port.
    pub fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let way = Arc::new(AtomicU8::new(Way::Open as u8));
        let proxy = Self { port, way: Arc::clone(&way) };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if now(&way) == Way::Ended {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", to))) else { continue };
                let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else { continue };
                let (requests, answers) = (Arc::clone(&way), Arc::clone(&way));
                std::thread::spawn(move || copy(from_client, server, &requests, true));
                std::thread::spawn(move || copy(from_server, client, &answers, false));
            }
        });
        proxy
    }

    /// Lets only this through, until what it returns is dropped.
    pub fn only(&self, way: Way) -> Failing<'_> {
        self.set(way);
        Failing(self)
    }

    fn set(&self, way: Way) {
        self.way.store(way as u8, Ordering::Relaxed);
    }
}

/// A proxy that fails.
#[must_use]
pub struct Failing<'a>(&'a Proxy);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        self.0.set(Way::Open);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(Way::Ended);
        TcpStream::connect(("127.0.0.1", self.port)).ok();
    }
}

fn now(way: &AtomicU8) -> Way {
    WAYS[way.load(Ordering::Relaxed) as usize]
}

/// Copies one direction until one side ends.
fn copy(mut from: TcpStream, mut to: TcpStream, way: &AtomicU8, is_request: bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        while now(way) == Way::Cut {
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = match now(way) {
            Way::Ended => break,
            Way::NoAnswers if !is_request => {
                // Nothing follows what was lost.
                while now(way) == Way::NoAnswers {
                    std::thread::sleep(Duration::from_millis(5));
                }
                break;
            }
            Way::Busy if is_request => "503 Slow Down",
            Way::Conflict if is_request => "409 Conflict",
            _ => {
                if to.write_all(&buffer[..len]).is_err() {
                    break;
                }
                continue;
            }
        };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        from.write_all(answer.as_bytes()).ok();
        break;
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}
