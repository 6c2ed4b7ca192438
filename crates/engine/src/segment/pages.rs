//! The pages of one column in one row group (Parquet's "column chunk").
//!
//! 1. The encoding is chosen by trial: the first and the middle page are encoded with every
//!    candidate and compressed. The smallest wins, or one that is slightly larger but much faster
//!    to read ([`TIGHT_SLACK_VALUES`]). Text uses a dictionary or is plain.
//! 2. Each page ([`division`](super::division)) is encoded and written with its CRC-32. It is
//!    compressed with zstd if that saves a sixteenth. Its minimum and maximum go to the column index.

use super::amounts::{as_float, as_integer};
use super::compression::compressor;
use super::division::{Pages, Shape};
use super::encoding::{self, Physical};
use super::lists::Lists;
use super::page_header::{DataHeader, Encoding, PageHeader};
use super::page_output::PageOutput;
use crate::column_type::ColumnType;
use crate::error::{Error, Result};
use crate::ids::ColumnId;
use crate::lane::Lane;
use crate::pool::Pool;
use crate::schema::Column;
use hashbrown::HashMap;
use parquet::basic::Encoding as ParquetEncoding;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::metadata::ColumnIndexBuilder;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::Statistics;
use std::ops::Deref;
use zstd::zstd_safe::CParameter;

/// Maximum entries of a dictionary.
const MAX_DICTIONARY: usize = 1 << 16;
/// Maximum bytes of a dictionary.
const MAX_DICTIONARY_BYTES: usize = 4 << 20;
/// Bytes of a text's length in plain encoding.
const LENGTH_BYTES: usize = 4;
/// Minima and maxima longer than this are left out of the statistics.
const MAX_STATISTICS_BYTES: usize = 64;
/// Differences in minimal bits decode several times as fast as whole bytes under zstd, most of all
/// where many of them are equal, as in times. They may cost one byte more per this many values.
const TIGHT_SLACK_VALUES: usize = 64;
/// The trial is repeated after this many row groups: a column's values seldom change their
/// character.
const TRIAL_GROUPS: usize = 8;
/// In noise, short matches cost more than the bytes they replace. Without them zstd only
/// entropy-codes. It looks for long ones only, and with the smallest table it finds few of these.
const NOISE_MIN_MATCH: u32 = 7;
const NOISE_HASH_LOG: u32 = 6;

/// A column's values for a range of rows.
pub(crate) enum ColumnValues<'a> {
    Raw(Lane),
    /// Text, as entry numbers in a pool.
    Text(Lane, Texts<'a>),
}

/// The pool that the codes refer to.
pub(crate) enum Texts<'a> {
    Borrowed(&'a Pool),
    Owned(Pool),
}

impl Deref for Texts<'_> {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        match self {
            Self::Borrowed(pool) => pool,
            Self::Owned(pool) => pool,
        }
    }
}

/// What the footer needs to know about a column.
pub(crate) struct ColumnFacts {
    pub(crate) dictionary: Option<(u64, usize)>,
    /// Rows per page; the last page may have fewer.
    pub(crate) page_rows: usize,
    /// Offset and length of each page, including its header.
    pub(crate) pages: Vec<(u64, usize)>,
    pub(crate) encodings: Vec<ParquetEncoding>,
    /// Number of values, with NULLs; in a column of arrays, of their elements.
    pub(crate) values: usize,
    pub(crate) stored_bytes: i64,
    pub(crate) plain_bytes: i64,
    pub(crate) statistics: Option<Statistics>,
    pub(crate) column_index: ColumnIndexMetaData,
}

/// Writes columns, and keeps buffers and contexts for reuse.
pub(crate) struct ColumnWriter {
    zstd: zstd::bulk::Compressor<'static>,
    /// For differences in whole bytes, which look like noise.
    zstd_for_noise: zstd::bulk::Compressor<'static>,
    body: Vec<u8>,
    /// For each column, the result of its last trial and the row groups since.
    trials: HashMap<ColumnId, (Vec<Form>, usize)>,
}

impl ColumnWriter {
    pub(crate) fn new() -> Result<Self> {
        let failed = |e: std::io::Error| Error::bug(format!("could not initialize zstd: {e}"));
        let (zstd, mut zstd_for_noise) = (compressor()?, compressor()?);
        for parameter in [CParameter::MinMatch(NOISE_MIN_MATCH), CParameter::HashLog(NOISE_HASH_LOG)] {
            zstd_for_noise.set_parameter(parameter).map_err(failed)?;
        }
        Ok(Self { zstd, zstd_for_noise, body: Vec::new(), trials: HashMap::new() })
    }

    /// Writes a column to `out`.
    pub(super) fn write(
        &mut self,
        column: &Column,
        values: ColumnValues<'_>,
        out: &mut PageOutput<'_>,
    ) -> Result<ColumnFacts> {
        let start = out.position();
        let physical = Physical::of(column.column_type);
        let (mut pages, texts) = match (column.column_type, values) {
            (_, ColumnValues::Raw(lane)) => (Pages::new(lane), None),
            (ColumnType::Array(element), ColumnValues::Text(lane, arrays)) => {
                let Lists { values, texts, levels } = Lists::new(&lane, &arrays, element)?;
                (Pages::of_lists(values, levels), texts.map(Texts::Owned))
            }
            (_, ColumnValues::Text(lane, texts)) => (Pages::new(lane), Some(texts)),
        };
        let values_type = match column.column_type {
            ColumnType::Array(element) => element.column_type(),
            other => other,
        };
        let pool = texts.as_deref();
        let mut dictionary = pool.and_then(|pool| text_dictionary(&pages.values, pool, physical));
        // A page of arrays is decoded to their elements, also those from a dictionary.
        if let Some(pool) = pool
            && (dictionary.is_none() || matches!(pages.shape, Shape::Lists(_)))
        {
            pages.divide_texts(pool);
        }
        let mut facts = ColumnFacts {
            dictionary: None,
            page_rows: pages.page_rows,
            pages: Vec::new(),
            encodings: vec![ParquetEncoding::RLE],
            values: 0,
            stored_bytes: 0,
            plain_bytes: 0,
            statistics: None,
            column_index: ColumnIndexMetaData::NONE,
        };
        if let Shape::Rows(nulls) = &pages.shape {
            self.statistics(column, (&pages, nulls.nulls()), pool, &mut facts)?;
        }
        let form = match (pool, &dictionary) {
            (Some(_), Some(_)) => Form::Dictionary,
            (Some(_), None) => Form::Plain,
            (None, _) => {
                let mut order = match self.trials.get_mut(&column.id) {
                    Some((order, age)) if *age < TRIAL_GROUPS => {
                        *age += 1;
                        order.clone()
                    }
                    _ => {
                        let order = self.trial(&pages, values_type);
                        self.trials.insert(column.id, (order.clone(), 1));
                        order
                    }
                };
                if order[0] == Form::Dictionary {
                    dictionary = raw_dictionary(&pages.values, physical);
                    if dictionary.is_none() {
                        order.remove(0);
                    }
                }
                order[0]
            }
        };
        let mut code_width = 0;
        if let (Some(dictionary), Form::Dictionary) = (dictionary, form) {
            pages.values = dictionary.codes;
            code_width = width_of(dictionary.entries.saturating_sub(1) as u64);
            let plain = self.page(Form::Plain, dictionary.entries, None, &[], &dictionary.bytes, out)?;
            facts.plain_bytes += plain as i64;
            facts.dictionary = Some((start, (out.position() - start) as usize));
            facts.encodings.push(ParquetEncoding::PLAIN);
        }
        let encoding = form.encoding();
        facts.encodings.push(match encoding {
            Encoding::Plain => ParquetEncoding::PLAIN,
            Encoding::DeltaBinaryPacked => ParquetEncoding::DELTA_BINARY_PACKED,
            Encoding::Dictionary => ParquetEncoding::RLE_DICTIONARY,
            Encoding::ByteStreamSplit => ParquetEncoding::BYTE_STREAM_SPLIT,
        });
        let mut row = 0;
        for number in 0..pages.ends.len() {
            let (rows, _) = pages.ends[number];
            let levels = pages.levels(row..row + rows, column.nullable);
            let values = pages.page(number);
            let mut body = std::mem::take(&mut self.body);
            body.clear();
            match (form, pool) {
                (Form::Dictionary, _) => {
                    body.push(code_width as u8);
                    encoding::put_hybrid(values, code_width, &mut body);
                }
                (_, Some(pool)) => values.iter().for_each(|&code| {
                    physical.put_bytes(&mut body, pool.get(code as u32));
                }),
                (form, None) => put_values(values, form, physical, &mut body),
            }
            let header = DataHeader {
                rows,
                nulls: levels.count - values.len(),
                encoding,
                definition_bytes: levels.bytes.len() - levels.repetition_bytes,
                repetition_bytes: levels.repetition_bytes,
                compressed: false,
            };
            let at = out.position();
            facts.values += levels.count;
            facts.plain_bytes += self.page(form, levels.count, Some(header), &levels.bytes, &body, out)? as i64;
            facts.pages.push((at, (out.position() - at) as usize));
            self.body = body;
            row += rows;
        }
        facts.stored_bytes = (out.position() - start) as i64;
        Ok(facts)
    }

    fn zstd(&mut self, form: Form) -> &mut zstd::bulk::Compressor<'static> {
        if form == Form::DeltaBytes { &mut self.zstd_for_noise } else { &mut self.zstd }
    }

    /// Writes one page and returns its uncompressed length.
    fn page(
        &mut self,
        form: Form,
        values: usize,
        mut data: Option<DataHeader>,
        levels: &[u8],
        body: &[u8],
        out: &mut PageOutput<'_>,
    ) -> Result<usize> {
        let compressed =
            self.zstd(form).compress(body).map_err(|e| Error::bug(format!("zstd compression failed: {e}")))?;
        // A dictionary page has no flag for compression and is always compressed.
        let stored: &[u8] = match &mut data {
            None => &compressed,
            Some(header) => {
                header.compressed = compressed.len() + body.len() / 16 < body.len();
                if header.compressed { &compressed } else { body }
            }
        };
        let mut crc = crc32fast::Hasher::new();
        crc.update(levels);
        crc.update(stored);
        let header = PageHeader {
            plain_bytes: levels.len() + body.len(),
            stored_bytes: levels.len() + stored.len(),
            crc: crc.finalize(),
            values,
            data,
        };
        let header_bytes = out.add(|buffer| header.write(buffer), levels, stored)?;
        Ok(header_bytes + levels.len() + body.len())
    }

    /// The encodings possible for raw values, ordered by their size on a sample, smallest first.
    fn trial(&mut self, pages: &Pages, column_type: ColumnType) -> Vec<Form> {
        let physical = Physical::of(column_type);
        if physical == Physical::Bit {
            return vec![Form::Plain];
        }
        let mut sample: Vec<&[u64]> = vec![pages.page(0)];
        if pages.ends.len() > 1 {
            sample.push(pages.page(pages.ends.len() / 2));
        }
        let candidates = [Form::Delta, Form::DeltaBytes, Form::Split, Form::Plain, Form::Dictionary];
        let mut sizes: Vec<(usize, Form)> = Vec::new();
        for candidate in candidates {
            // Parquet's delta encoding is for integers only.
            if candidate.encoding() == Encoding::DeltaBinaryPacked && column_type.is_float() {
                continue;
            }
            let mut bytes = 0;
            for &values in &sample {
                self.body.clear();
                if candidate == Form::Dictionary {
                    let Some(dictionary) = raw_dictionary(values, physical) else {
                        bytes = usize::MAX / 2;
                        break;
                    };
                    let width = width_of(dictionary.entries.saturating_sub(1) as u64);
                    encoding::put_hybrid(&dictionary.codes, width, &mut self.body);
                    // A dictionary pays off only if its entries recur. Its size is then negligible
                    // next to the whole column.
                    if dictionary.entries * 4 > values.len() {
                        bytes += dictionary.bytes.len();
                    }
                } else {
                    put_values(values, candidate, physical, &mut self.body);
                }
                let body = std::mem::take(&mut self.body);
                bytes += self.zstd(candidate).compress(&body).map_or(usize::MAX / 4, |c| c.len().min(body.len()));
                self.body = body;
            }
            sizes.push((bytes, candidate));
        }
        sizes.sort_by_key(|&(bytes, _)| bytes);
        let slack = sample.iter().map(|values| values.len()).sum::<usize>() / TIGHT_SLACK_VALUES;
        if let Some(tight) = sizes.iter().position(|&(_, form)| form == Form::Delta)
            && sizes[0].1 == Form::DeltaBytes
            && sizes[tight].0 <= sizes[0].0 + slack
        {
            sizes[..=tight].rotate_right(1);
        }
        sizes.into_iter().map(|(_, form)| form).collect()
    }

    fn statistics(
        &self,
        column: &Column,
        (pages, nulls): (&Pages, usize),
        pool: Option<&Pool>,
        facts: &mut ColumnFacts,
    ) -> Result<()> {
        let extremes = Extremes { column_type: column.column_type, pool };
        let mut index = ColumnIndexBuilder::new(encoding::parquet_type(column.column_type));
        let mut whole: Option<(u64, u64)> = None;
        for (number, &(rows, _)) in pages.ends.iter().enumerate() {
            let values = pages.page(number);
            let nulls = (rows - values.len()) as i64;
            if values.is_empty() {
                index.append(true, Vec::new(), Vec::new(), nulls);
                continue;
            }
            let stored = extremes.of(values).and_then(|(least, most)| {
                whole =
                    Some(whole.map_or((least, most), |(l, m)| (extremes.lesser(least, l), extremes.greater(most, m))));
                Some((extremes.bytes(least, false)?, extremes.bytes(most, true)?))
            });
            // The column index has all pages, or there is none.
            let Some((least, most)) = stored else { return Ok(()) };
            index.append(false, least, most, nulls);
        }
        if !pages.ends.is_empty() {
            facts.column_index = index.build()?;
            facts.statistics = whole.and_then(|(least, most)| extremes.statistics(least, most, nulls as u64));
        }
        Ok(())
    }
}

/// A way to write values. Two of them are the same encoding to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    /// Differences in minimal bits.
    Delta,
    /// Differences in whole bytes, to be compressed by zstd.
    DeltaBytes,
    Dictionary,
    Split,
}

impl Form {
    fn encoding(self) -> Encoding {
        match self {
            Self::Plain => Encoding::Plain,
            Self::Delta | Self::DeltaBytes => Encoding::DeltaBinaryPacked,
            Self::Dictionary => Encoding::Dictionary,
            Self::Split => Encoding::ByteStreamSplit,
        }
    }
}

fn put_values(values: &[u64], form: Form, physical: Physical, out: &mut Vec<u8>) {
    match form {
        Form::Delta => encoding::put_delta(values, physical, false, out),
        Form::DeltaBytes => encoding::put_delta(values, physical, true, out),
        Form::Split => encoding::put_byte_stream_split(values, physical, out),
        Form::Plain | Form::Dictionary => encoding::put_plain(values, physical, out),
    }
}

fn width_of(most: u64) -> u32 {
    64 - most.leading_zeros()
}

struct Dictionary {
    codes: Vec<u64>,
    entries: usize,
    /// The entries in plain encoding.
    bytes: Vec<u8>,
}

/// The dictionary of a text column; `None` if it has too many entries to pay off.
fn text_dictionary(codes: &[u64], pool: &Pool, physical: Physical) -> Option<Dictionary> {
    let most = if codes.len() < 64 { codes.len() } else { MAX_DICTIONARY.min(codes.len() / 2) };
    let mut numbers = vec![u32::MAX; pool.len()];
    let (mut entries, mut entry_bytes) = (Vec::new(), 0);
    let mut numbered = Vec::with_capacity(codes.len());
    for &code in codes {
        let number = &mut numbers[code as usize];
        if *number == u32::MAX {
            *number = entries.len() as u32;
            entries.push(code as u32);
            entry_bytes += LENGTH_BYTES + pool.get(code as u32).len();
            if entries.len() > most || entry_bytes > MAX_DICTIONARY_BYTES {
                return None;
            }
        }
        numbered.push(u64::from(*number));
    }
    let mut bytes = Vec::with_capacity(entry_bytes);
    entries.iter().for_each(|&entry| physical.put_bytes(&mut bytes, pool.get(entry)));
    Some(Dictionary { codes: numbered, entries: entries.len(), bytes })
}

fn raw_dictionary(values: &[u64], physical: Physical) -> Option<Dictionary> {
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let mut entries = Vec::new();
    let mut codes = Vec::with_capacity(values.len());
    let mut before: Option<(u64, u32)> = None;
    for &value in values {
        let number = match before {
            Some((same, number)) if same == value => number,
            _ => *numbers.entry(value).or_insert_with(|| {
                entries.push(value);
                entries.len() as u32 - 1
            }),
        };
        if entries.len() > MAX_DICTIONARY {
            return None;
        }
        before = Some((value, number));
        codes.push(u64::from(number));
    }
    let mut bytes = Vec::new();
    encoding::put_plain(&entries, physical, &mut bytes);
    Some(Dictionary { codes, entries: entries.len(), bytes })
}

/// Minima and maxima in the order of Parquet's statistics.
struct Extremes<'a> {
    column_type: ColumnType,
    pool: Option<&'a Pool>,
}

impl Extremes<'_> {
    fn is_less(&self, a: u64, b: u64) -> bool {
        match self.pool {
            Some(pool) => a != b && pool.get(a as u32) < pool.get(b as u32),
            None if self.column_type.is_float() => as_float(a, self.column_type) < as_float(b, self.column_type),
            None => as_integer(a, self.column_type) < as_integer(b, self.column_type),
        }
    }

    fn lesser(&self, a: u64, b: u64) -> u64 {
        if self.is_less(a, b) { a } else { b }
    }

    fn greater(&self, a: u64, b: u64) -> u64 {
        if self.is_less(b, a) { a } else { b }
    }

    /// `None` if a value is unordered: NaN.
    fn of(&self, values: &[u64]) -> Option<(u64, u64)> {
        let float = self.column_type.is_float();
        let first = values[0];
        if self.pool.is_none() && !float && self.column_type != ColumnType::UInt64 {
            let mut extremes = (first as i64, first as i64);
            for &value in values {
                extremes = (extremes.0.min(value as i64), extremes.1.max(value as i64));
            }
            return Some((extremes.0 as u64, extremes.1 as u64));
        }
        let (mut least, mut most, mut before) = (first, first, first);
        for &value in values {
            if float && as_float(value, self.column_type).is_nan() {
                return None;
            }
            if value != before {
                before = value;
                least = self.lesser(value, least);
                most = self.greater(value, most);
            }
        }
        Some((least, most))
    }

    /// The value's plain bytes. The sign of a zero is chosen so that the range includes both -0 and
    /// 0.
    fn bytes(&self, value: u64, most: bool) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.pool {
            Some(pool) => {
                let value = pool.get(value as u32);
                if value.len() > MAX_STATISTICS_BYTES {
                    return None;
                }
                bytes.extend_from_slice(value);
            }
            None if self.column_type == ColumnType::Boolean => bytes.push(value as u8),
            None => encoding::put_plain(&[self.signed_zero(value, most)], Physical::of(self.column_type), &mut bytes),
        }
        Some(bytes)
    }

    fn signed_zero(&self, value: u64, most: bool) -> u64 {
        let zero = self.column_type.is_float() && as_float(value, self.column_type) == 0.0;
        match (zero, most, self.column_type) {
            (false, ..) => value,
            (true, true, _) => 0,
            (true, false, ColumnType::Float32) => u64::from((-0.0f32).to_bits()),
            (true, false, _) => (-0.0f64).to_bits(),
        }
    }

    fn statistics(&self, least: u64, most: u64, nulls: u64) -> Option<Statistics> {
        let (least, most) = (self.signed_zero(least, false), self.signed_zero(most, true));
        let nulls = Some(nulls);
        Some(match Physical::of(self.column_type) {
            Physical::Bit => Statistics::boolean(Some(least == 1), Some(most == 1), None, nulls, false),
            Physical::Four { .. } if self.column_type.is_float() => Statistics::float(
                Some(f32::from_bits(least as u32)),
                Some(f32::from_bits(most as u32)),
                None,
                nulls,
                false,
            ),
            Physical::Four { .. } => Statistics::int32(Some(least as i32), Some(most as i32), None, nulls, false),
            Physical::Eight if self.column_type.is_float() => {
                Statistics::double(Some(f64::from_bits(least)), Some(f64::from_bits(most)), None, nulls, false)
            }
            Physical::Eight => Statistics::int64(Some(least as i64), Some(most as i64), None, nulls, false),
            Physical::Fixed => Statistics::fixed_len_byte_array(
                Some(FixedLenByteArray::from(self.bytes(least, false)?)),
                Some(FixedLenByteArray::from(self.bytes(most, true)?)),
                None,
                nulls,
                false,
            ),
            Physical::Bytes => Statistics::byte_array(
                Some(ByteArray::from(self.bytes(least, false)?)),
                Some(ByteArray::from(self.bytes(most, true)?)),
                None,
                nulls,
                false,
            ),
        })
    }
}
