//! E2's rows as line protocol over HTTP.

use super::Served;
use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampNanosecondType};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::workload::cpu::{Cpu, FIELDS, TAGS};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Lines per request.
const REQUEST_LINES: usize = 5_000;

/// E2's rows as lines, one text per request.
fn texts(rows: usize) -> Outcome<Vec<String>> {
    let mut cpu = Cpu::edge();
    let mut texts = Vec::new();
    let mut text = String::new();
    for number in 1..=rows / fleetdb_bench_core::workload::cpu::BATCH_ROWS {
        let batch = cpu.batch()?;
        let column = |name: &str| batch.column_by_name(name).ok_or("a column is missing");
        let tags = TAGS.iter().map(|tag| Ok(column(tag)?.as_string::<i32>())).collect::<Outcome<Vec<_>>>()?;
        let fields = FIELDS.iter().map(|f| Ok(column(f)?.as_primitive::<Int64Type>())).collect::<Outcome<Vec<_>>>()?;
        let times = column("ts")?.as_primitive::<TimestampNanosecondType>();
        for row in 0..batch.num_rows() {
            text += "cpu";
            for (name, tag) in TAGS.iter().zip(&tags) {
                write!(text, ",{name}={}", tag.value(row))?;
            }
            for (place, (name, field)) in FIELDS.iter().zip(&fields).enumerate() {
                let before = if place == 0 { ' ' } else { ',' };
                write!(text, "{before}{name}={}i", field.value(row))?;
            }
            writeln!(text, " {}", times.value(row))?;
        }
        if number % (REQUEST_LINES / fleetdb_bench_core::workload::cpu::BATCH_ROWS) == 0 {
            texts.push(std::mem::take(&mut text));
        }
    }
    Ok(texts)
}

pub(super) fn run(server: &Served, rows: usize) -> Outcome<()> {
    const CONNECTIONS: usize = 4;
    let texts = Arc::new(texts(rows)?);
    let next = Arc::new(AtomicUsize::new(0));
    let begin = Instant::now();
    let writers = (0..CONNECTIONS).map(|_| {
        let (texts, next, address) = (Arc::clone(&texts), Arc::clone(&next), server.http);
        std::thread::spawn(move || -> std::result::Result<(), String> {
            let failed = |e: std::io::Error| e.to_string();
            let mut stream = TcpStream::connect(address).map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            while let Some(text) = texts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let head = format!("POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", text.len());
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes())).map_err(failed)?;
                // A 204 response has no body and is shorter than this.
                let mut answer = [0; 1024];
                let read = stream.read(&mut answer).map_err(failed)?;
                if !answer[..read].starts_with(b"HTTP/1.1 204") {
                    return Err(String::from_utf8_lossy(&answer[..read]).into_owned());
                }
            }
            Ok(())
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.join().map_err(|_| "a writer ended")??;
    }
    let rows = texts.len() * REQUEST_LINES;
    let rate = rows as f64 / begin.elapsed().as_secs_f64();
    println!(
        "E2's rows as line protocol over HTTP: {rows} rows, {REQUEST_LINES} a request, {CONNECTIONS} connections: {rate:.0} rows/s"
    );
    Ok(())
}
