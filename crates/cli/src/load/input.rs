//! The file to load: its format, its decompression, and the progress of reading it.

use crate::io_error;
use crate::progress::bar;
use flate2::read::MultiGzDecoder;
use fleetdb_engine::{Error, Result};
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FileFormat {
    /// InfluxDB line protocol
    Lines,
    /// CSV with a header
    Csv,
    /// Parquet
    Parquet,
}

/// An opened and decompressed file whose reader moves a progress bar.
pub struct Input {
    pub name: String,
    pub reader: Box<dyn BufRead>,
    pub progress: ProgressBar,
}

/// The format given, or else the one that the file name implies.
pub fn format_of(file: &Path, given: Option<FileFormat>) -> Result<FileFormat> {
    if let Some(format) = given {
        return Ok(format);
    }
    let name = file.to_string_lossy();
    let plain = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
    match plain.rsplit_once('.').map(|(_, ending)| ending) {
        Some("lp" | "line" | "lines" | "influx") => Ok(FileFormat::Lines),
        Some("csv") => Ok(FileFormat::Csv),
        Some("parquet") => Ok(FileFormat::Parquet),
        _ => Err(Error::invalid(format!(
            "{name}: unknown file extension (known are .lp, .csv and .parquet): use --format"
        ))),
    }
}

/// Opens a file or standard input (`-`).
pub fn open(file: &Path) -> Result<Input> {
    let name = file.display().to_string();
    let progress = bar(0, "loading", "bytes");
    let raw: Box<dyn Read> = if name == "-" {
        Box::new(std::io::stdin())
    } else {
        let opened = File::open(file).map_err(|e| io_error(format_args!("could not open {name}"), &e))?;
        progress.set_length(opened.metadata().map_or(0, |metadata| metadata.len()));
        Box::new(opened)
    };
    let mut raw = BufReader::with_capacity(1 << 20, progress.wrap_read(raw));
    // The first bytes tell the compression, whatever the file name says.
    let head = raw.fill_buf().map_err(|e| io_error(format_args!("could not read {name}"), &e))?;
    let reader: Box<dyn BufRead> = if head.starts_with(&[0x1f, 0x8b]) {
        Box::new(BufReader::with_capacity(1 << 20, MultiGzDecoder::new(raw)))
    } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder =
            zstd::Decoder::with_buffer(raw).map_err(|e| io_error(format_args!("could not read {name}"), &e))?;
        Box::new(BufReader::with_capacity(1 << 20, decoder))
    } else {
        Box::new(raw)
    };
    Ok(Input { name, reader, progress })
}
