//! The segment writer: writes sorted rows to a Parquet file in bounded memory.
//!
//! 1. It reads values from a [`SortedRows`], one row group at a time ([`SegmentWriter::group`]) and
//!    within it one column at a time.
//! 2. [`pages`](super::pages) turns them into pages, which are written at once and synced in steps.
//! 3. Meanwhile the container index collects containers, sums and last rows. Finished blocks are
//!    kept.
//! 4. [`SegmentWriter::finish`] appends the container index and the footer and syncs the file. The
//!    caller renames it.

use super::encoding::parquet_type;
use super::index::{Entry, IndexWriter};
use super::page_output::PageOutput;
use super::pages::{ColumnFacts, ColumnValues, ColumnWriter};
use super::{FACTS_KEY, FORMAT_VERSION, Facts, StoredColumn};
use crate::column_type::{ArrayElement, ColumnType, UUID_BYTES};
use crate::error::{Error, Result};
use crate::ids::Generation;
use crate::io::{Storage, WriteFile};
use crate::schema::{Role, TableSchema};
use arrow::datatypes::Schema;
use parking_lot::Mutex;
use parquet::arrow::{ArrowSchemaConverter, encode_arrow_schema};
use parquet::basic::{LogicalType, Repetition};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, OffsetIndexBuilder, ParquetMetaData, ParquetMetaDataBuilder,
    ParquetMetaDataWriter, RowGroupMetaData, SortingColumn,
};
use parquet::file::writer::TrackedWrite;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type};
use std::io::Write;
use std::sync::Arc;

/// Rows in (key, time) order, with each primary key once.
pub(crate) trait SortedRows {
    /// The values of a column (by its index in the table) for `len` rows from `start`.
    fn values(&self, column: usize, start: usize, len: usize) -> Result<ColumnValues<'_>>;
}

/// Bytes that are written between two syncs: a commit's sync of the log waits for no more than these
/// to reach the disk.
const SYNC_BYTES: u64 = 2 << 20;

/// The output file for the `parquet` crate; keeps the engine's own error.
struct Output {
    file: Box<dyn WriteFile>,
    error: Option<Error>,
    /// CRC32C of everything written.
    crc: u32,
    bytes: u64,
}

impl Output {
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        while !bytes.is_empty() {
            let to_sync = (SYNC_BYTES - self.bytes % SYNC_BYTES) as usize;
            let (step, rest) = bytes.split_at(bytes.len().min(to_sync));
            self.file.write(step)?;
            self.bytes += step.len() as u64;
            if step.len() == to_sync {
                self.file.sync()?;
            }
            bytes = rest;
        }
        Ok(())
    }
}

/// A handle that the `parquet` crate can own.
struct Handle(Arc<Mutex<Output>>);

impl std::io::Write for Handle {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut output = self.0.lock();
        output.write(bytes).map(|()| bytes.len()).map_err(|error| {
            let message = error.to_string();
            output.error = Some(error);
            std::io::Error::other(message)
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A segment being written.
pub(crate) struct SegmentWriter {
    schema: Arc<TableSchema>,
    arrow: Schema,
    parquet: SchemaDescPtr,
    generation: Generation,
    output: Arc<Mutex<Output>>,
    out: TrackedWrite<Handle>,
    columns: ColumnWriter,
    groups: Vec<(usize, Vec<ColumnFacts>)>,
    /// The fields, as indexes into the table's columns.
    fields: Vec<usize>,
    index: IndexWriter,
    pages: Vec<u8>,
}

impl SegmentWriter {
    /// Creates the file `name`.
    pub(crate) fn create(
        storage: &dyn Storage,
        name: &str,
        schema: &Arc<TableSchema>,
        generation: Generation,
    ) -> Result<Self> {
        let schema = &Arc::new(schema.with_nullable_fields());
        let arrow = Arc::unwrap_or_clone(schema.to_arrow());
        let parquet = Arc::new(parquet_schema(schema, &arrow)?);
        let places = 0..schema.columns.len();
        let fields: Vec<usize> = places.filter(|&place| schema.columns[place].role == Role::Field).collect();
        let index = IndexWriter::new(fields.iter().map(|&place| schema.columns[place].column_type))?;
        let output = Arc::new(Mutex::new(Output { file: storage.create(name)?, error: None, crc: 0, bytes: 0 }));
        let mut writer = Self {
            schema: Arc::clone(schema),
            arrow,
            parquet,
            generation,
            out: TrackedWrite::new(Handle(Arc::clone(&output))),
            output,
            columns: ColumnWriter::new()?,
            groups: Vec::new(),
            fields,
            index,
            pages: Vec::new(),
        };
        writer.put(b"PAR1")?;
        Ok(writer)
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.out.bytes_written() as u64
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        write_to(&mut self.out, bytes).map_err(|error| self.failed(error))
    }

    /// Returns the storage's own error, if any, instead of the `parquet` crate's version of it.
    fn failed(&mut self, error: Error) -> Error {
        self.output.lock().error.take().unwrap_or(error)
    }

    /// Writes a row group: the rows `start` to `start + len` of `source`. `entries` are their
    /// containers, in order. The first may continue the previous group's last container.
    pub(crate) fn group(&mut self, entries: &[Entry], source: &dyn SortedRows, start: usize, len: usize) -> Result<()> {
        let schema = Arc::clone(&self.schema);
        let places = self.index.extend(entries);
        let mut chunks = Vec::with_capacity(schema.columns.len());
        for (place, column) in schema.columns.iter().enumerate() {
            let values = source.values(place, start, len)?;
            if let Ok(field) = self.fields.binary_search(&place) {
                match &values {
                    ColumnValues::Raw(lane) => self.index.add(field, &places, lane, &|_| Vec::new()),
                    ColumnValues::Text(lane, pool) => {
                        self.index.add(field, &places, lane, &|code| pool.get(code as u32).to_vec());
                    }
                }
            }
            let (at, out) = (self.bytes(), &mut self.out);
            let mut write = |bytes: &[u8]| write_to(out, bytes);
            let mut pages = PageOutput::new(at, &mut self.pages, &mut write);
            let written = self.columns.write(column, values, &mut pages);
            let written = written.and_then(|facts| pages.finish().map(|()| facts));
            chunks.push(written.map_err(|error| self.failed(error))?);
        }
        self.groups.push((len, chunks));
        self.index.write_full()
    }

    /// Writes the container index and the footer, and syncs the file. Returns the footer's facts,
    /// the CRC32C of the whole file, and its length.
    pub(crate) fn finish(mut self) -> Result<(Facts, u32, u64)> {
        let offset = self.bytes();
        let mut index_bytes = Vec::new();
        let index = std::mem::replace(&mut self.index, IndexWriter::new(std::iter::empty())?);
        let index = index.finish(offset, &mut index_bytes)?;
        self.put(&index_bytes)?;
        let column = |column: &crate::schema::Column| StoredColumn {
            id: column.id,
            column_type: column.column_type,
            role: column.role,
        };
        let facts = Facts {
            version: FORMAT_VERSION,
            table: self.schema.id,
            generation: self.generation,
            rows: index.rows,
            containers: index.containers,
            times: index.times,
            columns: self.schema.columns.iter().map(column).collect(),
            index_offset: index.directory_offset,
            index_bytes: index.directory_bytes,
            index_crc: index.directory_crc,
        };
        let groups = std::mem::take(&mut self.groups);
        let metadata = footer(&self.schema, &self.parquet, &facts, groups, encode_arrow_schema(&self.arrow))?;
        let output = Arc::clone(&self.output);
        ParquetMetaDataWriter::new_with_tracked(self.out, &metadata).finish().map_err(|error| {
            let own = output.lock().error.take();
            own.unwrap_or_else(|| error.into())
        })?;
        let mut output = output.lock();
        // The `parquet` crate writes its buffer on drop, which cannot report an error.
        if let Some(error) = output.error.take() {
            return Err(error);
        }
        output.file.sync()?;
        Ok((facts, output.crc, output.bytes))
    }
}

fn write_to(out: &mut TrackedWrite<Handle>, bytes: &[u8]) -> Result<()> {
    out.write_all(bytes).map_err(|e| Error::io("could not write a segment", &e))
}

/// The file's schema. Arrow's converter does not know UUID and JSON without its extension types, names
/// the elements of arrays in its own way, and stores decimal numbers of one digit in 8 bytes.
fn parquet_schema(schema: &TableSchema, arrow: &Schema) -> Result<SchemaDescriptor> {
    let converted = ArrowSchemaConverter::new().with_coerce_types(false).schema_root(&schema.name).convert(arrow)?;
    let mut fields = converted.root_schema().get_fields().to_vec();
    for (field, column) in fields.iter_mut().zip(&schema.columns) {
        let logical_type = match column.column_type {
            ColumnType::Array(element) => {
                *field = Arc::new(list_type(&column.name, element)?);
                continue;
            }
            ColumnType::Uuid => LogicalType::Uuid,
            ColumnType::Json | ColumnType::Jsonb => LogicalType::Json,
            ColumnType::Decimal { precision, scale } => LogicalType::decimal(scale.into(), precision.into()),
            _ => continue,
        };
        let builder = Type::primitive_type_builder(&column.name, parquet_type(column.column_type))
            .with_repetition(field.get_basic_info().repetition())
            .with_logical_type(Some(logical_type));
        let builder = match column.column_type {
            ColumnType::Uuid => builder.with_length(UUID_BYTES as i32),
            ColumnType::Decimal { precision, scale } => {
                builder.with_precision(precision.into()).with_scale(scale.into())
            }
            _ => builder,
        };
        *field = Arc::new(builder.build()?);
    }
    let root = Type::group_type_builder(&schema.name).with_fields(fields).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

/// A list with three levels (Apache Parquet format, "LIST").
fn list_type(name: &str, element: ArrayElement) -> Result<Type> {
    let logical_type = match element {
        ArrayElement::Utf8 => Some(LogicalType::String),
        ArrayElement::Int16 => Some(LogicalType::integer(16, true)),
        _ => None,
    };
    let elements = Type::primitive_type_builder("element", parquet_type(element.column_type()))
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical_type);
    let list = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![Arc::new(elements.build()?)]);
    let group = Type::group_type_builder(name)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(vec![Arc::new(list.build()?)]);
    Ok(group.build()?)
}

fn footer(
    schema: &TableSchema,
    parquet: &SchemaDescPtr,
    facts: &Facts,
    groups: Vec<(usize, Vec<ColumnFacts>)>,
    arrow_schema: String,
) -> Result<ParquetMetaData> {
    let sorting: Vec<SortingColumn> = schema
        .key
        .iter()
        .chain(&schema.time)
        .map(|&place| SortingColumn { column_idx: place as i32, descending: false, nulls_first: true })
        .collect();
    let facts_json =
        serde_json::to_string(facts).map_err(|e| Error::bug(format!("segment metadata cannot be serialized: {e}")))?;
    let file = FileMetaData::new(
        2,
        facts.rows as i64,
        Some(concat!("fleetdb version ", env!("CARGO_PKG_VERSION")).to_owned()),
        Some(vec![
            KeyValue::new("ARROW:schema".to_owned(), arrow_schema),
            KeyValue::new(FACTS_KEY.to_owned(), facts_json),
        ]),
        Arc::clone(parquet),
        None,
    );
    let (mut row_groups, mut column_indexes, mut offset_indexes) = (Vec::new(), Vec::new(), Vec::new());
    for (ordinal, (rows, chunks)) in groups.into_iter().enumerate() {
        let mut builder = RowGroupMetaData::builder(Arc::clone(parquet))
            .set_num_rows(rows as i64)
            .set_ordinal(i16::try_from(ordinal).unwrap_or(i16::MAX))
            .set_sorting_columns(Some(sorting.clone()))
            .set_total_byte_size(chunks.iter().map(|chunk| chunk.plain_bytes).sum());
        let (mut columns, mut offsets) = (Vec::new(), Vec::new());
        for (place, chunk) in chunks.into_iter().enumerate() {
            let metadata = ColumnChunkMetaData::builder(parquet.column(place))
                .set_encodings(chunk.encodings.clone())
                .set_num_values(chunk.values as i64)
                .set_compression(parquet::basic::Compression::ZSTD(Default::default()))
                .set_total_compressed_size(chunk.stored_bytes)
                .set_total_uncompressed_size(chunk.plain_bytes)
                .set_data_page_offset(chunk.pages.first().map_or(0, |page| page.0 as i64))
                .set_dictionary_page_offset(chunk.dictionary.map(|(offset, _)| offset as i64));
            let metadata = match chunk.statistics {
                Some(statistics) => metadata.set_statistics(statistics),
                None => metadata,
            };
            builder = builder.add_column_metadata(metadata.build()?);
            let mut locations = OffsetIndexBuilder::new();
            for (number, &(offset, bytes)) in chunk.pages.iter().enumerate() {
                locations.append_offset_and_size(offset as i64, bytes as i32);
                locations.append_row_count(chunk.page_rows.min(rows - number * chunk.page_rows) as i64);
            }
            offsets.push(locations.build());
            columns.push(chunk.column_index);
        }
        row_groups.push(builder.build()?);
        column_indexes.push(columns);
        offset_indexes.push(offsets);
    }
    Ok(ParquetMetaDataBuilder::new(file)
        .set_row_groups(row_groups)
        .set_column_index(Some(column_indexes))
        .set_offset_index(Some(offset_indexes))
        .build())
}
