//! `read_parquet('rows.parquet')` and `read_csv('rows.csv')` in FROM: the rows of a file. `FROM
//! 'rows.parquet'` is short for them.

use crate::transfer::export::FileFormat;
use crate::transfer::files::Files;
use arrow::array::RecordBatch;
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::prelude::SessionContext;
use fleetdb_engine::{Code, Error};
use fleetdb_functions::errors::query_error;
use fleetdb_functions::names::{READ_CSV, READ_PARQUET};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the function that reads files of a format.
pub(crate) fn function_for(format: FileFormat) -> &'static str {
    match format {
        FileFormat::Parquet => READ_PARQUET,
        FileFormat::Csv => READ_CSV,
    }
}

/// The rows of a CSV file that its types are taken from.
const SAMPLED_ROWS: usize = 10_000;
const BATCH_ROWS: usize = 8_192;

/// Registers the functions with a session, for these files.
pub(crate) fn register(context: &SessionContext, files: &Files) {
    for format in [FileFormat::Parquet, FileFormat::Csv] {
        context.register_udtf(function_for(format), Arc::new(ReadFile { format, files: files.clone() }));
    }
}

#[derive(Debug)]
struct ReadFile {
    format: FileFormat,
    files: Files,
}

impl TableFunctionImpl for ReadFile {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let text = |expr: &Expr| match expr {
            Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_owned),
            _ => None,
        };
        let texts: Option<Vec<String>> = args.exprs().iter().map(text).collect();
        let (path, delimiter) = match (texts.as_deref(), self.format) {
            (Some([path]), _) => (path, b','),
            (Some([path, delimiter]), FileFormat::Csv) if delimiter.len() == 1 => (path, delimiter.as_bytes()[0]),
            _ => {
                let usage = match self.format {
                    FileFormat::Parquet => "read_parquet('file')",
                    FileFormat::Csv => "read_csv('file' [, 'delimiter'])",
                };
                return Err(query_error(Error::new(Code::UndefinedFunction, format!("use {usage}, with constants"))));
            }
        };
        self.files.check(Path::new(path)).map_err(query_error)?;
        let file = FileRows::open(Path::new(path), self.format, delimiter);
        Ok(Arc::new(file.map_err(|error| query_error(error.context(function_for(self.format))))?))
    }
}

/// A file as a table.
#[derive(Clone, Debug)]
struct FileRows {
    path: PathBuf,
    format: FileFormat,
    delimiter: u8,
    schema: SchemaRef,
    /// The columns to read; `None` for all.
    columns: Option<Vec<usize>>,
}

impl FileRows {
    /// Reads the columns' names and types.
    fn open(path: &Path, format: FileFormat, delimiter: u8) -> fleetdb_engine::Result<Self> {
        let what = format!("read {}", path.display());
        let wrong = |e: &dyn std::fmt::Display| Error::invalid(format!("{}: {e}", path.display()));
        let file = File::open(path).map_err(|e| Error::io(what, &e))?;
        let schema = match format {
            FileFormat::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| wrong(&e))?;
                Arc::clone(builder.schema())
            }
            FileFormat::Csv => {
                let format = Format::default().with_header(true).with_delimiter(delimiter);
                let sampled = format.infer_schema(BufReader::new(file), Some(SAMPLED_ROWS));
                Arc::new(sampled.map_err(|e| wrong(&e))?.0)
            }
        };
        Ok(Self { path: path.to_owned(), format, delimiter, schema, columns: None })
    }

    /// The columns that are read.
    fn projected(&self) -> Result<SchemaRef> {
        match &self.columns {
            None => Ok(Arc::clone(&self.schema)),
            Some(columns) => Ok(Arc::new(self.schema.project(columns)?)),
        }
    }

    /// The file's rows.
    fn rows(&self) -> Result<Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send>> {
        let file = File::open(&self.path)?;
        match self.format {
            FileFormat::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(BATCH_ROWS);
                let columns = self.columns.clone().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
                let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
                let read = builder.with_projection(mask).build()?;
                // The reader keeps the file's order of columns.
                let mut sorted = columns.clone();
                sorted.sort_unstable();
                let places: Vec<usize> =
                    columns.iter().filter_map(|column| sorted.iter().position(|other| other == column)).collect();
                Ok(Box::new(read.map(move |rows| rows?.project(&places))))
            }
            FileFormat::Csv => {
                let builder = ReaderBuilder::new(Arc::clone(&self.schema)).with_header(true);
                let builder = builder.with_delimiter(self.delimiter).with_batch_size(BATCH_ROWS);
                let builder = match &self.columns {
                    Some(columns) => builder.with_projection(columns.clone()),
                    None => builder,
                };
                Ok(Box::new(builder.build(file)?))
            }
        }
    }
}

#[async_trait::async_trait]
impl TableProvider for FileRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = Self { columns: projection.cloned(), ..self.clone() };
        let schema = rows.projected()?;
        let scan = Arc::new(Scan { rows, schema: Arc::clone(&schema) });
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![scan], None, [], false, limit)?))
    }
}

/// A scan of a file.
#[derive(Debug)]
struct Scan {
    rows: FileRows,
    schema: SchemaRef,
}

impl PartitionStream for Scan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let path = self.rows.path.display().to_string();
        let wrong = move |reason: String| query_error(Error::new(Code::InvalidText, format!("{path}: {reason}")));
        let rows: Box<dyn Iterator<Item = Result<RecordBatch>> + Send> = match self.rows.rows() {
            Ok(rows) => Box::new(rows.map(move |rows| rows.map_err(|error| wrong(error.to_string())))),
            Err(error) => Box::new(std::iter::once(Err(wrong(error.to_string())))),
        };
        let rows = futures::stream::iter(rows);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}
