//! Writes rows to a Parquet or CSV file, for `COPY ... TO` and `fleetdb export`.

use crate::answer::Answer;
use crate::transfer::csv::{csv_header, csv_rows};
use crate::transfer::json::{distinct_names, with_names};
use fleetdb_engine::{Error, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// With a header. NULL is an empty cell, the empty text is `""`.
    Csv,
    /// Compressed with zstd.
    Parquet,
}

impl FileFormat {
    /// The format for a file's extension.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if it ends in neither .csv nor
    /// .parquet.
    pub fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(Error::invalid(format!("{}: the file must end in .parquet or .csv", path.display()))),
        }
    }
}

/// Writes an answer's rows to a new file and returns their number. Calls `progress` with the number
/// of rows in each batch. On error, no file is left behind.
///
/// # Errors
/// The file exists or cannot be written, or the query fails while it runs.
pub fn write_file(answer: Answer, path: &Path, format: FileFormat, progress: impl FnMut(u64)) -> Result<u64> {
    let what = format!("write {}", path.display());
    let file = File::create_new(path).map_err(|e| Error::io(&what, &e))?;
    let written = write_rows(answer, file, format, &what, progress);
    if written.is_err() {
        std::fs::remove_file(path).map_err(|e| Error::io(format!("remove {}", path.display()), &e))?;
    }
    written
}

/// Writes an answer's rows to an output and returns their number. `what` begins its errors, as in `write
/// rows.csv`. `progress` is as for [`write_file`].
///
/// # Errors
/// The output cannot be written, or the query fails while it runs.
pub fn write_rows(
    answer: Answer,
    out: impl Write + Send,
    format: FileFormat,
    what: &str,
    mut progress: impl FnMut(u64),
) -> Result<u64> {
    let failed = |e: &dyn std::fmt::Display| Error::invalid(format!("{what}: {e}"));
    let schema = answer.schema().ok_or_else(|| Error::invalid("the statement gives no rows to write"))?;
    // Readers find columns by name, so the names must be distinct.
    let schema = distinct_names(&schema);
    let mut out = BufWriter::new(out);
    let mut rows = 0;
    let mut count = |batch: &arrow::array::RecordBatch| {
        rows += batch.num_rows() as u64;
        progress(batch.num_rows() as u64);
    };
    match format {
        FileFormat::Csv => {
            let mut lines = Vec::new();
            csv_header(&schema, &mut lines);
            for batch in answer {
                let batch = batch?;
                csv_rows(&batch, &mut lines).map_err(|e| failed(&e))?;
                out.write_all(&lines).map_err(|e| failed(&e))?;
                lines.clear();
                count(&batch);
            }
            out.write_all(&lines).and_then(|()| out.flush()).map_err(|e| failed(&e))?;
        }
        FileFormat::Parquet => {
            let zstd = Compression::ZSTD(ZstdLevel::default());
            let properties = WriterProperties::builder().set_compression(zstd).build();
            let mut writer =
                ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties)).map_err(|e| failed(&e))?;
            for batch in answer {
                let batch = with_names(batch?, &schema)?;
                writer.write(&batch).map_err(|e| failed(&e))?;
                count(&batch);
            }
            writer.into_inner().map_err(|e| failed(&e))?.flush().map_err(|e| failed(&e))?;
        }
    }
    Ok(rows)
}
