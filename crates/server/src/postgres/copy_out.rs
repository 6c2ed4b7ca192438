//! `COPY table TO STDOUT`: the rows of a query as text, CSV or in binary form, one message per row.

use super::copy_in::BINARY_HEAD;
use super::wire::Rest;
use bytes::{BufMut, Bytes, BytesMut};
use fleetdb_query::{CopyForm, CopyFormat, csv_cell};
use futures::{Sink, SinkExt, StreamExt};
use pgwire::api::results::{CopyResponse, QueryResponse, Tag};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::{CopyData, CopyDone, CopyOutResponse};
use pgwire::messages::data::DataRow;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The rows of a query as COPY sends them; `count` counts them.
pub(super) fn response(form: CopyForm, rows: QueryResponse, count: Arc<AtomicUsize>) -> CopyResponse {
    let fields = rows.row_schema();
    count.store(0, Ordering::Relaxed);
    let format = i8::from(form.format == CopyFormat::Binary);
    let header = form.header.then(|| {
        let mut line = BytesMut::new();
        put_line(fields.iter().map(|field| Some(field.name().as_bytes())), &form, &mut line);
        Ok(CopyData::new(line.freeze()))
    });
    // As in PostgreSQL, the head precedes the first row, or the end if there are no rows.
    let head = if form.format == CopyFormat::Binary { BINARY_HEAD } else { &[] };
    let state = (Some(rows), head, form, count);
    let lines = futures::stream::try_unfold(state, |(rows, head, form, count)| async move {
        let Some(mut rows) = rows else { return Ok(None) };
        match rows.data_rows().next().await.transpose()? {
            Some(row) => {
                count.fetch_add(1, Ordering::Relaxed);
                let data = CopyData::new(row_of(&row, head, &form));
                Ok(Some((data, (Some(rows), &[][..], form, count))))
            }
            None => {
                Ok((!head.is_empty()).then(|| (CopyData::new(Bytes::from_static(head)), (None, &[][..], form, count))))
            }
        }
    });
    CopyResponse::new(format, fields.len(), futures::stream::iter(header).chain(lines))
}

/// Sends the rows and their number.
pub(super) async fn send<C>(client: &mut C, mut copy: CopyResponse, count: &AtomicUsize) -> PgWireResult<()>
where
    C: Sink<PgWireBackendMessage> + Unpin,
    C::Error: Debug,
    PgWireError: From<C::Error>,
{
    let begin = CopyOutResponse::new(copy.format, copy.columns as i16, copy.column_formats());
    client.feed(PgWireBackendMessage::CopyOutResponse(begin)).await?;
    while let Some(data) = copy.data_stream().next().await {
        client.feed(PgWireBackendMessage::CopyData(data?)).await?;
    }
    client.feed(PgWireBackendMessage::CopyDone(CopyDone::new())).await?;
    let tag = Tag::new("COPY").with_rows(count.load(Ordering::Relaxed));
    client.feed(PgWireBackendMessage::CommandComplete(tag.into())).await?;
    Ok(())
}

fn row_of(row: &DataRow, head: &[u8], form: &CopyForm) -> Bytes {
    let mut out = BytesMut::with_capacity(head.len() + row.data.len() + 16);
    out.put_slice(head);
    if form.format == CopyFormat::Binary {
        // Both formats encode a row alike: each value as its length and its bytes.
        out.put_i16(row.field_count);
        out.put_slice(&row.data);
    } else {
        let mut rest = Rest(&row.data);
        put_line((0..row.field_count).map(|_| rest.value().flatten()), form, &mut out);
    }
    out.freeze()
}

fn put_line<'a>(values: impl Iterator<Item = Option<&'a [u8]>>, form: &CopyForm, out: &mut BytesMut) {
    for (place, value) in values.enumerate() {
        if place > 0 {
            out.put_u8(form.delimiter);
        }
        match (value, form.format) {
            (None, _) => out.put_slice(form.null.as_bytes()),
            (Some(value), CopyFormat::Csv) => out.put_slice(&csv_cell(value, form.delimiter, form.null.as_bytes())),
            (Some(value), _) => put_escaped(value, form.delimiter, out),
        }
    }
    out.put_u8(b'\n');
}

/// Writes a value in PostgreSQL's text form, with escapes.
fn put_escaped(value: &[u8], delimiter: u8, out: &mut BytesMut) {
    for &byte in value {
        let letter = match byte {
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\t' => b't',
            b'\r' => b'r',
            0x8 => b'b',
            0xc => b'f',
            0xb => b'v',
            byte if byte == delimiter => byte,
            byte => {
                out.put_u8(byte);
                continue;
            }
        };
        out.put_slice(&[b'\\', letter]);
    }
}

#[cfg(test)]
#[path = "copy_out_tests.rs"]
mod tests;
