//! A minimal client of the PostgreSQL protocol, so that the client takes only a small share of the
//! cores: statements are prepared once and sent together.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use fleetdb_bench_core::Outcome;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use postgres_protocol::types;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// 2000-01-01, PostgreSQL's epoch, in microseconds since 1970.
const EPOCH_US: i64 = 946_684_800_000_000;

/// Bytes to read at a time.
const READ_BYTES: usize = 4 << 10;

/// A parameter.
#[derive(Clone, Copy)]
pub(super) enum Parameter<'a> {
    Int(i64),
    Float(f64),
    Text(&'a str),
    /// Microseconds since 1970.
    Time(i64),
}

/// A connection.
pub(super) struct Connection {
    stream: TcpStream,
    out: BytesMut,
    come: BytesMut,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut connection = Self { stream, out: BytesMut::new(), come: BytesMut::new() };
        frontend::startup_message([("user", "bench"), ("database", "fleetdb")], &mut connection.out)?;
        connection.exchange().await?;
        Ok(connection)
    }

    /// Adds the preparation of a statement under a name.
    pub(super) fn prepare(&mut self, name: &str, text: &str) -> Outcome<()> {
        Ok(frontend::parse(name, text, [], &mut self.out)?)
    }

    /// Adds a run of a prepared statement.
    pub(super) fn execute(&mut self, name: &str, parameters: &[Parameter<'_>]) -> Outcome<()> {
        let parameters = parameters.iter().copied();
        let bound = frontend::bind("", name, [1], parameters, write_parameter, [1], &mut self.out);
        bound.map_err(|_| "a parameter cannot be sent")?;
        Ok(frontend::execute("", 0, &mut self.out)?)
    }

    /// Sends what was added, followed by one Sync, and waits until everything is answered.
    pub(super) async fn run(&mut self) -> Outcome<()> {
        frontend::sync(&mut self.out);
        self.exchange().await
    }

    async fn exchange(&mut self) -> Outcome<()> {
        self.stream.write_all(&self.out).await?;
        self.out.clear();
        loop {
            match Message::parse(&mut self.come)? {
                Some(Message::ReadyForQuery(_)) => return Ok(()),
                Some(Message::ErrorResponse(error)) => {
                    let message = error.fields().find(|field| Ok(field.type_() == b'M'))?;
                    let message = message.map(|field| String::from_utf8_lossy(field.value_bytes()).into_owned());
                    return Err(message.unwrap_or_default().into());
                }
                Some(_) => {}
                None => {
                    // Read an answer in one call if possible.
                    self.come.reserve(READ_BYTES);
                    if self.stream.read_buf(&mut self.come).await? == 0 {
                        return Err("the server closed the connection".into());
                    }
                }
            }
        }
    }
}

type Failure = Box<dyn std::error::Error + Sync + Send>;

fn write_parameter(parameter: Parameter<'_>, out: &mut BytesMut) -> Result<IsNull, Failure> {
    match parameter {
        Parameter::Int(value) => types::int8_to_sql(value, out),
        Parameter::Float(value) => types::float8_to_sql(value, out),
        Parameter::Text(value) => types::text_to_sql(value, out),
        Parameter::Time(us) => types::timestamp_to_sql(us - EPOCH_US, out),
    }
    Ok(IsNull::No)
}
