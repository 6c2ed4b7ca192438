//! Sends the rows of a prepared query. They go from their arrays into the connection's buffer;
//! pgwire would make a stream of messages first.

use super::SENT_BYTES;
use super::binary_rows::{BinaryRows, put_message};
use super::connection::Connection;
use super::prepared_statement::SharedStatement;
use super::values::{Fields, other_rows};
use super::wire::Checked;
use crate::error::postgres_error;
use crate::sessions::{ClientSession, Running};
use futures::SinkExt;
use pgwire::error::PgWireResult;
use pgwire::messages::Message;
use pgwire::messages::response::MESSAGE_TYPE_BYTE_COMMAND_COMPLETE as COMMAND_COMPLETE;
use pgwire::tokio::server::PgWireMessageServerCodec;
use std::fmt::Write;
use tokio_util::codec::Framed;

/// A client's connection.
pub(super) type Socket = Framed<Checked, PgWireMessageServerCodec<SharedStatement>>;

/// Writes the rows of a statement with these columns and the message that ends them. They are sent
/// whenever the buffer is full.
pub(super) async fn send(
    socket: &mut Socket,
    connection: &Connection,
    mut running: Running<ClientSession>,
    fields: &Fields,
) -> PgWireResult<()> {
    let mut count = 0;
    while let Some(batch) = running.next(&connection.shared.work).await.map_err(|e| postgres_error(&e))? {
        count += batch.num_rows();
        if let Some(mut rows) = BinaryRows::of(&batch, fields) {
            while rows.put_row(socket.write_buffer_mut())? {
                send_if_full(socket).await?;
            }
        } else {
            for row in other_rows(batch, fields, connection.session()?.zone()) {
                row?.encode(socket.write_buffer_mut())?;
                send_if_full(socket).await?;
            }
        }
    }
    put_message(socket.write_buffer_mut(), COMMAND_COMPLETE, |out| {
        // Writing to memory cannot fail.
        write!(out, "{} {count}\0", running.verb()).ok();
    })
}

async fn send_if_full(socket: &mut Socket) -> PgWireResult<()> {
    if socket.write_buffer().len() < SENT_BYTES {
        return Ok(());
    }
    Ok(socket.flush().await?)
}
