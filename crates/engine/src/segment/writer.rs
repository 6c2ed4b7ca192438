//! Writes a segment: rows that are already in order become a Parquet file.
//!
//! 1. Row group by row group, column by column, values are asked of a [`SortedRows`].
//! 2. [`pages`](super::pages) turns them into pages, which go to the file at once.
//! 3. What each container's values amount to is gathered on the way.
//! 4. The container index and the footer follow; the file is synced. The caller renames it.

use super::index::{self, Amounts, Entry};
use super::pages::{ColumnFacts, ColumnWriter};
use super::{FACTS_KEY, FORMAT_VERSION, Facts, PAGE_ROWS, ROW_GROUP_ROWS, StoredColumn};
use crate::error::{Error, Result};
use crate::ids::Generation;
use crate::io::{Storage, WriteFile};
use crate::lane::Lane;
use crate::pool::Pool;
use crate::schema::{ColumnType, Role, TableSchema};
use parquet::arrow::{ArrowSchemaConverter, encode_arrow_schema};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, OffsetIndexBuilder, ParquetMetaData, ParquetMetaDataBuilder,
    ParquetMetaDataWriter, RowGroupMetaData, SortingColumn,
};
use parquet::file::writer::TrackedWrite;
use parquet::schema::types::SchemaDescPtr;
use std::io::Write;
use std::sync::Arc;

/// A column's values for a stretch of rows.
pub(crate) enum ColumnValues<'a> {
    Raw(Lane),
    /// Text as numbers of entries in a pool.
    Text(Lane, &'a Pool),
}

/// Rows in (key, time) order, each primary key once.
pub(crate) trait SortedRows {
    /// The values of a column (a place in the table) for `len` rows from `start`.
    fn values(&self, column: usize, start: usize, len: usize) -> ColumnValues<'_>;
}

/// The file as the `parquet` crate writes to it; keeps the engine's own error.
struct Output {
    file: Box<dyn WriteFile>,
    error: Option<Error>,
    /// CRC32C of everything written.
    crc: u32,
}

impl std::io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.file.write(bytes).map(|()| bytes.len()).map_err(|error| {
            let message = error.to_string();
            self.error = Some(error);
            std::io::Error::other(message)
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes the file `name` and syncs it.
///
/// `entries` are the containers of the rows, in order. Gives what the footer says and the CRC32C of the whole
/// file.
pub(crate) fn write(
    storage: &dyn Storage,
    name: &str,
    schema: &TableSchema,
    generation: Generation,
    entries: &[Entry],
    source: &dyn SortedRows,
) -> Result<(Facts, u32)> {
    let arrow = schema.to_arrow();
    let parquet =
        Arc::new(ArrowSchemaConverter::new().with_coerce_types(false).schema_root(&schema.name).convert(&arrow)?);
    let mut output = Output { file: storage.create(name)?, error: None, crc: 0 };
    let written = write_to(&mut output, schema, &parquet, generation, entries, source, &arrow);
    if let Some(error) = output.error {
        return Err(error);
    }
    let facts = written?;
    output.file.sync()?;
    Ok((facts, output.crc))
}

fn write_to(
    output: &mut Output,
    schema: &TableSchema,
    parquet: &SchemaDescPtr,
    generation: Generation,
    entries: &[Entry],
    source: &dyn SortedRows,
    arrow: &arrow::datatypes::Schema,
) -> Result<Facts> {
    let rows: usize = entries.iter().map(|entry| entry.rows).sum();
    let mut out = TrackedWrite::new(output);
    put(&mut out, b"PAR1")?;
    let mut pages = Vec::new();
    let mut amounts: Vec<(usize, Vec<Amounts>)> = numeric_fields(schema)
        .map(|column| {
            let none = Amounts::none(schema.columns[column].column_type);
            (column, vec![none; entries.len()])
        })
        .collect();
    let mut column_writer = ColumnWriter::new()?;
    let mut groups = Vec::new();
    let (mut first_entry, mut into_entry) = (0, 0);
    for start in (0..rows).step_by(ROW_GROUP_ROWS) {
        let len = ROW_GROUP_ROWS.min(rows - start);
        let mut chunks = Vec::with_capacity(schema.columns.len());
        let pieces = pieces(entries, &mut first_entry, &mut into_entry, len);
        for (place, column) in schema.columns.iter().enumerate() {
            let values = source.values(place, start, len);
            if let (Some((_, amounts)), ColumnValues::Raw(lane)) =
                (amounts.iter_mut().find(|(column, _)| *column == place), &values)
            {
                add_amounts(amounts, &pieces, lane, column.column_type);
            }
            pages.clear();
            chunks.push(column_writer.write(column, values, out.bytes_written() as u64, &mut pages)?);
            put(&mut out, &pages)?;
        }
        groups.push((len, chunks));
    }
    let typed: Vec<(ColumnType, Vec<Amounts>)> =
        amounts.into_iter().map(|(column, amounts)| (schema.columns[column].column_type, amounts)).collect();
    let index_start = out.bytes_written() as u64;
    let mut index_bytes = Vec::new();
    let index_offset = index::write(entries, &typed, index_start, &mut index_bytes)?;
    let directory = &index_bytes[(index_offset - index_start) as usize..];
    let facts = Facts {
        version: FORMAT_VERSION,
        table: schema.id,
        generation,
        rows: rows as u64,
        containers: entries.len() as u64,
        times: (
            entries.iter().map(|entry| entry.times.0).min().unwrap_or(0),
            entries.iter().map(|entry| entry.times.1).max().unwrap_or(0),
        ),
        columns: schema
            .columns
            .iter()
            .map(|column| StoredColumn { id: column.id, column_type: column.column_type })
            .collect(),
        index_offset,
        index_bytes: directory.len() as u64,
        index_crc: crc32c::crc32c(directory),
    };
    put(&mut out, &index_bytes)?;
    let metadata = footer(schema, parquet, &facts, groups, encode_arrow_schema(arrow))?;
    ParquetMetaDataWriter::new_with_tracked(out, &metadata).finish()?;
    Ok(facts)
}

fn put(out: &mut TrackedWrite<&mut Output>, bytes: &[u8]) -> Result<()> {
    out.write_all(bytes).map_err(|e| Error::io("write a segment", &e))
}

/// The columns whose amounts are kept, as places in the table, in order.
pub(crate) fn numeric_fields(schema: &TableSchema) -> impl Iterator<Item = usize> {
    schema
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| column.role == Role::Field && column.column_type.is_numeric())
        .map(|(place, _)| place)
}

/// The parts of containers in the next `len` rows: (container, rows).
fn pieces(entries: &[Entry], entry: &mut usize, into: &mut usize, len: usize) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    let mut left = len;
    while left > 0 && *entry < entries.len() {
        let take = (entries[*entry].rows - *into).min(left);
        pieces.push((*entry, take));
        left -= take;
        *into += take;
        if *into == entries[*entry].rows {
            (*entry, *into) = (*entry + 1, 0);
        }
    }
    pieces
}

fn add_amounts(amounts: &mut [Amounts], pieces: &[(usize, usize)], lane: &Lane, column_type: ColumnType) {
    let mut row = 0;
    for &(container, rows) in pieces {
        let total = &mut amounts[container];
        if let (Some(values), 0) = (lane.as_plain(), lane.nulls().nulls()) {
            total.add_all(&values[row..row + rows], column_type);
        } else {
            let values = (row..row + rows).filter_map(|row| lane.get(row));
            values.for_each(|value| total.add(value, column_type));
        }
        row += rows;
    }
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
        serde_json::to_string(facts).map_err(|e| Error::bug(format!("segment facts do not serialize: {e}")))?;
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
                .set_num_values(rows as i64)
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
                locations.append_row_count(PAGE_ROWS.min(rows - number * PAGE_ROWS) as i64);
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
